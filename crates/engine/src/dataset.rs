//! The rows of a job's data, and which of them a step draws.
//!
//! The draw is a pure function of (seed, step): epoch after epoch, each a permutation of its own.
//! Nothing has to be remembered to go on after a restart.

use std::sync::Arc;

use paddock_types::chat::{Message, Sampling};
use paddock_types::id::Phase;
use paddock_types::rows;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value};

/// A dataset row.
#[derive(Debug, Clone)]
pub struct Row {
    /// Where it stands: `file:line`.
    pub source: String,
    /// The row as JSON, passed to plugins unchanged.
    pub json: Arc<str>,
    /// Its messages.
    pub messages: Vec<Message>,
    /// Its tools, if it has any.
    pub tools: Option<Value>,
    /// The sampling settings that it sets explicitly.
    pub sampling: Sampling,
    /// Whether the model is to think: `{"type": "enabled" | "disabled" | "auto"}`.
    pub thinking: Option<Value>,
}

impl Row {
    /// Takes a row that has passed `rows::check`.
    pub fn new(source: String, row: Map<String, Value>) -> Self {
        let messages = rows::messages(&row);
        let sampling = rows::sampling(&row);
        let tools = row.get("tools").filter(|t| !t.is_null()).cloned();
        let thinking = row.get("thinking").cloned();
        let json = Value::Object(row).to_string().into();
        Self {
            source,
            json,
            messages,
            tools,
            sampling,
            thinking,
        }
    }
}

/// The rows of a job.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// Rows to train on.
    pub training: Vec<Arc<Row>>,
    /// Rows to measure on.
    pub validation: Vec<Arc<Row>>,
    /// Rows left out as broken.
    pub invalid_rows: u64,
}

impl Dataset {
    /// Sets a share of the training rows (percent) aside for validation, chosen by the seed.
    pub fn set_aside(&mut self, percent: f64, seed: u64) {
        let total = self.training.len();
        let count = ((total as f64 * percent / 100.0).round() as usize).clamp(1, total.max(2) - 1);
        let mut order = permutation(total, seed, u64::MAX);
        order.truncate(count);
        order.sort_unstable();
        let mut rows = std::mem::take(&mut self.training).into_iter().enumerate();
        for (index, row) in rows.by_ref() {
            match order.binary_search(&index) {
                Ok(_) => self.validation.push(row),
                Err(_) => self.training.push(row),
            }
        }
    }

    /// The rows that a step draws, in order. Validation always draws all of its rows.
    pub fn draw(&self, phase: Phase, step: u32, batch_size: u32, seed: u64) -> Vec<Arc<Row>> {
        match phase {
            Phase::Test => self.validation.clone(),
            Phase::Train => draw(self.training.len(), step, batch_size, seed)
                .into_iter()
                .map(|index| self.training[index].clone())
                .collect(),
        }
    }
}

/// The row numbers of step `step` (from 1) out of `total` rows.
fn draw(total: usize, step: u32, batch_size: u32, seed: u64) -> Vec<usize> {
    let first = u64::from(step - 1) * u64::from(batch_size);
    let mut epoch = None;
    let mut order = vec![];
    (first..first + u64::from(batch_size))
        .map(|position| {
            let this = position / total as u64;
            if epoch != Some(this) {
                order = permutation(total, seed, this);
                epoch = Some(this);
            }
            order[(position % total as u64) as usize]
        })
        .collect()
}

fn permutation(total: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut key = [0u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&epoch.to_le_bytes());
    key[16..].copy_from_slice(b"paddock: dataset");
    let mut order: Vec<usize> = (0..total).collect();
    order.shuffle(&mut ChaCha8Rng::from_seed(key));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dataset(rows: usize) -> Dataset {
        let row = |n| {
            let row = serde_json::json!({"messages": [{"role": "user", "content": n}]});
            Arc::new(Row::new(
                format!("a.jsonl:{n}"),
                row.as_object().cloned().unwrap_or_default(),
            ))
        };
        Dataset {
            training: (1..=rows).map(row).collect(),
            ..Dataset::default()
        }
    }

    #[test]
    fn a_share_is_set_aside_and_is_in_neither_twice() {
        let mut data = dataset(50);
        data.set_aside(10.0, 7);
        assert_eq!((data.training.len(), data.validation.len()), (45, 5));
        let mut all: Vec<_> = data
            .training
            .iter()
            .chain(&data.validation)
            .map(|r| r.source.clone())
            .collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 50);
    }

    proptest! {
        #[test]
        fn an_epoch_draws_every_row_once(total in 1usize..40, batch in 1u32..20, seed: u64) {
            let steps = (total as u32).div_ceil(batch) * 2;
            let drawn: Vec<usize> =
                (1..=steps).flat_map(|step| draw(total, step, batch, seed)).collect();
            let mut first: Vec<usize> = drawn[..total].to_vec();
            first.sort_unstable();
            prop_assert_eq!(first, (0..total).collect::<Vec<_>>());
        }
    }
}
