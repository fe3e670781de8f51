//! What can go wrong with a policy.

use std::path::PathBuf;

/// A failed operation of the policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A file of a model or checkpoint could not be read.
    #[error("cannot read \"{}\"", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file or folder could not be written.
    #[error("cannot write \"{}\"", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A JSON file is broken or lacks a field.
    #[error("\"{}\" is not what it should be", file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A model's configuration asks for what this decoder cannot compute.
    #[error("\"{}\": {reason}", file.display())]
    Config {
        /// The file.
        file: PathBuf,
        /// Which field, and what is allowed.
        reason: String,
    },
    /// A weights file does not hold what its configuration says.
    #[error("\"{}\": {reason}", file.display())]
    Weights {
        /// The file.
        file: PathBuf,
        /// Which tensor, and how it differs.
        reason: String,
    },
    /// A weights file could not be laid out.
    #[error("cannot lay out \"{}\"", file.display())]
    Tensors {
        /// The file.
        file: PathBuf,
        /// Why.
        source: safetensors::SafeTensorError,
    },
    /// A checkpoint was made with something that is not the same any more.
    #[error("\"{}\": {reason}", file.display())]
    Checkpoint {
        /// Its file.
        file: PathBuf,
        /// What differs.
        reason: String,
    },
    /// A request that cannot be served: the caller's mistake.
    #[error("{0}")]
    Request(String),
    /// A token step failed; everything that was being sampled is told.
    #[error("sampling failed: {reason}")]
    Sampling {
        /// What the tensor library said.
        reason: String,
    },
    /// A number that should be finite is not. Weights and optimiser are as they were before.
    #[error("step {step}: {what} is not finite ({evidence})")]
    NonFinite {
        /// `loss`, `gradient`, `log-prob` or `weights`.
        what: &'static str,
        /// The step it happened in.
        step: u32,
        /// Where, and the numbers around it.
        evidence: String,
    },
    /// The tensor library refused.
    #[error("the tensor library refused an operation")]
    Compute {
        /// Why.
        #[source]
        source: Box<candle_core::Error>,
    },
    /// The thread that owns the model could not be started.
    #[error("cannot start the policy's thread")]
    Start {
        /// Why.
        source: std::io::Error,
    },
    /// The thread that owns the model is gone.
    #[error("the policy's thread has ended; see the log for its last words")]
    Ended,
}

impl PolicyError {
    /// Wraps what the tensor library says.
    pub(crate) fn compute(source: candle_core::Error) -> Self {
        Self::Compute {
            source: Box::new(source),
        }
    }
}
