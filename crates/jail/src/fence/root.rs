//! A root of its own: what a plugin may see, read-only and in its usual place; what it may write, in memory
//! and of limited size.
//!
//! All that is shown is opened as a detached copy of its mount before anything is covered, so that no
//! source can be hidden by a target. Nothing here is seen by the host: it is another mount namespace.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::process::{chdir, getgid, getuid, pivot_root};

use super::mounts::{
    Source, bind, hide, make_folder, mount_tmpfs, named, open_tree_of, place, restrict,
};
use super::{Plan, etc, view};

/// What the root itself may hold: folders to mount on, and small files.
const ROOT_LIMIT: &str = "mode=755,size=8m,nr_inodes=65536";
/// Files and folders that a plugin may make.
const INODES: u32 = 1 << 18;
/// Where in the new root the writable layer stands until everything is taken from it.
const LAYER: &str = ".layer";
/// Of /proc, what only changes or tells of the host.
const PROC_READ_ONLY: [&str; 5] = ["sys", "sysrq-trigger", "irq", "bus", "fs"];
const PROC_HIDDEN: [&str; 5] = ["kcore", "keys", "timer_list", "sched_debug", "kallsyms"];

/// Makes the root and goes there. Says why the project is only copied, or not writable at all.
pub(super) fn make(plan: &Plan) -> io::Result<Option<String>> {
    let all = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", all)?;
    let mut sources = Vec::new();
    for path in view::readable(plan) {
        if !is_link(&path) {
            sources.push(Source::open(path, true)?);
        }
    }
    for path in &plan.shared {
        sources.push(Source::open(path.clone(), false)?);
    }
    let devices = view::DEVICES.iter().map(PathBuf::from);
    let devices: Vec<Source> = devices
        .filter(|path| path.exists())
        .map(|path| Source::open(path, false))
        .collect::<io::Result<_>>()?;
    // As a path, not as a copy: an overlay wants a mount of this namespace below it.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let project = open(&plan.project, flags, Mode::empty())
        .map_err(|error| named(&plan.project, &error.into()))?;
    let links = links(plan);
    let resolv = fs::read("/etc/resolv.conf").ok();

    let base = plan.scratch.clone();
    mount_tmpfs(&base, ROOT_LIMIT)?;
    let within = |path: &Path| base.join(path.strip_prefix("/").unwrap_or(path));
    let layer = base.join(LAYER);
    fs::create_dir(&layer)?;
    let limit = format!("mode=755,size={},nr_inodes={INODES}", plan.space);
    mount_tmpfs(&layer, &limit)?;
    for name in ["tmp", "shm", "upper", "work"] {
        DirBuilder::new().mode(0o755).create(layer.join(name))?;
    }
    for name in ["tmp", "shm"] {
        fs::set_permissions(layer.join(name), fs::Permissions::from_mode(0o1777))?;
    }

    // Writable first: what is shown in /tmp stands in the plugin's own.
    make_folder(&base.join("tmp"))?;
    bind(&layer.join("tmp"), &base.join("tmp"))?;
    for (path, target) in links {
        let link = within(&path);
        link.parent().map(make_folder).transpose()?;
        symlink(target, link)?;
    }
    let (above, below): (Vec<Source>, Vec<Source>) = sources
        .into_iter()
        .partition(|source| !source.path.starts_with(&plan.project));
    for source in above {
        source.show_at(&within(&source.path))?;
    }
    let at = within(&plan.project);
    make_folder(&at)?;
    let copied = working_copy(&project, &layer, &at)?;
    for source in below {
        source.show_at(&within(&source.path))?;
    }
    make_folder(&within(&plan.scratch))?;
    if !plan.scratch.starts_with("/tmp") {
        let own = layer.join("tmp/.home");
        fs::create_dir(&own)?;
        bind(&own, &within(&plan.scratch))?;
    }
    for path in &plan.hidden {
        let path = within(path);
        if path.is_dir() {
            hide(&path)?;
        }
    }
    devices_at(&base.join("dev"), &layer, devices)?;
    settings_at(&base.join("etc"), resolv, plan)?;
    proc_at(&base.join("proc"))?;
    unmount(&layer, UnmountFlags::DETACH)?;
    fs::remove_dir(&layer)?;
    enter(&base)?;
    Ok(copied)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
        && path.parent() == Some(Path::new("/"))
}

