//! Landlock: which files a process may reach, decided by itself and for good, without a privilege.

#![expect(
    unsafe_code,
    reason = "the kernel's interface is three bare system calls"
)]

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// The rights of each version of the interface, first to fifth: the rights of the latest that the kernel
/// knows are all handled, so what isn't granted is refused.
const HANDLED: [u64; 5] = [0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff];
/// What makes sense for a file that is no folder.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
/// From the sixth version on: no signal and no abstract socket leaves the fence.
const SCOPES: u64 = 0b11;

/// How far a rule goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Read, list, execute.
    Read,
    /// Everything.
    Write,
}

/// A file or folder, with all below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    path: PathBuf,
    access: Access,
}

impl Rule {
    pub(super) fn new(path: impl AsRef<Path>, access: Access) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            access,
        }
    }
}

#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// The version of the interface that this kernel has; 0 if none.
fn version() -> usize {
    const VERSION: u32 = 1;
    let nothing = std::ptr::null::<RulesetAttr>();
    // SAFETY: with this flag the kernel reads no attribute: null and 0 are what it asks for.
    let told = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0, VERSION) };
    usize::try_from(told).unwrap_or(0)
}

/// Why files can't be fenced here.
pub(super) fn missing() -> Option<String> {
    (version() == 0).then(|| {
        "the kernel has no Landlock: use 5.13 or newer, with \"landlock\" among its security modules (lsm=)"
            .to_owned()
    })
}

/// Why signals and sockets without a file can't be fenced here.
pub(super) fn scopes_missing() -> Option<String> {
    (version() < 6)
        .then(|| "the kernel's Landlock is too old for it: use Linux 6.12 or newer".to_owned())
}

/// Rules that are ready to be put on.
#[derive(Debug)]
pub(super) struct Ruleset(OwnedFd);

impl Ruleset {
    /// Opens what the rules name. What isn't there needs no rule.
    pub(super) fn new(rules: &[Rule]) -> io::Result<Self> {
        let version = version();
        let handled = HANDLED[version.clamp(1, HANDLED.len()) - 1];
        let attr = RulesetAttr {
            handled_access_fs: handled,
            handled_access_net: 0,
            scoped: if version >= 6 { SCOPES } else { 0 },
        };
        // Older kernels take a shorter one; a longer one whose rest is 0 they take too.
        let size = size_of::<RulesetAttr>();
        // SAFETY: `attr` is the kernel's own layout, initialised, and lives through the call.
        let fd =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attr, size, 0) };
        let fd = i32::try_from(fd)
            .ok()
            .filter(|fd| *fd >= 0)
            .ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel has just made this descriptor for us; nobody else holds it.
        let ruleset = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        for rule in rules {
            ruleset.add(rule, handled)?;
        }
        Ok(ruleset)
    }

    fn add(&self, rule: &Rule, handled: u64) -> io::Result<()> {
        const PATH_BENEATH: u32 = 1;
        let opened = File::options()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
            .open(&rule.path);
        let Ok(opened) = opened else { return Ok(()) };
        let mut access = handled
            & match rule.access {
                Access::Read => EXECUTE | READ_FILE | READ_DIR,
                Access::Write => u64::MAX,
            };
        if !fs::metadata(&rule.path)?.is_dir() {
            access &= OF_FILES;
        }
        let attr = PathBeneath {
            allowed_access: access,
            parent_fd: opened.as_raw_fd(),
        };
        // SAFETY: `attr` is the kernel's own layout, initialised, and lives through the call, as do both
        // descriptors.
        let told = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.0.as_raw_fd(),
                PATH_BENEATH,
                &raw const attr,
                0,
            )
        };
        if told == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Puts the rules on this process. It must have no way to new privileges.
    pub(super) fn restrict(&self) -> io::Result<()> {
        // SAFETY: takes numbers only; the descriptor is ours.
        let told =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.0.as_raw_fd(), 0) };
        if told == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
