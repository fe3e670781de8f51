//! The settings of the host that C libraries, TLS, names and locales read. Not `/etc` as such: it holds
//! secrets.

/// Files and folders that are shown as they are.
pub(super) const SETTINGS: [&str; 22] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/nsswitch.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls",
    "/etc/pki/ca-trust",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/fonts",
];

/// The users that programs look for: who runs, root, and nobody. The host's are none of a plugin's business.
pub(super) fn passwd(user: u32, group: u32, home: &str) -> String {
    let mut text = String::new();
    if user != 0 {
        text.push_str("root:x:0:0:root:/:/bin/sh\n");
    }
    if user != 65534 {
        text.push_str("nobody:x:65534:65534:nobody:/:/bin/false\n");
    }
    format!("{text}paddock:x:{user}:{group}:paddock:{home}:/bin/sh\n")
}

/// Their groups.
pub(super) fn group(group: u32) -> String {
    let mut text = String::new();
    if group != 0 {
        text.push_str("root:x:0:\n");
    }
    if group != 65534 {
        text.push_str("nogroup:x:65534:\n");
    }
    format!("{text}paddock:x:{group}:\n")
}