/// Links right below the root, as `/bin` is one on most systems.
fn links(plan: &Plan) -> Vec<(PathBuf, PathBuf)> {
    let paths = view::readable(plan).into_iter().filter(|p| is_link(p));
    paths
        .filter_map(|path| Some((path.clone(), fs::read_link(&path).ok()?)))
        .collect()
}

/// The project as the plugin may write it: over the host's, in its own layer; else a copy of it.
fn working_copy(project: &OwnedFd, layer: &Path, at: &Path) -> io::Result<Option<String>> {
    let lower = format!("/proc/self/fd/{}", project.as_raw_fd());
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let options = format!(
        "lowerdir={lower},upperdir={},workdir={},userxattr",
        text(layer.join("upper")),
        text(layer.join("work"))
    );
    let options =
        CString::new(options).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let Err(overlay) = mount("overlay", at, "overlay", flags, Some(options.as_c_str())) else {
        return Ok(None);
    };
    let copy = layer.join("upper");
    match copy_tree(Path::new(&lower), &copy) {
        Ok(()) => bind(&copy, at).map(|()| None),
        Err(error) => {
            let tree = open_tree_of(Path::new(&lower))?;
            restrict(
                &tree,
                libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID,
                true,
            )?;
            place(&tree, at)?;
            Ok(Some(format!(
                "the project can only be read: no overlay ({overlay}), and a copy fails ({error})"
            )))
        }
    }
}

/// Copies files and folders; hidden folders hold environments and histories, and aren't a plugin's.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let target = to.join(&name);
        if kind.is_dir() {
            if !name.to_string_lossy().starts_with('.') {
                fs::create_dir(&target)?;
                copy_tree(&entry.path(), &target)?;
            }
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn devices_at(dev: &Path, layer: &Path, devices: Vec<Source>) -> io::Result<()> {
    make_folder(dev)?;
    for device in devices {
        let name = device.path.file_name().unwrap_or_default();
        device.show_at(&dev.join(name))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, dev.join(name))?;
    }
    make_folder(&dev.join("shm"))?;
    bind(&layer.join("shm"), &dev.join("shm"))
}

fn settings_at(etc: &Path, resolv: Option<Vec<u8>>, plan: &Plan) -> io::Result<()> {
    make_folder(etc)?;
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let home = plan.scratch.to_string_lossy();
    fs::write(etc.join("passwd"), etc::passwd(user, group, &home))?;
    fs::write(etc.join("group"), etc::group(group))?;
    // Often a link to where another program writes: what it says is shown, not where.
    if let Some(text) = resolv
        && !etc.join("resolv.conf").exists()
    {
        fs::write(etc.join("resolv.conf"), text)?;
    }
    Ok(())
}

fn proc_at(proc: &Path) -> io::Result<()> {
    make_folder(proc)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", proc, "proc", flags, None)?;
    for name in PROC_READ_ONLY {
        let path = proc.join(name);
        if path.exists() {
            let tree = open_tree_of(&path)?;
            restrict(&tree, libc::MOUNT_ATTR_RDONLY, true)?;
            place(&tree, &path)?;
        }
    }
    for name in PROC_HIDDEN {
        let path = proc.join(name);
        if path.is_file() {
            bind(&proc.join("../dev/null"), &path)?;
        }
    }
    Ok(())
}

/// Makes `base` the root, and the old one unreachable.
fn enter(base: &Path) -> io::Result<()> {
    chdir(base)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    let root = open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let flags = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    restrict(&root, flags, false)
}
