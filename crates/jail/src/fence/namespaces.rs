//! From a process of the host to the first process of namespaces of its own.
//!
//! What the host gives is tried first, in a child that ends at once: a process that has entered half of them
//! can't go back.

#![expect(
    unsafe_code,
    reason = "the process splits in two, and leaves its namespaces"
)]

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, getgid, getuid, set_dumpable_behavior,
    set_parent_process_death_signal, waitpid,
};
use rustix::thread::{UnshareFlags, set_no_new_privs, set_thread_groups, unshare_unsafe};

use super::{Part, Plan, Standing, bounds, landlock, network, root};

/// What is left of a process that has entered.
#[derive(Debug)]
pub enum Side {
    /// Behind the fence: the work is done here.
    Inside(Standing),
    /// Outside: it has waited for the inside to end, and ends like it.
    Outside(ExitCode),
}

/// Goes behind the fence. `let_go` closes what must not be held outside.
pub fn enter(plan: &Plan, let_go: impl FnOnce()) -> io::Result<Side> {
    let given = probe()?;
    if let Some(refused) = given.refused {
        if plan.network.is_some() {
            return Err(io::Error::other(format!(
                "a network of its own can't be had: {refused}"
            )));
        }
        return Ok(Side::Inside(without_namespaces(&refused)));
    }
    leave(given.as_user)?;
    // SAFETY: this process has one thread, so the child may go on as any process does.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // Whoever ends the outside ends all of it: the first process takes the others along.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            let standing = inside(plan)?;
            // Nobody behind the fence looks into this process or writes to it; ending its own user's
            // processes needs no privilege.
            set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
            set_no_new_privs(true)?;
            bounds::drop_capabilities()?;
            Ok(Side::Inside(standing))
        }
        child => {
            let_go();
            let code = outcome(child);
            // Behind the fence stands another one in its place.
            let _ = fs::remove_dir_all(&plan.scratch);
            Ok(Side::Outside(code))
        }
    }
}

/// Puts up what only the first process can.
fn inside(plan: &Plan) -> io::Result<Standing> {
    unshare(UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS)?;
    let listeners = match &plan.network {
        Some(ports) => network::make(ports)
            .map_err(|error| io::Error::new(error.kind(), format!("its own network: {error}")))?,
        None => Vec::new(),
    };
    let copied = root::make(plan)?;
    let mut parts = vec![
        Part::new("own files", None),
        Part::new("own working copy", copied),
        Part::new("own processes", None),
    ];
    parts.extend(bounds::parts());
    Ok(Standing {
        parts,
        private_root: true,
        listeners,
    })
}

fn without_namespaces(refused: &str) -> Standing {
    let mut parts = vec![
        Part::new("own files", Some(refused.to_owned())),
        Part::new("own working copy", Some(refused.to_owned())),
        Part::new(
            "own processes",
            landlock::scopes_missing().map(|signals| format!("{refused}; and {signals}")),
        ),
    ];
    parts.extend(bounds::parts());
    Standing {
        parts,
        private_root: false,
        listeners: Vec::new(),
    }
}

struct Given {
    /// Within a user namespace, so that even root has no power over the host.
    as_user: bool,
    /// Why there are no namespaces, and what to do.
    refused: Option<String>,
}

/// What this host gives: with a user namespace, or else for root without one.
fn probe() -> io::Result<Given> {
    let refused = |as_user| -> io::Result<Option<(u8, Errno)>> { in_a_child(|| steps(as_user)) };
    let Some(first) = refused(true)? else {
        return Ok(Given {
            as_user: true,
            refused: None,
        });
    };
    if getuid().is_root() && refused(false)?.is_none() {
        return Ok(Given {
            as_user: false,
            refused: None,
        });
    }
    Ok(Given {
        as_user: true,
        refused: Some(words(first)),
    })
}

