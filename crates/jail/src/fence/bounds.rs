//! What is put on a process between fork and exec. It can't be taken off again, and whatever the process
//! starts is bound as well.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::landlock::{self, Ruleset};
use super::seccomp::{self, Filter};
use super::{Part, Plan, Standing, view};

/// Bounds that are ready to be put on: made before the fork, since nothing may be allocated after it.
#[derive(Debug)]
pub struct Bounds {
    files: Option<Ruleset>,
    calls: Option<Filter>,
}

impl Bounds {
    /// Makes them ready, behind what stands already.
    pub fn new(plan: &Plan, standing: &Standing) -> io::Result<Self> {
        let rules = || match standing.private_root {
            true => view::private(plan),
            false => view::of_host(plan),
        };
        Ok(Self {
            files: match landlock::missing() {
                None => Some(Ruleset::new(&rules())?),
                Some(_) => None,
            },
            calls: seccomp::missing().is_none().then(Filter::new),
        })
    }

    /// Puts them on this process, for good. Allocates nothing.
    pub fn put_on(&self) -> io::Result<()> {
        set_no_new_privs(true)?;
        own_keyring();
        if let Some(files) = &self.files {
            files.restrict()?;
        }
        drop_capabilities()?;
        if let Some(calls) = &self.calls {
            calls.install()?;
        }
        Ok(())
    }
}

/// What this machine gives of them.
pub(super) fn parts() -> Vec<Part> {
    vec![
        Part::new("privileges", None),
        Part::new("system calls", seccomp::missing()),
        Part::new("file rules", landlock::missing()),
        Part::new("abstract sockets", landlock::scopes_missing()),
    ]
}

/// A session keyring of its own: what its user has put in theirs is out of sight.
#[expect(unsafe_code, reason = "no crate in the tree has this call")]
fn own_keyring() {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    let unnamed = std::ptr::null::<u8>();
    // SAFETY: takes no pointer but null, which asks for a keyring without a name. Where the kernel has no
    // keyrings there is nothing to hide.
    let _ = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, unnamed) };
}

pub(super) fn drop_capabilities() -> io::Result<()> {
    // Without a right to ambient capabilities there are none.
    let _ = clear_ambient_capability_set();
    for number in 0..u64::BITS {
        // Only who has CAP_SETPCAP may; for others `no_new_privs` keeps an exec from giving any back.
        let one = CapabilitySet::from_bits_retain(1 << number);
        if remove_capability_from_bounding_set(one).is_err() {
            break;
        }
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, none)?)
}
