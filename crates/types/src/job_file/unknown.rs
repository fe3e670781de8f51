//! What to say of a key that stands where it isn't known.
//!
//! Three answers, in this order: it is refused by name, it belongs elsewhere, it is a misspelling.

use crate::fault::Fault;
use crate::job_file::hyperparameters::{self, HYPERPARAMETERS};
use crate::job_file::plugin::RUNTIME;
use crate::job_file::setting::shown;
use crate::job_file::{DATA_KEYS, JOB_KEYS, PIPELINE_KEYS};
use crate::suggest;

/// Keys of Ark's job files that name storage which isn't there, with what to use instead.
const REFUSED: &[(&str, &str)] = &[
    ("tos_bucket", "local_files with paths inside the project"),
    ("tos_paths", "local_files with paths inside the project"),
    ("datasets", "local_files with paths inside the project"),
];

/// The fault of an unknown key of a mapping.
pub(super) fn key(key: &str, inside: &str, known: &[&str]) -> Fault {
    if let Some((_, instead)) = REFUSED.iter().find(|(name, _)| *name == key) {
        return Fault::invalid_value(
            format!("{key} is not supported; use {instead}"),
            "download the files into the project and name them: `training_set: {local_files: [./data/train.jsonl]}`",
        )
        .with("value", key)
        .with("allowed", "local_files");
    }
    if inside == "hyperparameters" {
        return hyperparameters::unknown(key);
    }
    let nearest = suggest::nearest(key, known.iter().copied());
    let mut fault = match (nearest, home(key)) {
        (None, Some(home)) => Fault::invalid_value(
            format!(
                "{} stands in the wrong place; it belongs under `{home}`",
                shown(key)
            ),
            format!("move it under `{home}`"),
        ),
        _ => Fault::invalid_value(
            format!(
                "unknown key {} in {inside}{}",
                shown(key),
                suggest::hint(nearest)
            ),
            format!("allowed here: {}", known.join(", ")),
        ),
    };
    if let Some(nearest) = nearest {
        fault = fault.with("nearest", nearest);
    }
    fault.with("value", key).with("allowed", known.to_vec())
}

/// The section that a key belongs to, if it is a key at all.
fn home(key: &str) -> Option<&'static str> {
    if HYPERPARAMETERS.iter().any(|row| row.name == key) {
        return Some("hyperparameters");
    }
    if RUNTIME.iter().any(|row| row.name == key) {
        return Some("runtime");
    }
    if DATA_KEYS.contains(&key) {
        return Some("data");
    }
    if PIPELINE_KEYS.contains(&key) {
        return Some("custom_rl_pipeline");
    }
    JOB_KEYS.contains(&key).then_some("the top level")
}