/// What a refused step means, and what to do.
fn words((step, error): (u8, Errno)) -> String {
    let (what, advice) = match step {
        0 => (
            "a user namespace",
            "allow them (sysctl user.max_user_namespaces; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; in a container its seccomp and AppArmor profiles)",
        ),
        1 => (
            "mounts in a namespace of its own",
            "allow them (on Ubuntu sysctl kernel.apparmor_restrict_unprivileged_userns=0; in a container its AppArmor profile)",
        ),
        _ => (
            "a /proc of its own",
            "in a container, start it with an unmasked /proc (Docker: --security-opt systempaths=unconfined)",
        ),
    };
    format!("the host refuses {what} ({error}): {advice}")
}

/// Enters everything on trial. The step that was refused, and the error.
fn steps(as_user: bool) -> Result<(), (u8, Errno)> {
    let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::PERM);
    leave(as_user).map_err(|error| (0, errno(error)))?;
    let inner = || -> Result<(), (u8, Errno)> {
        unshare(UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS)
            .map_err(|error| (1, errno(error)))?;
        let all = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
        mount_change("/", all).map_err(|error| (1, error))?;
        mount("tmpfs", "/tmp", "tmpfs", MountFlags::NOSUID, None).map_err(|error| (1, error))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", "/proc", "proc", flags, None).map_err(|error| (2, error))
    };
    match in_a_child(inner) {
        Ok(None) => Ok(()),
        Ok(Some(refused)) => Err(refused),
        Err(error) => Err((0, errno(error))),
    }
}

/// Does something in a child, and tells what was refused there.
fn in_a_child(work: impl FnOnce() -> Result<(), (u8, Errno)>) -> io::Result<Option<(u8, Errno)>> {
    let (mut ours, mut theirs) = UnixStream::pair()?;
    // SAFETY: this process has one thread, so the child may go on as any process does; it ends without
    // running anything of its parent's.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let told = match work() {
                Ok(()) => [u8::MAX, 0, 0, 0, 0],
                Err((step, error)) => {
                    let [a, b, c, d] = error.raw_os_error().to_le_bytes();
                    [step, a, b, c, d]
                }
            };
            // Whoever waits sees the end of the stream if nothing could be written.
            let _ = theirs.write_all(&told);
            // SAFETY: ends this process at once, without its parent's cleanups.
            unsafe { libc::_exit(0) }
        }
        child => {
            drop(theirs);
            let mut told = [0; 5];
            let heard = ours.read_exact(&mut told);
            outcome(child);
            let [step, number @ ..] = told;
            match heard {
                Err(_) => Ok(Some((0, Errno::PERM))),
                Ok(()) if step == u8::MAX => Ok(None),
                Ok(()) => Ok(Some((
                    step,
                    Errno::from_raw_os_error(i32::from_le_bytes(number)),
                ))),
            }
        }
    }
}

/// Leaves the host's users and processes: the next child is the first of its own.
fn leave(as_user: bool) -> io::Result<()> {
    if !as_user {
        return unshare(UnshareFlags::NEWPID);
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    // Root's further groups; others may not give theirs up, and nothing of them is in sight.
    let _ = set_thread_groups(&[]);
    unshare(UnshareFlags::NEWUSER)?;
    // Everybody keeps their number: files belong to whom they did. Root may see that all do.
    let all = "0 0 4294967295";
    if user != 0 || fs::write("/proc/self/uid_map", all).is_err() {
        fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    }
    if user != 0 || fs::write("/proc/self/gid_map", all).is_err() {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    unshare(UnshareFlags::NEWPID)
}

pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: of what these flags part, only the table of descriptors could break an invariant of Rust's,
    // and no flag here names it.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Waits for a child.
fn outcome(child: i32) -> ExitCode {
    loop {
        match waitpid(Pid::from_raw(child), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            Ok(Some((_, status))) if status.exit_status() == Some(0) => return ExitCode::SUCCESS,
            _ => return ExitCode::FAILURE,
        }
    }
}
