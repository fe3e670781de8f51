//! Attempts that need something of the host's to go for.

use std::fs;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;

use serde_json::json;

use crate::prisoner::{MARK, Prisoner};

pub(crate) fn read(prisoner: &Prisoner) {
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    let own = prisoner.folder.path().to_string_lossy().into_owned();
    let paths = [
        "/etc/shadow".to_owned(),
        "/etc/sudoers".to_owned(),
        "/root/.profile".to_owned(),
        "/root/.bashrc".to_owned(),
        "/home".to_owned(),
        "/var".to_owned(),
        "/run".to_owned(),
        "/boot".to_owned(),
        "/proc/kcore".to_owned(),
        "/proc/1/root/etc/shadow".to_owned(),
        format!("{home}/.ssh"),
        format!("{home}/.bash_history"),
        format!("{own}/other"),
        format!("{own}/other/plugin.py"),
        format!("{own}/project/.paddock"),
        format!("{own}/project/.paddock/paddock.db"),
        env!("CARGO_MANIFEST_DIR").to_owned() + "/Cargo.toml",
    ];
    prisoner.held(&json!({"try": "read", "paths": paths}));
}

pub(crate) fn write(prisoner: &Prisoner) {
    let own = prisoner.folder.path().to_string_lossy().into_owned();
    let paths = [
        "/x",
        "/usr/x",
        "/etc/x",
        "/etc/passwd",
        "/dev/x",
        "/proc/sys/kernel/hostname",
        "/proc/sysrq-trigger",
        &format!("{own}/other/x"),
        &format!("{own}/project/.paddock/x"),
    ];
    prisoner.held(&json!({"try": "write", "paths": paths}));
    // Below its own `/tmp` stands nothing of the host's: what it writes there, nobody else sees.
    let beside = format!("{own}/x");
    prisoner.attempt(&json!({"try": "write", "paths": [beside, "/tmp/x"]}));
    assert!(!prisoner.at("x").exists());
    // What it writes to its working copy it writes to a copy.
    let file = prisoner.project().join("intruder.py");
    let before = fs::read(&file).expect("it is there");
    let told = prisoner.attempt(&json!({"try": "write", "paths": ["intruder.py", "new.txt"]}));
    assert_eq!(told["verdict"]["rewards"], json!([1.0]), "{told:#}");
    assert!(!prisoner.project().join("new.txt").exists());
    assert_eq!(fs::read(&file).expect("it is there"), before);
}

pub(crate) fn processes(prisoner: &Prisoner) {
    let mut bystander = Command::new("sleep")
        .args(["600"])
        .env("MARK", MARK)
        .spawn()
        .expect("it starts");
    prisoner.held(&json!({"try": "host_processes", "mark": MARK}));
    prisoner.held(&json!({"try": "signal"}));
    prisoner.held(&json!({"try": "memory_of_reaper"}));
    assert!(bystander.try_wait().expect("asked").is_none(), "it lives");
    bystander.kill().expect("killed");
    bystander.wait().expect("collected");
}

pub(crate) fn abstract_socket(prisoner: &Prisoner) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("it is there");
    let mut numbers = release.split('.').map_while(|n| n.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(12)) {
        eprintln!("skipped: Linux {release} has no rule for them, 6.12 has");
        return;
    }
    let name = format!("paddock-isolation-{}", prisoner.folder.path().display());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("bound");
    prisoner.held(&json!({"try": "abstract_socket", "name": name}));
}

pub(crate) fn leftovers(prisoner: &Prisoner) {
    let folder = prisoner.folder.path().to_string_lossy().into_owned();
    let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("it is there");
    prisoner.held(&json!({"try": "innocence"}));
    assert!(!mounts().contains(&folder), "no mount is seen by the host");
    let mut left: Vec<_> = fs::read_dir(prisoner.project())
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    left.sort();
    assert_eq!(left, [".paddock", "intruder.py"]);
}
