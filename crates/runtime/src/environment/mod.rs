//! Python environments: what a project's `requirements.txt` asks for, installed once.
//!
//! An environment is addressed by the content of everything that decides it: the requirements and
//! whatever files they name, the SDK's own, and the interpreter. It is built under a lock, in its
//! final place since scripts hold their interpreter's path, and counts only once a mark is written
//! in it: one that was cut short is built anew. The SDK that the executable carries is written
//! beside it, and never installed.

mod address;
mod install;
mod python;
mod sdk;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use paddock_types::{Fault, SubKind};

pub use self::python::Python;

/// Written last: an environment without it is not whole.
const MARK: &str = ".complete";

/// What a plugin runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The interpreter.
    pub python: PathBuf,
    /// The folder that holds the SDK's package.
    pub sdk: PathBuf,
}

/// What goes into every environment, whatever the project asks for.
pub const BASE_REQUIREMENTS: &str = include_str!("../../../../python/requirements-base.txt");

/// Finds or builds the environment of a project. `progress` is told in a few words what takes time.
pub async fn prepare(
    project: &Path,
    cache: &Path,
    progress: impl Fn(&str) + Send + Sync,
) -> Result<Environment, Fault> {
    prepare_with(project, cache, BASE_REQUIREMENTS, progress).await
}

/// The same with other base requirements.
pub async fn prepare_with(
    project: &Path,
    cache: &Path,
    base: &str,
    progress: impl Fn(&str) + Send + Sync,
) -> Result<Environment, Fault> {
    let python = python::find().await?;
    let sdk = sdk::extract(cache).map_err(|error| cache_fault(cache, &error))?;
    let requirements = address::Requirements::read(project, base)
        .map_err(|error| requirements_fault(project, &error))?;
    if requirements.is_empty() {
        return Ok(Environment {
            python: python.path,
            sdk,
        });
    }
    let folder = cache
        .join("environments")
        .join(requirements.address(&python));
    let environment = Environment {
        python: folder.join("bin/python"),
        sdk,
    };
    if folder.join(MARK).exists() {
        return Ok(environment);
    }
    let _lock = lock(&folder)
        .await
        .map_err(|error| cache_fault(cache, &error))?;
    if folder.join(MARK).exists() {
        return Ok(environment);
    }
    clear(&folder).map_err(|error| cache_fault(cache, &error))?;
    if let Err(fault) = install::install(&python, &folder, project, &requirements, &progress).await
    {
        // What can't be removed is built over next time.
        let _ = clear(&folder);
        return Err(fault);
    }
    File::create(folder.join(MARK))
        .and_then(|mark| mark.sync_all())
        .map_err(|error| cache_fault(cache, &error))?;
    Ok(environment)
}

/// The interpreter alone with the SDK, for what needs no project's environment.
pub async fn bare(cache: &Path) -> Result<Environment, Fault> {
    let python = python::find().await?;
    let sdk = sdk::extract(cache).map_err(|error| cache_fault(cache, &error))?;
    Ok(Environment {
        python: python.path,
        sdk,
    })
}

/// Holds an environment's lock until it is dropped: other processes wait for it.
async fn lock(folder: &Path) -> io::Result<File> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    let file = File::create(folder.with_extension("lock"))?;
    let locked = tokio::task::spawn_blocking(move || {
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(file)
    });
    locked.await.map_err(io::Error::other)?
}

fn clear(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn cache_fault(cache: &Path, error: &io::Error) -> Fault {
    Fault::call_plugin(
        SubKind::Create,
        format!(
            "the cache folder \"{}\" can't be written: {error}",
            cache.display()
        ),
        "make it writable, or name another one",
    )
}

fn requirements_fault(project: &Path, error: &io::Error) -> Fault {
    Fault::invalid_value(
        format!(
            "requirements.txt of \"{}\" can't be read: {error}",
            project.display()
        ),
        "correct the file that it names, or remove it",
    )
}
