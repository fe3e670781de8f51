//! Real groups of whatever the host gives, and the files of version 2 on a folder that stands for one.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn group() -> Option<Group> {
    match Host::find().and_then(|host| host.group()) {
        Ok(group) => Some(group),
        Err(error) => {
            eprintln!("SKIPPED: no memory group can be made: {error}");
            None
        }
    }
}

/// A shell that begins once it is in the group.
fn shell(group: &Group, script: &str) -> Child {
    let mut child = Command::new("sh")
        .args(["-c", &format!("read go; {script}")])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    group.add(child.id() as i32).expect("added");
    drop(child.stdin.take());
    child
}

const EATS: &str =
    "head -c 200000000 /dev/zero | tail -c 200000000 >/dev/null & wait $!; kill -9 $$";

#[test]
fn a_kill_is_counted_in_the_victims_leaf_and_the_limit_where_it_was_met() {
    let Some(top) = group() else { return };
    let leaf = top.child("leaf").expect("made");
    let other = top.child("other").expect("made");
    top.limit_memory(16 << 20).expect("limited");
    let counts = |group: &Group| {
        let account = group.account().expect("opened");
        (
            account.kills().expect("told"),
            account.hits().expect("told"),
        )
    };
    let before = counts(&top);
    let status = shell(&leaf, EATS).wait().expect("ended");
    assert_eq!(status.signal(), Some(9));
    assert!(counts(&leaf).0 >= 1);
    assert_eq!(counts(&other).0, 0);
    assert!(counts(&top).1 > before.1, "{:?}", counts(&top));
    assert!(leaf.peak().expect("told") > 8 << 20);
    if leaf.forget_peak() {
        assert!(leaf.peak().expect("told") < 8 << 20);
    }
    assert!(leaf.cached().expect("told") < 16 << 20);
    for group in [leaf, other, top] {
        assert!(group.end(PATIENCE));
    }
}

#[test]
fn all_that_is_in_a_group_ends_with_it() {
    let Some(top) = group() else { return };
    let leaf = top.child("leaf").expect("made");
    let mut child = shell(&leaf, "setsid sleep 600 & exec sleep 600");
    let folders = top.folders();
    // Ours to collect meanwhile: a group may keep its dead until then.
    let waits = std::thread::spawn(move || child.wait().expect("ended"));
    assert!(top.end(PATIENCE), "with all that is below it");
    assert_eq!(waits.join().expect("no panic").signal(), Some(9));
    assert!(folders.iter().all(|folder| !folder.exists()));
}

#[test]
fn forks_without_end_are_bounded_and_ended() {
    let Some(group) = group() else { return };
    if !group.limit_pids(20).expect("no error") {
        eprintln!("SKIPPED: no pids controller");
        return;
    }
    let mut child = shell(&group, "f() { sleep 600 & f; }; f");
    let waits = std::thread::spawn(move || child.wait().expect("ended"));
    let deadline = Instant::now() + PATIENCE;
    while group.members().expect("told").len() < 19 {
        assert!(Instant::now() < deadline, "{:?}", group.members());
        std::thread::yield_now();
    }
    assert!(group.members().expect("told").len() <= 20);
    assert!(group.end(PATIENCE));
    waits.join().expect("no panic");
}

#[test]
fn the_host_is_told_as_it_is() {
    let probe = probe();
    assert_eq!(probe.version.is_some(), probe.memory);
    assert_eq!(probe.memory, group().is_some());
    assert_eq!(
        probe.problem.is_empty(),
        probe.memory && probe.cpu && probe.pids
    );
}

#[test]
fn version_two_is_written_as_the_kernel_reads_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let group = Group(Layout::Two(folder.path().join("group")));
    fs::create_dir(group.folder()).expect("made");
    for file in ["memory.max", "memory.swap.max", "cpu.max", "cgroup.procs"] {
        fs::write(group.folder().join(file), "").expect("written");
    }
    let text = |file: &str| fs::read_to_string(group.folder().join(file)).expect("read");
    group.limit_memory(64 << 20).expect("written");
    assert_eq!(
        (text("memory.max"), text("memory.swap.max")),
        ("67108864".into(), "0".into())
    );
    assert!(group.limit_cores(2).expect("written"));
    assert_eq!(text("cpu.max"), "50000 25000");
    fs::write(group.folder().join("cpu.weight"), "").expect("written");
    assert!(group.weigh(4).expect("written"));
    assert_eq!(text("cpu.weight"), "400");
    let stat = "usage_usec 9\nnr_periods 7\nnr_throttled 3\n";
    fs::write(group.folder().join("cpu.stat"), stat).expect("written");
    assert_eq!(group.throttled().ok(), Some((7, 3)));
    assert!(
        !group.limit_pids(64).expect("no error"),
        "there is no such file"
    );
    group.add(42).expect("written");
    assert_eq!(
        (text("cgroup.procs"), group.members().ok()),
        ("42".into(), Some(vec![42]))
    );
}

#[test]
fn cgroup_kill_of_version_two_is_used_where_it_is_mounted() {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("read");
    let root = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let place = fields.next()?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(place))
    });
    let made = root
        .zip(owner::name())
        .map(|(root, name)| Group::make(Layout::Two(root.join(name))));
    let Some(Ok(group)) = made else {
        eprintln!("SKIPPED: no group of version 2 can be made");
        return;
    };
    let mut child = shell(&group, "sleep 600");
    group.kill();
    assert_eq!(child.wait().expect("ended").signal(), Some(9));
    assert!(group.end(PATIENCE));
}
