//! Copies the SDK's sources to where the crate embeds them from: only what Python needs, so that
//! caches and editors' files neither end up in the executable nor change it.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Packages that the executable carries.
const PACKAGES: [&str; 2] = ["paddock", "ark_sdk"];

fn main() -> io::Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let target = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?).join("sdk");
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    fs::create_dir_all(&target)?;
    for package in PACKAGES {
        let folder = source.join(package);
        if folder.is_dir() {
            copy(&folder, &target.join(package))?;
        }
    }
    watch(&source.join("requirements-base.txt"));
    watch(Path::new("build.rs"));
    Ok(())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
            continue;
        };
        if path.is_dir() && name != "__pycache__" {
            copy(&path, &to.join(name))?;
        } else if name.ends_with(".py") || name == "py.typed" {
            fs::copy(&path, to.join(name))?;
            watch(&path);
        }
    }
    Ok(())
}

fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}
