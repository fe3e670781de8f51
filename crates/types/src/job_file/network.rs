//! The hosts that plugins may reach under `network: proxy`.

use super::reader::{Fields, Reader};
use crate::job::Network;

const HOSTS: &str = "a list of hosts, such as [\"api.example.org\", \"*.example.org:443\"]; \"*\" is every public host";

/// Reads `network_allow`, which belongs to `network: proxy` and to nothing else.
pub(super) fn allow(reader: &mut Reader<'_>, fields: &Fields<'_>, network: &mut Network) {
    let slot = fields.get("network_allow");
    match (network, slot) {
        (Network::Proxy { allow }, Some(slot)) => {
            let hosts = reader.items(&slot, HOSTS);
            if hosts.is_empty() {
                reader.refuse(&slot, "network_allow names no host".to_owned(), HOSTS);
            }
            for host in hosts {
                match reader.text(&host) {
                    Some(text) if is_host(&text) => allow.push(text),
                    Some(text) => reader.refuse(&host, format!("\"{text}\" is no host"), HOSTS),
                    None => {}
                }
            }
        }
        (Network::Proxy { .. }, None) => reader.missing(
            fields,
            "network_allow",
            "name the hosts that plugins may reach: `network_allow: [api.example.org]`",
        ),
        (Network::Full | Network::None, Some(slot)) => reader.refuse(
            &slot,
            "network_allow stands without `network: proxy`".to_owned(),
            "it only together with `network: proxy`",
        ),
        (Network::Full | Network::None, None) => {}
    }
}

/// A host, `host:port`, `*.domain` or `*`; no address of a page.
pub fn is_host(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]*".contains(c);
    !text.is_empty() && text.chars().all(plain) && !text.trim_start_matches('*').contains('*')
}
