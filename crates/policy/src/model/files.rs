//! Model folders: `config.json`, `model.safetensors`, `card.json`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use safetensors::tensor::{Dtype, TensorView};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::card::ModelCard;
use super::config::ModelConfig;
use super::layout::{Parameter, parameters};
use super::weights::Model;
use crate::policy::PolicyError;

/// Weights of a model folder.
pub(crate) const WEIGHTS: &str = "model.safetensors";
const CONFIG: &str = "config.json";
const CARD: &str = "card.json";

/// Reads a JSON file.
pub(crate) fn read_json<T: DeserializeOwned>(file: &Path) -> Result<T, PolicyError> {
    let bytes = fs::read(file).map_err(|source| PolicyError::Read {
        file: file.to_path_buf(),
        source,
    })?;
    serde_json::from_slice(&bytes).map_err(|source| PolicyError::Json {
        file: file.to_path_buf(),
        source,
    })
}

/// Writes a JSON file and waits for it to be on the disk.
pub(crate) fn write_json(file: &Path, value: &impl Serialize) -> Result<(), PolicyError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|source| PolicyError::Json {
        file: file.to_path_buf(),
        source,
    })?;
    bytes.push(b'\n');
    write(file, &bytes)
}

/// Writes a file and waits for it to be on the disk.
pub(crate) fn write(file: &Path, bytes: &[u8]) -> Result<(), PolicyError> {
    let to_disk = || {
        let mut out = fs::File::create(file)?;
        std::io::Write::write_all(&mut out, bytes)?;
        out.sync_all()
    };
    to_disk().map_err(|source| PolicyError::Write {
        path: file.to_path_buf(),
        source,
    })
}

/// Writes named tensors as safetensors, in the order the format itself fixes.
pub(crate) fn write_tensors(
    file: &Path,
    tensors: &[(String, Vec<usize>, &[f32])],
) -> Result<(), PolicyError> {
    let wrong = |source| PolicyError::Tensors {
        file: file.to_path_buf(),
        source,
    };
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, numbers)| little_endian(numbers))
        .collect();
    let views = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, shape, _), bytes)| {
            Ok((
                name.as_str(),
                TensorView::new(Dtype::F32, shape.clone(), bytes)?,
            ))
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(wrong)?;
    // Readers of the field's own tools look for this.
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let bytes = safetensors::serialize(views, Some(metadata)).map_err(wrong)?;
    write(file, &bytes)
}

/// Reads all tensors of a file as `f32`.
pub(crate) fn read_tensors(file: &Path) -> Result<HashMap<String, Tensor>, PolicyError> {
    // A missing file is told apart from a broken one.
    fs::metadata(file).map_err(|source| PolicyError::Read {
        file: file.to_path_buf(),
        source,
    })?;
    candle_core::safetensors::load(file, &Device::Cpu).map_err(|source| PolicyError::Weights {
        file: file.to_path_buf(),
        reason: source.to_string(),
    })
}

/// Takes the numbers of all parameters out of a file's tensors.
pub(crate) fn take(
    file: &Path,
    tensors: &HashMap<String, Tensor>,
    parameters: &[Parameter],
    prefix: &str,
) -> Result<Vec<f32>, PolicyError> {
    let wrong = |reason: String| PolicyError::Weights {
        file: file.to_path_buf(),
        reason,
    };
    let mut numbers = Vec::with_capacity(parameters.iter().map(Parameter::size).sum());
    for parameter in parameters {
        for part in &parameter.parts {
            let name = format!("{prefix}{}", part.name);
            let tensor = tensors
                .get(&name)
                .ok_or_else(|| wrong(format!("no tensor \"{name}\"")))?;
            let shape: Vec<usize> = std::iter::once(part.rows).chain(parameter.cols).collect();
            if tensor.dims() != shape {
                return Err(wrong(format!(
                    "tensor \"{name}\" has shape {:?}, the configuration asks for {shape:?}",
                    tensor.dims()
                )));
            }
            let part = tensor
                .to_dtype(DType::F32)
                .and_then(|t| t.flatten_all()?.to_vec1::<f32>())
                .map_err(|source| wrong(source.to_string()))?;
            numbers.extend(part);
        }
    }
    Ok(numbers)
}

/// Splits all numbers into the named tensors of files.
pub(crate) fn split<'a>(
    parameters: &[Parameter],
    mut numbers: &'a [f32],
    prefix: &str,
) -> Vec<(String, Vec<usize>, &'a [f32])> {
    let mut out = Vec::new();
    for parameter in parameters {
        for part in &parameter.parts {
            let (these, rest) = numbers.split_at(part.rows * parameter.cols.unwrap_or(1));
            let shape = std::iter::once(part.rows).chain(parameter.cols).collect();
            out.push((format!("{prefix}{}", part.name), shape, these));
            numbers = rest;
        }
    }
    out
}

fn little_endian(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

impl ModelConfig {
    /// Reads and checks a model folder's configuration.
    pub fn read(folder: &Path) -> Result<Self, PolicyError> {
        let file = folder.join(CONFIG);
        let config: Self = read_json(&file)?;
        match config.check() {
            Ok(()) => Ok(config),
            Err(reason) => Err(PolicyError::Config { file, reason }),
        }
    }
}

impl Model {
    /// Reads a model folder: the model, trainable, and its card.
    pub fn load(folder: &Path) -> Result<(Self, ModelCard), PolicyError> {
        let config = ModelConfig::read(folder)?;
        let file = folder.join(WEIGHTS);
        let numbers = take(&file, &read_tensors(&file)?, &parameters(&config), "")?;
        let model = Self::from_numbers(config, numbers)?;
        let card = ModelCard {
            context: model.config().max_position_embeddings as u32,
            hash: model.hash()?,
            ..read_json(&folder.join(CARD))?
        };
        Ok((model, card))
    }

    /// Writes a model folder, which must exist: each file is on the disk when this returns.
    pub fn save(&self, folder: &Path, card: &ModelCard) -> Result<(), PolicyError> {
        write_json(&folder.join(CONFIG), self.config())?;
        let held = self.held();
        let numbers = held.floats().map_err(PolicyError::compute)?;
        let tensors = split(&parameters(self.config()), numbers, "");
        write_tensors(&folder.join(WEIGHTS), &tensors)?;
        let card = ModelCard {
            context: self.config().max_position_embeddings as u32,
            hash: self.hash()?,
            ..card.clone()
        };
        write_json(&folder.join(CARD), &card)
    }

    /// SHA-256 of its weights: of every tensor's name, shape and numbers, in their order.
    pub fn hash(&self) -> Result<String, PolicyError> {
        let held = self.held();
        let numbers = held.floats().map_err(PolicyError::compute)?;
        let mut hash = Sha256::new();
        for (name, shape, numbers) in split(&parameters(self.config()), numbers, "") {
            hash.update(format!("{name} {shape:?}\n"));
            hash.update(little_endian(numbers));
        }
        Ok(hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect())
    }
}
