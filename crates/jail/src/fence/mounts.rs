//! Mounts, one by one.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};

/// Something of the host's, by a copy of its mount.
pub(super) struct Source {
    pub(super) path: PathBuf,
    folder: bool,
    tree: OwnedFd,
}

impl Source {
    pub(super) fn open(path: PathBuf, read_only: bool) -> io::Result<Self> {
        let named = |error: io::Error| named(&path, &error);
        let folder = fs::metadata(&path).map_err(named)?.is_dir();
        let tree = open_tree_of(&path)?;
        let mut flags = libc::MOUNT_ATTR_NOSUID;
        if folder {
            flags |= libc::MOUNT_ATTR_NODEV;
        }
        if read_only {
            flags |= libc::MOUNT_ATTR_RDONLY;
        }
        restrict(&tree, flags, true).map_err(named)?;
        Ok(Self { path, folder, tree })
    }

    pub(super) fn show_at(&self, target: &Path) -> io::Result<()> {
        let made = match (self.folder, target.parent()) {
            (true, _) => make_folder(target),
            (false, Some(parent)) => make_folder(parent).and_then(|()| touch(target)),
            (false, None) => Ok(()),
        };
        made.and_then(|()| place(&self.tree, target))
            .map_err(|error| named(&self.path, &error))
    }
}

pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

pub(super) fn mount_tmpfs(at: &Path, options: &str) -> io::Result<()> {
    let options =
        CString::new(options).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options = Some(options.as_c_str());
    mount("tmpfs", at, "tmpfs", flags, options).map_err(|error| named(at, &error.into()))
}

/// Covers a folder with an empty one.
pub(super) fn hide(folder: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
    let options = Some(c"mode=555,size=4k,nr_inodes=2");
    mount("tmpfs", folder, "tmpfs", flags, options).map_err(|error| named(folder, &error.into()))
}

pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    let mut folders = DirBuilder::new();
    let made = folders.recursive(true).mode(0o755).create(path);
    made.map_err(|error| named(path, &error))
}

/// A file to mount on; it may be there already, below something that is shown.
fn touch(path: &Path) -> io::Result<()> {
    if !path.exists() {
        File::create(path)?;
    }
    Ok(())
}

pub(super) fn bind(from: &Path, to: &Path) -> io::Result<()> {
    place(&open_tree_of(from)?, to)
}

pub(super) fn open_tree_of(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags).map_err(|error| named(path, &error.into()))
}

pub(super) fn place(tree: &OwnedFd, at: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, "", CWD, at, flags).map_err(|error| named(at, &error.into()))
}

/// Sets attributes of a mount and, if wished, of all below it.
#[expect(unsafe_code, reason = "no crate in the tree has this call")]
pub(super) fn restrict(tree: impl AsFd, set: u64, all: bool) -> io::Result<()> {
    // SAFETY: a structure of numbers, for which 0 is a value.
    let mut attr: libc::mount_attr = unsafe { std::mem::zeroed() };
    attr.attr_set = set;
    let mut flags = libc::AT_EMPTY_PATH;
    if all {
        flags |= libc::AT_RECURSIVE;
    }
    // SAFETY: the path is empty and ends with 0; `attr` is the kernel's own layout and lives through the call.
    let told = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    match told {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
