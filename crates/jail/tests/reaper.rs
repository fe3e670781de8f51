//! The reaper on real processes: exits told, families ended, nothing left behind.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use paddock_jail::channel::{Inbox, send};
use paddock_jail::message::Exit;
use paddock_jail::process::read;
use paddock_jail::{Report, Request};

const PATIENCE: Duration = Duration::from_secs(20);

struct Reaper {
    child: Child,
    control: UnixStream,
    inbox: Inbox,
}

impl Reaper {
    fn new() -> Self {
        let (control, theirs) = UnixStream::pair().expect("a socket pair");
        let child = Command::new(env!("CARGO_BIN_EXE_jail-reaper"))
            .stdin(OwnedFd::from(theirs))
            .spawn()
            .expect("the reaper starts");
        let mut reaper = Self {
            child,
            control,
            inbox: Inbox::default(),
        };
        reaper.ask(&Request::Fence { plan: None });
        let parts = Vec::new();
        assert_eq!(reaper.report(), Report::Fenced { parts });
        reaper
    }

    fn shell(&mut self, script: &str, scratch: Option<&Path>) -> i32 {
        let (_ours, socket) = UnixStream::pair().expect("a socket pair");
        let null = std::fs::File::options()
            .write(true)
            .open("/dev/null")
            .expect("it is there");
        let request = Request::Start {
            argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: "/".into(),
            scratch: scratch.map(Into::into),
        };
        let fds = [socket.as_fd(), null.as_fd(), null.as_fd()];
        send(&self.control, &request, &fds).expect("sent");
        match self.report() {
            Report::Started { pid } => pid,
            other => panic!("expected a start, got {other:?}"),
        }
    }

    fn ask(&self, request: &Request) {
        send(&self.control, request, &[]).expect("sent");
    }

    fn report(&mut self) -> Report {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(report) = self.inbox.next_message().expect("whole") {
                return report;
            }
            assert!(Instant::now() < deadline, "no report came");
            match self.inbox.receive(&self.control) {
                Ok(count) => assert_ne!(count, 0, "the reaper is gone"),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Reports until the one that is wanted, which is given back with all before it.
    fn until(&mut self, wanted: &Report) -> Vec<Report> {
        let mut seen = Vec::new();
        while seen.last() != Some(wanted) {
            seen.push(self.report());
        }
        seen
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "still waiting: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pid_in(file: &Path) -> i32 {
    eventually("a process id is written", || {
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    })
}

fn ended(pid: i32) -> bool {
    read(pid).is_none_or(|p| p.ended)
}

#[test]
fn exits_are_told_with_their_code_or_signal() {
    let mut reaper = Reaper::new();
    let pid = reaper.shell("exit 7", None);
    let exit = Exit::Code(7);
    assert_eq!(reaper.report(), Report::Exit { pid, exit });
    let pid = reaper.shell("kill -SEGV $$", None);
    let exit = Exit::Signal(11);
    assert_eq!(reaper.report(), Report::Exit { pid, exit });
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let mut reaper = Reaper::new();
    let (_ours, socket) = UnixStream::pair().expect("a socket pair");
    let request = Request::Start {
        argv: vec!["/no/such/program".into()],
        env: Vec::new(),
        cwd: "/".into(),
        scratch: None,
    };
    let fd = socket.as_fd();
    send(&reaper.control, &request, &[fd, fd, fd]).expect("sent");
    assert!(matches!(reaper.report(), Report::StartFailed { .. }));
}

#[test]
fn a_process_is_killed_with_all_it_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let (child, daemon) = (folder.path().join("child"), folder.path().join("daemon"));
    let mut reaper = Reaper::new();
    // A child that ignores the polite signals, and a grandchild in a session of its own whose
    // parent stays.
    let pid = reaper.shell(
        &format!(
            "sh -c 'trap \"\" TERM HUP INT; echo $$ > {child}; while :; do sleep 1; done' & \
             setsid sh -c 'echo $$ > {daemon}; while :; do sleep 1; done' & wait",
            child = child.display(),
            daemon = daemon.display()
        ),
        None,
    );
    let (child, daemon) = (pid_in(&child), pid_in(&daemon));
    reaper.ask(&Request::Kill { pid });
    let seen = reaper.until(&Report::Gone { pid });
    let exit = Exit::Signal(9);
    assert!(seen.contains(&Report::Exit { pid, exit }), "{seen:?}");
    assert!(ended(pid) && ended(child) && ended(daemon));
}

#[test]
fn a_stranger_is_not_killed() {
    let mut stranger = Command::new("sleep").arg("60").spawn().expect("it starts");
    let mut reaper = Reaper::new();
    let pid = stranger.id() as i32;
    reaper.ask(&Request::Kill { pid });
    assert_eq!(reaper.report(), Report::Gone { pid });
    assert_eq!(stranger.try_wait().expect("it can be asked"), None);
    stranger.kill().expect("killed");
    stranger.wait().expect("collected");
}

#[test]
fn the_end_of_the_lifeline_is_the_end_of_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let scratch = folder.path().join("scratch");
    std::fs::create_dir(&scratch).expect("made");
    let daemon = folder.path().join("daemon");
    let mut reaper = Reaper::new();
    let pid = reaper.shell(
        &format!(
            "(setsid sh -c 'echo $$ > {}; while :; do sleep 1; done' &) ; \
             echo x > {}/left; while :; do sleep 1; done",
            daemon.display(),
            scratch.display()
        ),
        Some(&scratch),
    );
    let daemon = pid_in(&daemon);
    reaper
        .control
        .shutdown(std::net::Shutdown::Both)
        .expect("shut");
    let status = reaper.child.wait().expect("it ends");
    assert!(status.success(), "{status}");
    assert!(ended(pid) && ended(daemon));
    assert!(!scratch.exists(), "the scratch folder is removed");
}
