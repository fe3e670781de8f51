//! The SDK that the executable carries, written where Python finds it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use sha2::{Digest as _, Sha256};

use super::address::hex;

static SDK: Dir<'_> = include_dir!("$OUT_DIR/sdk");

/// Writes the SDK into the cache, under its content's hash; gives the folder for `PYTHONPATH`.
pub(super) fn extract(cache: &Path) -> io::Result<PathBuf> {
    let target = cache.join("sdk").join(hash());
    if target.is_dir() {
        return Ok(target);
    }
    let parent = cache.join("sdk");
    fs::create_dir_all(&parent)?;
    let name = format!(".{}-{}", hash(), paddock_types::CallId::new());
    let temporary = parent.join(name);
    fs::create_dir(&temporary)?;
    SDK.extract(&temporary)?;
    match fs::rename(&temporary, &target) {
        // Somebody else was faster: theirs is the same.
        Err(_) if target.is_dir() => {
            fs::remove_dir_all(&temporary)?;
            Ok(target)
        }
        outcome => outcome.map(|()| target),
    }
}

fn hash() -> String {
    let mut hash = Sha256::new();
    add(&SDK, &mut hash);
    hex(&hash.finalize())
}

fn add(folder: &Dir<'_>, hash: &mut Sha256) {
    for file in folder.files() {
        hash.update(file.path().to_string_lossy().as_bytes());
        hash.update((file.contents().len() as u64).to_le_bytes());
        hash.update(file.contents());
    }
    for folder in folder.dirs() {
        add(folder, hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdk_is_written_once_and_whole() {
        let cache = tempfile::tempdir().expect("a folder");
        let first = extract(cache.path()).expect("written");
        assert!(first.join("paddock/_worker/__main__.py").is_file());
        assert!(first.join("paddock/py.typed").is_file());
        assert_eq!(extract(cache.path()).expect("there"), first);
        let left = fs::read_dir(cache.path().join("sdk")).expect("a folder");
        assert_eq!(left.count(), 1, "no temporary folder is left");
    }
}
