//! A job's own copy of its project: the code that runs, whatever is edited meanwhile.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Folders that are never part of a package, beside hidden ones.
const LEFT_OUT: [&str; 2] = ["__pycache__", "node_modules"];

/// Files that mark a folder as a Python environment, or as a data folder of Paddock's.
const MARKS: [&str; 2] = ["pyvenv.cfg", "paddock.db"];

/// A project's code, copied and addressed by its content.
#[derive(Debug, Clone)]
pub struct Package {
    /// The copy's folder.
    pub dir: PathBuf,
    /// SHA-256 over the names and contents of its files, in hexadecimal.
    pub hash: String,
}

/// Copies a project into `dir`, but for what `leave_out` names: data sets, Paddock's own data.
/// Hidden folders, Python environments and other data folders are left out too; links to folders are not followed.
pub fn copy(project: &Path, dir: &Path, leave_out: &[PathBuf]) -> io::Result<Package> {
    let mut files = vec![];
    list(project, Path::new(""), leave_out, &mut files)?;
    files.sort();
    let mut hash = Sha256::new();
    for file in &files {
        let bytes = fs::read(project.join(file))?;
        hash.update(file.to_string_lossy().as_bytes());
        hash.update([0]);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
        let to = dir.join(file);
        fs::create_dir_all(to.parent().unwrap_or(dir))?;
        fs::write(to, bytes)?;
    }
    fs::create_dir_all(dir)?;
    let hash = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(Package {
        dir: dir.to_owned(),
        hash,
    })
}

fn list(
    project: &Path,
    folder: &Path,
    leave_out: &[PathBuf],
    files: &mut Vec<PathBuf>,
) -> io::Result<()> {
    for entry in fs::read_dir(project.join(folder))? {
        let entry = entry?;
        let (name, whole) = (entry.file_name(), entry.path());
        let text = name.to_string_lossy();
        if leave_out.contains(&whole) || text.ends_with(".pyc") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            let no_code = MARKS.iter().any(|mark| whole.join(mark).exists());
            if !text.starts_with('.') && !no_code && !LEFT_OUT.contains(&text.as_ref()) {
                list(project, &folder.join(&name), leave_out, files)?;
            }
        } else if fs::metadata(&whole).is_ok_and(|file| file.is_file()) {
            files.push(folder.join(&name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_copied_and_data_and_environments_are_not() -> io::Result<()> {
        let from = tempfile::tempdir()?;
        let to = tempfile::tempdir()?;
        for (file, text) in [
            ("plugins/reward.py", "x = 1"),
            ("job.yaml", "name: a"),
            ("data/train.jsonl", "{}"),
            ("data/words.txt", "a"),
            (".paddock/state.db", "?"),
            ("myenv/pyvenv.cfg", "home = /usr"),
            ("out/paddock.db", "?"),
            ("out/jobs/a/package/x.py", "?"),
            ("plugins/__pycache__/reward.pyc", "?"),
        ] {
            let path = from.path().join(file);
            fs::create_dir_all(path.parent().expect("has a parent"))?;
            fs::write(path, text)?;
        }
        let package = copy(
            from.path(),
            to.path(),
            &[from.path().join("data/train.jsonl")],
        )?;
        assert_eq!(
            fs::read_to_string(to.path().join("plugins/reward.py"))?,
            "x = 1"
        );
        let mut names: Vec<_> = fs::read_dir(to.path())?
            .map(|e| e.map(|e| e.file_name()))
            .collect::<Result<_, _>>()?;
        names.sort();
        assert_eq!(names, ["data", "job.yaml", "plugins"]);
        assert!(!to.path().join("data/train.jsonl").exists());
        fs::write(from.path().join("plugins/reward.py"), "x = 2")?;
        let edited = copy(from.path(), tempfile::tempdir()?.path(), &[])?;
        assert_ne!(package.hash, edited.hash);
        Ok(())
    }
}
