//! The egress proxy: HTTP's `CONNECT` and absolute addresses, to hosts that are allowed, payload counted.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::doors::{Egress, copy_counted};

/// Longest head of a request: request line and headers.
const HEAD_LIMIT: usize = 64 << 10;
/// How long a head may take to come.
const HEAD_WAIT: Duration = Duration::from_secs(30);
/// How long connecting may take.
const CONNECT_WAIT: Duration = Duration::from_secs(20);

/// Serves one connection from behind the fence.
pub(crate) async fn serve(
    mut inner: TcpStream,
    allow: &[String],
    egress: &Egress,
) -> io::Result<()> {
    let Ok(head) = tokio::time::timeout(HEAD_WAIT, read_head(&mut inner)).await else {
        return refuse(&mut inner, 408, "the request's head didn't come in time").await;
    };
    let head = head?;
    let Some(asked) = parse(&head) else {
        let told = "send CONNECT host:port, or an absolute http:// address";
        return refuse(&mut inner, 400, told).await;
    };
    let outer = match connect(&asked, allow).await {
        Ok(outer) => outer,
        Err((status, told)) => {
            tracing::warn!("egress: {told}");
            return refuse(&mut inner, status, &told).await;
        }
    };
    match asked.forward {
        None => {
            inner
                .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                .await?
        }
        Some(forward) => {
            let mut outer = outer;
            outer.write_all(&forward).await?;
            egress.sent(forward.len());
            return copy_counted(inner, outer, egress).await;
        }
    }
    copy_counted(inner, outer, egress).await
}

/// What a plugin wants.
#[derive(Debug, PartialEq)]
struct Asked {
    host: String,
    port: u16,
    /// What is sent on first; `None` if it is a tunnel.
    forward: Option<Vec<u8>>,
}

/// Bytes up to the end of the head, and whatever came along after it.
async fn read_head(inner: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= HEAD_LIMIT || inner.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(head)
}

fn parse(bytes: &[u8]) -> Option<Asked> {
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if method == "CONNECT" {
        let (host, port) = authority(target, None)?;
        return Some(Asked {
            host,
            port,
            forward: None,
        });
    }
    let rest = target.strip_prefix("http://")?;
    let (place, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let (host, port) = authority(place, Some(80))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut forward = format!("{method} {slash}{path} {version}\r\n");
    let ours = |line: &&str| {
        let name = line
            .split(':')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        name == "connection" || name.starts_with("proxy-")
    };
    // One request a connection: the next may be for another host.
    for line in lines
        .filter(|line| !ours(line))
        .chain(["Connection: close"])
    {
        forward.push_str(line);
        forward.push_str("\r\n");
    }
    forward.push_str("\r\n");
    let mut forward = forward.into_bytes();
    forward.extend_from_slice(&bytes[end + 4..]);
    Some(Asked {
        host,
        port,
        forward: Some(forward),
    })
}

/// `host:port`, `[address]:port`, or without a port where there is a usual one.
fn authority(text: &str, usual: Option<u16>) -> Option<(String, u16)> {
    let text = text.rsplit('@').next()?;
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (text, usual?),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.trim_end_matches('.').to_ascii_lowercase(), port))
}

async fn connect(asked: &Asked, allow: &[String]) -> Result<TcpStream, (u16, String)> {
    let Asked { host, port, .. } = asked;
    if !allowed(host, *port, allow) {
        return Err((403, format!("{host}:{port} isn't in network_allow")));
    }
    let failed = |error: io::Error| (502, format!("{host}:{port} can't be reached: {error}"));
    let reach = async {
        let found = tokio::net::lookup_host((host.as_str(), *port))
            .await
            .map_err(failed)?;
        let written_out = host.parse::<IpAddr>().is_ok() && !allow_is_general(host, *port, allow);
        let found: Vec<SocketAddr> = found
            .filter(|address| written_out || is_public(address.ip()))
            .collect();
        if found.is_empty() {
            let told = format!(
                "{host}:{port} is an address of a private network: write the address itself into network_allow"
            );
            return Err((403, told));
        }
        TcpStream::connect(found.as_slice()).await.map_err(failed)
    };
    match tokio::time::timeout(CONNECT_WAIT, reach).await {
        Ok(outcome) => outcome,
        Err(_) => Err((504, format!("{host}:{port} doesn't answer"))),
    }
}

