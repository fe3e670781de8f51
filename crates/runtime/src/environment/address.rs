//! What decides an environment, as a hash.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::python::Python;

/// Folders of a local requirement that say nothing of its content.
const IGNORED: [&str; 4] = ["__pycache__", "build", "dist", "node_modules"];

/// A project's requirements, with the files they name.
#[derive(Debug)]
pub(super) struct Requirements {
    /// The project's file, if it has one.
    pub(super) file: Option<PathBuf>,
    /// What goes into every environment.
    pub(super) base: String,
    /// How many requirements there are, for a word to the user.
    pub(super) count: usize,
    hash: Sha256,
}

impl Requirements {
    /// Reads `requirements.txt` of a project.
    pub(super) fn read(project: &Path, base: &str) -> io::Result<Self> {
        let file = project.join("requirements.txt");
        let mut out = Self {
            file: file.is_file().then_some(file.clone()),
            base: base.to_owned(),
            count: 0,
            hash: Sha256::new(),
        };
        out.count += asked(base).count();
        out.hash.update(base);
        let mut seen = BTreeSet::new();
        if out.file.is_some() {
            out.add_file(&file, project, &mut seen)?;
        }
        Ok(out)
    }

    /// True if nothing is asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The name of the environment's folder.
    pub(super) fn address(&self, python: &Python) -> String {
        let mut hash = self.hash.clone();
        for part in [
            &python.version,
            &python.platform,
            &python.path.to_string_lossy().into_owned(),
        ] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        hex(&hash.finalize())
    }

    fn add_file(
        &mut self,
        file: &Path,
        project: &Path,
        seen: &mut BTreeSet<PathBuf>,
    ) -> io::Result<()> {
        if !seen.insert(file.to_owned()) {
            return Ok(());
        }
        let text = fs::read_to_string(file).map_err(|error| named(file, &error))?;
        self.hash.update(&text);
        self.hash.update([0]);
        let here = file.parent().unwrap_or(project);
        for line in asked(&text) {
            if let Some(other) = included(line) {
                self.add_file(&here.join(other), project, seen)?;
                continue;
            }
            self.count += 1;
            if let Some(local) = local(line) {
                // pip takes paths from the working directory: the project's.
                self.add_tree(&project.join(local))?;
            }
        }
        Ok(())
    }

    /// The content of a local requirement: a file, or a folder with all its sources.
    fn add_tree(&mut self, path: &Path) -> io::Result<()> {
        if path.is_file() {
            self.hash.update(path.to_string_lossy().as_bytes());
            self.hash.update(fs::read(path)?);
            return Ok(());
        }
        let entries = fs::read_dir(path).map_err(|error| named(path, &error))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let said = name.starts_with('.')
                || name.ends_with(".egg-info")
                || IGNORED.contains(&name.as_ref());
            if !said && !path.is_symlink() {
                self.add_tree(&path)?;
            }
        }
        Ok(())
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("\"{}\": {error}", path.display()))
}

/// Lines that ask for something: no comments, no blanks.
fn asked(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| line.split(" #").next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The file of a `-r` or `-c` line.
fn included(line: &str) -> Option<&str> {
    ["--requirement", "--constraint", "-r", "-c"]
        .iter()
        .find_map(|option| line.strip_prefix(option))
        .map(|rest| rest.trim_start_matches('=').trim())
        .filter(|rest| !rest.is_empty())
}

/// The path of a local requirement.
fn local(line: &str) -> Option<&str> {
    let line = ["--editable", "-e"]
        .iter()
        .find_map(|option| line.strip_prefix(option))
        .map_or(line, |rest| rest.trim_start_matches('=').trim());
    let line = match line.split_once(" @ ") {
        Some((_, url)) => url.trim(),
        None => line,
    };
    let line = line.strip_prefix("file://").unwrap_or(line);
    let path = line.split(['[', ';']).next().unwrap_or(line).trim();
    let is_path = path.starts_with('.') || path.starts_with('/') || path.ends_with(".whl");
    (is_path && !path.contains("://")).then_some(path)
}

/// A hash as text, cut to what a path needs.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(16).map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(version: &str) -> Python {
        Python {
            path: "/usr/bin/python3".into(),
            version: version.into(),
            platform: "linux".into(),
        }
    }

    fn address(project: &Path) -> String {
        Requirements::read(project, "base")
            .expect("readable")
            .address(&python("3.11.7"))
    }

    #[test]
    fn the_address_follows_everything_that_decides() {
        let project = tempfile::tempdir().expect("a folder");
        let path = project.path();
        let write = |name: &str, text: &str| {
            let file = path.join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            fs::write(file, text).expect("written");
        };
        let mut seen = vec![address(path)];
        write("requirements.txt", "a==1\n");
        seen.push(address(path));
        write("requirements.txt", "a==1\n-r more.txt\n./pkg[x]\n");
        write("more.txt", "b\n");
        write("pkg/setup.py", "1");
        seen.push(address(path));
        write("more.txt", "b==2\n");
        seen.push(address(path));
        write("pkg/setup.py", "2");
        seen.push(address(path));
        let read = Requirements::read(path, "base").expect("readable");
        seen.push(read.address(&python("3.12.0")));
        let distinct: BTreeSet<&String> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len(), "{seen:?}");
        write("pkg/__pycache__/setup.pyc", "3");
        assert_eq!(address(path), seen[4]);
        assert_eq!(read.count, 4);
    }

    #[test]
    fn a_file_that_is_named_and_not_there_is_an_error() {
        let project = tempfile::tempdir().expect("a folder");
        fs::write(project.path().join("requirements.txt"), "-r gone.txt\n").expect("written");
        let error = Requirements::read(project.path(), "").expect_err("it is not there");
        assert!(error.to_string().contains("gone.txt"), "{error}");
    }

    #[test]
    fn lines_are_told_apart() {
        assert_eq!(included("-r more.txt"), Some("more.txt"));
        assert_eq!(included("--constraint=c.txt"), Some("c.txt"));
        assert_eq!(included("requests"), None);
        assert_eq!(local("./pkg[extra]; python_version > '3'"), Some("./pkg"));
        assert_eq!(local("-e ."), Some("."));
        assert_eq!(local("x @ file:///a/x.whl"), Some("/a/x.whl"));
        assert_eq!(local("requests>=2"), None);
        assert_eq!(local("x @ https://host/x.whl"), None);
    }
}
