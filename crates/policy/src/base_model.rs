//! The base model that ships, carried inside the executable.
//!
//! [`extract`] puts it into a folder named by its content, so that a job's reference to it stays
//! true when another version of Paddock ships another model. It never overwrites a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::policy::PolicyError;

/// Its name, as `model_reference.foundation_model.name` has it.
pub const NAME: &str = "paddock-base";

/// Its version.
pub const VERSION: &str = "1";

/// Its files.
const FILES: [(&str, &[u8]); 3] = [
    (
        "config.json",
        include_bytes!("../../../models/paddock-base/config.json"),
    ),
    (
        "card.json",
        include_bytes!("../../../models/paddock-base/card.json"),
    ),
    (
        "model.safetensors",
        include_bytes!("../../../models/paddock-base/model.safetensors"),
    ),
];

/// The model's folder below `dir`, written there unless it already is. Several processes may ask
/// at once: the folder appears as a whole.
///
/// # Errors
/// `dir` can't be written.
pub fn extract(dir: &Path) -> Result<PathBuf, PolicyError> {
    let folder = dir.join(format!("{NAME}-{VERSION}-{}", digest()));
    if folder.is_dir() {
        return Ok(folder);
    }
    write(dir, &folder).map_err(|source| PolicyError::Write {
        path: folder.clone(),
        source,
    })?;
    Ok(folder)
}

fn write(dir: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let partial = dir.join(format!(".{NAME}-{}", std::process::id()));
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir(&partial)?;
    for (name, bytes) in FILES {
        fs::write(partial.join(name), bytes)?;
        fs::File::open(partial.join(name))?.sync_all()?;
    }
    match fs::rename(&partial, folder) {
        // Another process was quicker.
        Err(_) if folder.is_dir() => fs::remove_dir_all(&partial),
        result => result,
    }
}

/// The first 12 hex digits of the files' SHA-256.
fn digest() -> String {
    let mut hasher = Sha256::new();
    for (name, bytes) in FILES {
        hasher.update(name);
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    hasher.finalize()[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::tokenizer::VOCAB;

    #[test]
    fn it_is_small_and_loads() {
        let bytes: usize = FILES.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes <= 5 << 20, "{bytes} bytes");
        let dir = tempfile::tempdir().expect("a folder");
        let folder = extract(dir.path()).expect("the model");
        assert_eq!(extract(dir.path()).expect("the model again"), folder);
        let left: Vec<_> = fs::read_dir(dir.path()).expect("a folder").collect();
        assert_eq!(left.len(), 1, "{left:?}");
        let (model, card) = Model::load(&folder).expect("a model");
        assert_eq!((card.name.as_str(), card.version.as_str()), (NAME, VERSION));
        assert_eq!(model.config().vocab_size, VOCAB);
        assert_eq!(model.config().max_position_embeddings, 2048);
        assert!(card.lr > 0.0);
    }
}