fn allowed(host: &str, port: u16, allow: &[String]) -> bool {
    allow.iter().any(|entry| matches(entry, host, port))
}

/// True if nothing but a pattern lets it through.
fn allow_is_general(host: &str, port: u16, allow: &[String]) -> bool {
    let exact = |entry: &&String| !entry.starts_with('*') && matches(entry, host, port);
    !allow.iter().any(|entry| exact(&entry))
}

fn matches(entry: &str, host: &str, port: u16) -> bool {
    let entry = entry.to_ascii_lowercase();
    let (name, wanted) = match authority(&entry, None) {
        Some((name, wanted)) => (name, Some(wanted)),
        None => (entry, None),
    };
    let named = match name.strip_prefix('*') {
        Some("") => true,
        Some(domain) => host.ends_with(domain) && host.len() > domain.len(),
        None => name == host,
    };
    named && wanted.is_none_or(|wanted| wanted == port)
}

/// True for an address that is nobody's inner network.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            let shared = a == 100 && (64..128).contains(&b);
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || shared
                || a == 0
                || a >= 240)
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public(v4.into()),
            None => {
                !(v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_multicast()
                    || v6.is_unique_local()
                    || v6.is_unicast_link_local())
            }
        },
    }
}

async fn refuse(inner: &mut TcpStream, status: u16, told: &str) -> io::Result<()> {
    let text = format!("paddock: {told}\n");
    let head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        match status {
            400 => "Bad Request",
            403 => "Forbidden",
            408 => "Request Timeout",
            504 => "Gateway Timeout",
            _ => "Bad Gateway",
        },
        text.len()
    );
    inner.write_all(head.as_bytes()).await?;
    inner.write_all(text.as_bytes()).await?;
    inner.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    #[test]
    fn a_tunnel_and_an_absolute_address_are_understood() {
        let tunnel = parse(b"CONNECT API.example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n");
        let expected = Asked {
            host: "api.example.org".into(),
            port: 443,
            forward: None,
        };
        assert_eq!(tunnel, Some(expected));
        let plain = parse(
            b"POST http://example.org/a?b HTTP/1.1\r\nHost: example.org\r\nProxy-Connection: keep-alive\r\n\r\nbody",
        );
        let forward = "POST /a?b HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\nbody";
        let plain = plain.expect("understood");
        assert_eq!((plain.host.as_str(), plain.port), ("example.org", 80));
        assert_eq!(plain.forward.as_deref(), Some(forward.as_bytes()));
        assert_eq!(parse(b"GET / HTTP/1.1\r\n\r\n"), None);
        assert_eq!(parse(b"GET http://x"), None);
        assert_eq!(parse(b"CONNECT x HTTP/1.1\r\n\r\n"), None);
    }

    #[test]
    fn entries_match_hosts_ports_and_domains() {
        assert!(allowed("example.org", 443, &allow(&["Example.org"])));
        assert!(!allowed("example.org", 80, &allow(&["example.org:443"])));
        assert!(allowed("a.example.org", 1, &allow(&["*.example.org"])));
        assert!(!allowed("example.org", 1, &allow(&["*.example.org"])));
        assert!(!allowed("badexample.org", 1, &allow(&["example.org"])));
        assert!(allowed("anything", 1, &allow(&["*"])));
        assert!(!allowed("anything", 1, &[]));
        assert!(allowed("::1", 80, &allow(&["[::1]:80"])));
    }

    #[test]
    fn only_an_address_that_is_written_out_may_be_private() {
        assert!(allow_is_general("127.0.0.1", 80, &allow(&["*"])));
        assert!(!allow_is_general(
            "127.0.0.1",
            80,
            &allow(&["*", "127.0.0.1:80"])
        ));
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "0.0.0.0",
        ] {
            assert!(
                !is_public(private.parse().expect("an address")),
                "{private}"
            );
        }
        for public in ["8.8.8.8", "2606:4700::1"] {
            assert!(is_public(public.parse().expect("an address")), "{public}");
        }
    }
}
