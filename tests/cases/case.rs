//! The list of cases, as its file has it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

/// One value, or several of which any is right.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOf {
    One(String),
    Any(Vec<String>),
}

impl OneOf {
    pub(crate) fn allows(&self, text: &str) -> bool {
        match self {
            Self::One(one) => one == text,
            Self::Any(any) => any.iter().any(|one| one == text),
        }
    }
}

/// What is called, and what must come out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) function: String,
    pub(crate) outcome: OneOf,
    /// Of a call that ends in `failure`.
    pub(crate) sub_kind: Option<OneOf>,
    /// Texts that the call recorded; in its log, if the call succeeds.
    #[serde(default)]
    pub(crate) evidence: Vec<String>,
    /// Seconds of queue and run; of an import, from the command's start.
    pub(crate) within_s: f64,
    /// Calls made at once.
    #[serde(default = "one")]
    pub(crate) calls: usize,
    /// So many of them have `extra.slow`: only those are to go wrong.
    #[serde(default)]
    pub(crate) slow_calls: usize,
    #[serde(default = "two")]
    pub(crate) trajectories: usize,
    #[serde(default)]
    pub(crate) rewards: Vec<f64>,
    /// A command line that no process may have.
    pub(crate) leaves_no: Option<String>,
    #[serde(default)]
    pub(crate) envs: BTreeMap<String, String>,

    // What follows only our own list has.
    /// Texts that the call must not record.
    #[serde(default)]
    pub(crate) lacks: Vec<String>,
    /// The sample's `extra`.
    #[serde(default)]
    pub(crate) extra: BTreeMap<String, Value>,
    /// The function is a rollout, and so is its `healthy`.
    #[serde(default)]
    pub(crate) rollout: bool,
}

fn one() -> usize {
    1
}

fn two() -> usize {
    2
}

#[derive(Deserialize)]
struct File {
    case: Vec<Case>,
}

/// Reads a list.
pub(crate) fn read(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).expect("a list of cases");
    let read: Result<File, _> = toml::from_str(&text);
    let file = read.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    file.case
}

/// `hangs.py@MARK` as `hangs.py:12`, where line 12 of that plugin is the one with the mark.
pub(crate) fn placed(evidence: &str, plugins: &Path) -> String {
    let Some((file, mark)) = evidence.split_once('@') else {
        return evidence.to_owned();
    };
    let text = std::fs::read_to_string(plugins.join(file)).expect("a plugin");
    let ends = |line: &str| line.split(&['#', ':'][..]).any(|part| part.trim() == mark);
    let at = text.lines().position(ends);
    let at = at.unwrap_or_else(|| panic!("{file} has no {mark}"));
    format!("{file}:{}", at + 1)
}

impl Case {
    /// It has no `healthy`: what is looked at is the import.
    pub(crate) fn is_import(&self) -> bool {
        self.function.starts_with("imports.")
    }

    /// Without a memory limit it would eat the machine.
    pub(crate) fn needs_memory_limit(&self) -> bool {
        self.sub_kind
            .as_ref()
            .is_some_and(|kinds| kinds.allows("FaaS OOM"))
    }

    /// The requests of its calls.
    pub(crate) fn requests(&self) -> Value {
        let user = json!({"role": "user", "content": "2+2="});
        let said = json!({"role": "assistant", "content": "4"});
        let trajectory = json!({"messages": [user, said]});
        let each = (0..self.calls).map(|n| {
            let mut extra = json!(self.extra);
            if n < self.slow_calls {
                extra["slow"] = json!(true);
            }
            json!({
                "sample": {"messages": [user], "extra": extra},
                "trajectories": vec![trajectory.clone(); self.trajectories],
            })
        });
        each.collect()
    }
}
