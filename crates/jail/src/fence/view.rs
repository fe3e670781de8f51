//! Which files a plugin may see: what Python and its libraries need of the host, the interpreter and its
//! packages, the SDK, the project, and its temporary folder.
//!
//! A list of what is allowed; what isn't named isn't seen. So no home, no `/etc/shadow`, no data of Paddock,
//! no folder of another plugin.

use std::fs;
use std::path::{Path, PathBuf};

use super::Plan;
use super::etc::SETTINGS;
use super::landlock::{Access, Rule};

/// Programs and libraries.
const SYSTEM: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
];
/// What tells of the machine.
const KERNEL: [&str; 2] = ["/sys/devices/system", "/sys/kernel/mm"];
/// Devices that hold nothing.
pub(super) const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];
/// What belongs to an interpreter in the folder above its `bin`: that may be somebody's home.
const OF_PREFIX: [&str; 10] = [
    "bin",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "include",
    "share",
    "etc",
    "ssl",
    "pyvenv.cfg",
];

/// What is shown read-only, from the top downwards.
pub(super) fn readable(plan: &Plan) -> Vec<PathBuf> {
    let fixed = SYSTEM.iter().chain(&SETTINGS).chain(&KERNEL);
    let mut paths: Vec<PathBuf> = fixed.map(PathBuf::from).collect();
    for prefix in prefixes(&plan.program) {
        paths.extend(OF_PREFIX.map(|name| prefix.join(name)));
    }
    paths.extend(plan.readable.iter().cloned());
    paths.retain(|path| path.is_absolute() && path.parent().is_some() && path.exists());
    paths.sort();
    paths.dedup();
    paths
}

/// The rules where the root is private: all of it can be read, and what is the plugin's own written.
pub(super) fn private(plan: &Plan) -> Vec<Rule> {
    let mut rules = vec![Rule::new("/", Access::Read)];
    let own = ["/tmp", "/dev", "/proc"].map(PathBuf::from);
    let named = [&plan.project, &plan.scratch];
    let writable = own.iter().chain(named).chain(&plan.shared);
    rules.extend(writable.map(|path| Rule::new(path, Access::Write)));
    rules
}

/// The rules where the plugin is on the host's own root.
pub(super) fn of_host(plan: &Plan) -> Vec<Rule> {
    let mut rules: Vec<Rule> = readable(plan)
        .iter()
        .map(|path| Rule::new(path, Access::Read))
        .collect();
    rules.push(Rule::new("/proc", Access::Read));
    for name in ["/etc/passwd", "/etc/group"] {
        rules.push(Rule::new(name, Access::Read));
    }
    rules.extend(DEVICES.map(|path| Rule::new(path, Access::Write)));
    rules.push(Rule::new("/dev/shm", Access::Write));
    let writable = [&plan.project, &plan.scratch];
    let writable = writable.into_iter().chain(&plan.shared);
    rules.extend(writable.map(|path| Rule::new(path, Access::Write)));
    rules
}

/// Where an interpreter and its library are: its own prefix, and that of the one which its environment was
/// made from.
fn prefixes(program: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut add = |program: &Path| {
        let prefix = program.parent().and_then(Path::parent);
        if let Some(prefix) = prefix.filter(|p| p.is_absolute() && p.parent().is_some()) {
            found.push(prefix.to_owned());
        }
    };
    add(program);
    let mut link = program.to_owned();
    // More hops than any distribution has; a ring of links ends too.
    for _ in 0..8 {
        let Ok(target) = fs::read_link(&link) else {
            break;
        };
        link = link.parent().unwrap_or(Path::new("/")).join(target);
        add(&link);
    }
    if let Ok(real) = fs::canonicalize(program) {
        add(&real);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environments_own_interpreter_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("it is there");
        for bin in ["base/bin", "venv/bin"] {
            fs::create_dir_all(folder.join(bin)).expect("made");
        }
        fs::write(folder.join("base/bin/python3.11"), "").expect("written");
        let link = folder.join("venv/bin/python");
        std::os::unix::fs::symlink(folder.join("base/bin/python3.11"), &link).expect("linked");
        let found = prefixes(&link);
        assert!(found.contains(&folder.join("venv")), "{found:?}");
        assert!(found.contains(&folder.join("base")), "{found:?}");
        assert_eq!(prefixes(Path::new("/bin/no-such")), Vec::<PathBuf>::new());
    }
}
