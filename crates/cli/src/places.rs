//! Where things are kept: the data folder of jobs, the cache that all of them share.
//!
//! The environment is read here and nowhere else in the command line.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The data folder of a command that reads or writes jobs.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DataDir {
    /// Folder that holds jobs and their records
    #[arg(
        long,
        value_name = "DIR",
        env = "PADDOCK_DATA_DIR",
        hide_env_values = true,
        default_value = "./.paddock"
    )]
    pub(crate) data_dir: PathBuf,
}

/// The cache of a command that makes environments or unpacks models.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CacheDir {
    /// Folder that holds environments and models for all jobs [default: ~/.cache/paddock]
    #[arg(
        long,
        value_name = "DIR",
        env = "PADDOCK_CACHE",
        hide_env_values = true
    )]
    cache_dir: Option<PathBuf>,
}

impl CacheDir {
    /// The folder in force, from the root: interpreters are started from other folders.
    pub(crate) fn path(&self) -> PathBuf {
        absolute(&self.cache_dir.clone().unwrap_or_else(|| {
            default_cache(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
        }))
    }
}

fn default_cache(xdg: Option<std::ffi::OsString>, home: Option<std::ffi::OsString>) -> PathBuf {
    let set = |text: Option<std::ffi::OsString>| text.filter(|t| !t.is_empty()).map(PathBuf::from);
    match (set(xdg), set(home)) {
        (Some(xdg), _) if xdg.is_absolute() => xdg.join("paddock"),
        (_, Some(home)) => home.join(".cache").join("paddock"),
        _ => std::env::temp_dir().join("paddock-cache"),
    }
}

/// The Python that the user has chosen for plugins, if any.
pub(crate) fn python() -> Option<String> {
    std::env::var("PADDOCK_PYTHON")
        .ok()
        .filter(|name| !name.is_empty())
}

/// The same path, from the root: plugins run in other folders.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A project's folder, from the root; it must be there.
pub(crate) fn project(path: &Path) -> Result<PathBuf, Failure> {
    let project = absolute(path);
    match project.is_dir() {
        true => Ok(project),
        false => Err(Failure::usage(format!(
            "there is no project folder \"{}\"",
            project.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_named_from_the_root() {
        let cache_dir = Some(PathBuf::from("near/here"));
        let path = CacheDir { cache_dir }.path();
        assert!(
            path.is_absolute() && path.ends_with("near/here"),
            "{path:?}"
        );
    }

    #[test]
    fn the_cache_has_a_place_everywhere() {
        let cache = |xdg: &str, home: &str| default_cache(Some(xdg.into()), Some(home.into()));
        assert_eq!(cache("/x", "/h"), Path::new("/x/paddock"));
        assert_eq!(cache("", "/h"), Path::new("/h/.cache/paddock"));
        assert_eq!(cache("relative", "/h"), Path::new("/h/.cache/paddock"));
        assert!(default_cache(None, None).ends_with("paddock-cache"));
    }
}
