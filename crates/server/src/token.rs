//! The owner's token: a file in the data folder that only its owner may read.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const NAME: &str = "token";
const OWNER_ONLY: u32 = 0o600;

/// The token can't be made or read.
#[derive(Debug, thiserror::Error)]
#[error("can't use the token file \"{}\": see that the data folder is yours to write", .path.display())]
pub struct TokenError {
    path: PathBuf,
    source: std::io::Error,
}

/// The token of a data folder; makes one if there is none yet. Servers of one folder share it.
///
/// # Errors
/// If the file can't be written or read.
pub fn owner_token(data_dir: &Path) -> Result<String, TokenError> {
    let path = data_dir.join(NAME);
    read_or_make(data_dir, &path).map_err(|source| TokenError { path, source })
}

fn read_or_make(data_dir: &Path, path: &Path) -> std::io::Result<String> {
    loop {
        match read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => make(data_dir, path)?,
            read => return read,
        }
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    let token = text.trim();
    if token.is_empty() {
        return Err(std::io::Error::other("it is empty: delete it"));
    }
    let mode = std::fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "others could read the token: made it yours alone");
        std::fs::set_permissions(path, Permissions::from_mode(OWNER_ONLY))?;
    }
    Ok(token.to_owned())
}

/// Writes a new token under a name of its own and links it into place, so that nobody ever reads
/// half of one; if another process was faster, its token stays.
fn make(data_dir: &Path, path: &Path) -> std::io::Result<()> {
    let own = data_dir.join(format!("{NAME}.{}", hex(rand::random::<[u8; 8]>())));
    let linked = write(&own).and_then(|()| std::fs::hard_link(&own, path));
    std::fs::remove_file(&own)?;
    match linked {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

fn write(path: &Path) -> std::io::Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(OWNER_ONLY)
        .open(path)?;
    writeln!(file, "{}", hex(rand::random::<[u8; 32]>()))?;
    file.sync_all()
}

fn hex<const N: usize>(bytes: [u8; N]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_token_that_only_its_owner_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let token = owner_token(folder.path()).expect("it is made");
        assert_eq!(token.len(), 64);
        let again = owner_token(folder.path()).expect("it is read");
        assert_eq!(again, token);
        let path = folder.path().join("token");
        let mode = || {
            let metadata = std::fs::metadata(&path).expect("it is there");
            metadata.permissions().mode() & 0o777
        };
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("it is ours");
        owner_token(folder.path()).expect("it is read");
        assert_eq!(mode(), 0o600, "what others could read is closed");
        let files = std::fs::read_dir(folder.path())
            .expect("the folder")
            .count();
        assert_eq!(files, 1, "nothing else is left");
    }

    #[test]
    fn many_at_once_agree() {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens: Vec<String> = std::thread::scope(|scope| {
            let made: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| owner_token(folder.path()).expect("it is made")))
                .collect();
            made.into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .collect()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]));
    }
}
