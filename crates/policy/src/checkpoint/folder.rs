//! Folders that are whole or not there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::policy::PolicyError;

/// Fills a folder under a temporary name beside the wanted one, flushes it and renames it. An
/// older folder of that name is moved aside first and removed afterwards. What an earlier,
/// killed attempt left under the temporary names is removed.
pub(super) fn replace_folder(
    folder: &Path,
    fill: impl FnOnce(&Path) -> Result<(), PolicyError>,
) -> Result<(), PolicyError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| PolicyError::Write { path, source }
    };
    let (new, old) = (beside(folder, "new"), beside(folder, "old"));
    let parent = folder
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    for leftover in [&new, &old] {
        remove(leftover).map_err(failed(leftover))?;
    }
    fs::create_dir_all(&new).map_err(failed(&new))?;
    if let Err(error) = fill(&new) {
        // The error that stopped the writing matters more than one of tidying up.
        let _ = remove(&new);
        return Err(error);
    }
    flush(&new).map_err(failed(&new))?;
    if folder.exists() {
        fs::rename(folder, &old).map_err(failed(folder))?;
    }
    fs::rename(&new, folder).map_err(failed(folder))?;
    flush(parent).map_err(failed(parent))?;
    remove(&old).map_err(failed(&old))
}

fn beside(folder: &Path, what: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.{what}"))
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Waits for a folder's entries to be on the disk.
fn flush(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
