//! Which system calls are refused: a list of those that no plugin needs and attackers do.
//!
//! A list of what is refused, not of what is allowed: plugins bring whatever libraries they like. A refused
//! call fails with `EPERM`, or as if the kernel didn't have it (`ENOSYS`) where libraries have another way
//! then. Calls of another architecture end the process: their numbers mean something else.

#![expect(unsafe_code, reason = "a filter is installed by a bare system call")]

use std::io;

use libc::{ENOSYS, EPERM, sock_filter};

/// Number, error, reason.
type Refused = (libc::c_long, i32, &'static str);

const REFUSED: &[Refused] = &[
    // What is mounted is decided outside.
    (libc::SYS_mount, EPERM, "mounts"),
    (libc::SYS_umount2, EPERM, "mounts"),
    (libc::SYS_pivot_root, EPERM, "mounts"),
    (libc::SYS_chroot, EPERM, "mounts"),
    (libc::SYS_move_mount, EPERM, "mounts"),
    (libc::SYS_open_tree, EPERM, "mounts"),
    (libc::SYS_fsopen, EPERM, "mounts"),
    (libc::SYS_fsconfig, EPERM, "mounts"),
    (libc::SYS_fsmount, EPERM, "mounts"),
    (libc::SYS_fspick, EPERM, "mounts"),
    (libc::SYS_mount_setattr, EPERM, "mounts"),
    // A namespace of its own would give a plugin every capability in it, and the kernel's bugs with them.
    (libc::SYS_unshare, EPERM, "namespaces"),
    (libc::SYS_setns, EPERM, "namespaces"),
    // Its flags are behind a pointer that a filter can't follow: without it, libraries use `clone`.
    (libc::SYS_clone3, ENOSYS, "namespaces"),
    // Other processes of the same user.
    (libc::SYS_ptrace, EPERM, "other processes"),
    (libc::SYS_process_vm_readv, EPERM, "other processes"),
    (libc::SYS_process_vm_writev, EPERM, "other processes"),
    (libc::SYS_kcmp, EPERM, "other processes"),
    (libc::SYS_pidfd_getfd, EPERM, "other processes"),
    (libc::SYS_process_madvise, EPERM, "other processes"),
    // Keys aren't behind any namespace.
    (libc::SYS_keyctl, EPERM, "keys"),
    (libc::SYS_add_key, EPERM, "keys"),
    (libc::SYS_request_key, EPERM, "keys"),
    // Large parts of the kernel that are of no use here and had their share of holes.
    (libc::SYS_bpf, EPERM, "attack surface"),
    (libc::SYS_perf_event_open, EPERM, "attack surface"),
    (libc::SYS_userfaultfd, EPERM, "attack surface"),
    (
        libc::SYS_io_uring_setup,
        ENOSYS,
        "attack surface; it also passes other filters by",
    ),
    (libc::SYS_io_uring_enter, ENOSYS, "attack surface"),
    (libc::SYS_io_uring_register, ENOSYS, "attack surface"),
    (libc::SYS_vmsplice, EPERM, "attack surface"),
    (libc::SYS_lookup_dcookie, EPERM, "attack surface"),
    (libc::SYS_fanotify_init, EPERM, "attack surface"),
    // Files by handle pass every path by.
    (libc::SYS_open_by_handle_at, EPERM, "files"),
    (libc::SYS_name_to_handle_at, EPERM, "files"),
    (libc::SYS_quotactl, EPERM, "files"),
    // The machine as a whole.
    (libc::SYS_init_module, EPERM, "the machine"),
    (libc::SYS_finit_module, EPERM, "the machine"),
    (libc::SYS_delete_module, EPERM, "the machine"),
    (libc::SYS_kexec_load, EPERM, "the machine"),
    (libc::SYS_kexec_file_load, EPERM, "the machine"),
    (libc::SYS_reboot, EPERM, "the machine"),
    (libc::SYS_swapon, EPERM, "the machine"),
    (libc::SYS_swapoff, EPERM, "the machine"),
    (libc::SYS_acct, EPERM, "the machine"),
    (libc::SYS_syslog, EPERM, "the machine"),
    (libc::SYS_settimeofday, EPERM, "the machine"),
    (libc::SYS_clock_settime, EPERM, "the machine"),
    (libc::SYS_clock_adjtime, EPERM, "the machine"),
    (libc::SYS_adjtimex, EPERM, "the machine"),
    (libc::SYS_sethostname, EPERM, "the machine"),
    (libc::SYS_setdomainname, EPERM, "the machine"),
    (libc::SYS_vhangup, EPERM, "the machine"),
    (libc::SYS_nfsservctl, EPERM, "the machine"),
    // Another personality turns the randomness of addresses off.
    (libc::SYS_personality, EPERM, "its own hardening"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_iopl, EPERM, "the machine"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_ioperm, EPERM, "the machine"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_modify_ldt, EPERM, "attack surface"),
];

/// `clone` with any of these makes a namespace.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
/// x86_64 has a second set of numbers for 32-bit pointers, from here on.
const X32: u32 = 0x4000_0000;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const IF_ANY: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Where the kernel's `seccomp_data` has them.
const AT_NUMBER: u32 = 0;
const AT_ARCHITECTURE: u32 = 4;
/// The low half of the first argument: both architectures are little-endian.
const AT_FIRST: u32 = 16;

/// Why system calls can't be filtered here.
pub(super) fn missing() -> Option<String> {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: `action` is the word that this operation reads, and lives through the call.
    let told = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            &raw const action,
        )
    };
    (told != 0).then(|| {
        "the kernel has no seccomp filters: use one built with CONFIG_SECCOMP_FILTER".to_owned()
    })
}

/// A program that is ready to be installed.
#[derive(Debug)]
pub(super) struct Filter(Vec<sock_filter>);

impl Filter {
    pub(super) fn new() -> Self {
        let refuse = |error: i32| step(RETURN, libc::SECCOMP_RET_ERRNO | error as u32, 0, 0);
        let mut program = vec![
            step(LOAD, AT_ARCHITECTURE, 0, 0),
            step(IF_EQUAL, ARCHITECTURE, 1, 0),
            step(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
            step(LOAD, AT_NUMBER, 0, 0),
            step(IF_AT_LEAST, X32, 0, 1),
            refuse(ENOSYS),
        ];
        for (number, error, _) in REFUSED {
            program.push(step(IF_EQUAL, *number as u32, 0, 1));
            program.push(refuse(*error));
        }
        program.extend([
            step(IF_EQUAL, libc::SYS_clone as u32, 0, 3),
            step(LOAD, AT_FIRST, 0, 0),
            step(IF_ANY, NAMESPACES, 0, 1),
            refuse(EPERM),
            step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
        ]);
        Self(program)
    }

    /// Installs it in this process, which must have no way to new privileges.
    pub(super) fn install(&self) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: self.0.len() as u16,
            filter: self.0.as_ptr().cast_mut(),
        };
        // SAFETY: the program's instructions live as long as `self`; the kernel copies and never writes them.
        let told = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                &raw const program,
            )
        };
        if told == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

const fn step(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_named_twice_and_each_has_a_reason() {
        let mut numbers: Vec<_> = REFUSED.iter().map(|r| r.0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), REFUSED.len());
        assert!(REFUSED.iter().all(|(.., reason)| !reason.is_empty()));
    }
}
