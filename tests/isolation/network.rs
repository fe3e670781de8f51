//! Attempts to reach somebody who listens on this host.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::prisoner::Prisoner;

/// Answers every connection that sends something with one page, on a port of loopback.
fn peer() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut head = [0; 1024];
            if matches!(stream.read(&mut head), Ok(1..)) {
                let page = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage";
                let _ = stream.write_all(page.as_bytes());
            }
        }
    });
    port
}

fn got(told: &Value) -> bool {
    let rewards = &told["verdict"]["rewards"];
    assert_eq!(rewards.as_array().map(Vec::len), Some(1), "{told:#}");
    rewards[0] == json!(1.0)
}

pub(crate) fn none(prisoner: &Prisoner) {
    let (door, wall) = (peer(), peer());
    let none = json!({"mode": "none"});
    for reached in ["connect", "fetch"] {
        let to = |port: u16| json!({"try": reached, "port": port});
        let told = prisoner.attempt_with(&to(door), &none, &[door]);
        assert!(got(&told), "the door is open: {told:#}");
        let told = prisoner.attempt_with(&to(wall), &none, &[door]);
        assert!(!got(&told), "{told:#}");
        let told = prisoner.attempt_with(&to(wall), &json!({"mode": "full"}), &[]);
        assert!(got(&told), "the peer is there: {told:#}");
    }
    let told = prisoner.attempt_with(&json!({"try": "interfaces"}), &none, &[door]);
    assert!(!got(&told), "{told:#}");
}

pub(crate) fn proxy(prisoner: &Prisoner) {
    let (allowed, other, door) = (peer(), peer(), peer());
    let proxy = json!({"mode": "proxy", "allow": [format!("127.0.0.1:{allowed}")]});
    let attempt = |what: &str, port: u16| {
        let told = prisoner.attempt_with(&json!({"try": what, "port": port}), &proxy, &[door]);
        (got(&told), told)
    };
    for through in ["fetch_by_proxy", "tunnel"] {
        let (reached, told) = attempt(through, allowed);
        assert!(reached, "{told:#}");
        let counted = &told["egress"];
        assert!(
            counted[0].as_u64() > Some(0) && counted[1].as_u64() >= Some(4),
            "{told:#}"
        );
        let (reached, told) = attempt(through, other);
        assert!(!reached, "{told:#}");
        assert_eq!(told["egress"], json!([0, 0]), "{told:#}");
        assert!(
            told["lines"].to_string().contains("isn't in network_allow") || through == "tunnel",
            "{told:#}"
        );
    }
    let (reached, told) = attempt("connect", allowed);
    assert!(!reached, "not past the proxy: {told:#}");
    let (reached, told) = attempt("connect", door);
    assert!(reached, "the door is open: {told:#}");
}
