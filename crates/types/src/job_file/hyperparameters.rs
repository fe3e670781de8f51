//! The one table of hyperparameters: it reads them, refuses them and explains them.
//!
//! What they mean exactly is in `docs/design/policy.md`; ranges and defaults stand here alone.

use crate::fault::{Fault, Location};
use crate::job::{Hyperparameters, LossAggMode, ScaleRewards};
use crate::job_file::setting::{Bounds, Kind, Refusal, Setting};
use crate::suggest;

type Row = Setting<Hyperparameters>;

const fn row(name: &'static str, kind: Kind<Hyperparameters>, meaning: &'static str) -> Row {
    Setting {
        name,
        kind,
        otherwise: None,
        meaning,
        also: &[],
    }
}

impl Row {
    const fn also(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    const fn otherwise(self, text: &'static str) -> Self {
        Self {
            otherwise: Some(text),
            ..self
        }
    }
}

const LOSS_AGG_MODES: [(&str, LossAggMode); 4] = [
    ("seq-mean-token-mean", LossAggMode::SeqMeanTokenMean),
    ("token-mean", LossAggMode::TokenMean),
    ("seq-mean-token-sum", LossAggMode::SeqMeanTokenSum),
    ("seq-mean-token-sum-norm", LossAggMode::SeqMeanTokenSumNorm),
];

fn loss_agg_modes() -> Vec<String> {
    LOSS_AGG_MODES.map(|(name, _)| name.to_owned()).to_vec()
}

fn set_loss_agg_mode(h: &mut Hyperparameters, name: &str) {
    if let Some((_, mode)) = LOSS_AGG_MODES.iter().find(|(n, _)| *n == name) {
        h.loss_agg_mode = *mode;
    }
}

fn scales() -> Vec<String> {
    vec!["group".into(), "none".into()]
}

fn set_scale(h: &mut Hyperparameters, name: &str) {
    h.scale_rewards = match name {
        "none" => ScaleRewards::None,
        _ => ScaleRewards::Group,
    };
}

/// Every hyperparameter, in the order of the documentation.
pub const HYPERPARAMETERS: &[Row] = &[
    row(
        "batch_size",
        Kind::Whole(1, 65_536, |h, n| h.batch_size = n),
        "samples a step",
    )
    .also(&["train_batch_size", "rollout_batch_size"]),
    row(
        "num_generations",
        Kind::Whole(2, 1024, |h, n| h.num_generations = n),
        "trajectories a sample: the group that rewards are compared in",
    )
    .also(&["group_size", "rollout_n", "n", "num_rollouts"]),
    row(
        "num_steps",
        Kind::Whole(1, 1_000_000, |h, n| h.num_steps = n),
        "steps of the job",
    )
    .also(&["max_steps", "steps", "total_steps"]),
    row(
        "num_iterations_per_batch",
        Kind::Whole(1, 100, |h, n| h.num_iterations_per_batch = n),
        "updates a step on the same trajectories",
    )
    .also(&["num_iterations", "ppo_epochs"]),
    row(
        "lr",
        Kind::Number(Bounds::above(0.0, 1.0), |h, x| h.lr = Some(x)),
        "learning rate",
    )
    .also(&["learning_rate"])
    .otherwise("the model card's"),
    row(
        "lr_warmup_steps",
        Kind::Whole(0, 1_000_000, |h, n| h.lr_warmup_steps = n),
        "steps over which the learning rate grows from 0",
    )
    .also(&["warmup_steps"]),
    row(
        "kl_coefficient",
        Kind::Number(Bounds::closed(0.0, 100.0), |h, x| h.kl_coefficient = x),
        "weight of the KL term towards the initial weights; 0 leaves it out",
    )
    .also(&["beta", "kl_coef", "kl_loss_coef"]),
    row(
        "clip_ratio_low",
        Kind::Number(Bounds::above(0.0, 1.0), |h, x| h.clip_ratio_low = x),
        "how far below 1 the ratio to the sampling policy may count",
    )
    .also(&["epsilon", "cliprange"]),
    row(
        "clip_ratio_high",
        Kind::Number(Bounds::above(0.0, 100.0), |h, x| h.clip_ratio_high = x),
        "how far above 1 the ratio to the sampling policy may count",
    )
    .also(&["epsilon_high"]),
    row(
        "loss_agg_mode",
        Kind::Choice(loss_agg_modes, set_loss_agg_mode),
        "how the losses of tokens become one number",
    )
    .also(&["loss_type"]),
    row(
        "scale_rewards",
        Kind::Choice(scales, set_scale),
        "divides a group's advantages by its standard deviation, or not (Dr. GRPO)",
    ),
    row(
        "mask_truncated",
        Kind::Flag(|h, on| h.mask_truncated = on),
        "leaves trajectories that ended by length out of the loss",
    )
    .also(&["mask_truncated_completions", "overlong_filter"]),
    row(
        "max_new_tokens",
        Kind::Whole(1, 1_048_576, |h, n| h.max_new_tokens = n),
        "tokens that one model call may sample",
    )
    .also(&["max_tokens", "max_completion_length", "max_response_length"]),
    row(
        "temperature",
        Kind::Number(Bounds::above(0.0, 10.0), |h, x| h.temperature = x),
        "sampling temperature in training; 0 would make a group's trajectories all alike",
    ),
    row(
        "top_p",
        Kind::Number(Bounds::above(0.0, 1.0), |h, x| h.top_p = x),
        "nucleus mass that is sampled from",
    ),
    row(
        "top_k",
        Kind::Whole(0, 1_000_000, |h, n| h.top_k = n),
        "most likely tokens that are sampled from; 0 takes all",
    ),
    row(
        "save_every_n_steps",
        Kind::Whole(1, 1_000_000, |h, n| h.save_every_n_steps = n),
        "steps between checkpoints",
    )
    .also(&["save_steps", "save_freq"]),
    row(
        "test_every_n_steps",
        Kind::Whole(1, 1_000_000, |h, n| h.test_every_n_steps = n),
        "steps between validations",
    )
    .also(&["eval_steps", "test_freq"]),
    row(
        "test_num_generations",
        Kind::Whole(1, 1024, |h, n| h.test_num_generations = n),
        "trajectories a validation sample",
    ),
    row(
        "test_temperature",
        Kind::Number(Bounds::closed(0.0, 10.0), |h, x| {
            h.test_temperature = Some(x)
        }),
        "temperature in validation; 0 takes the most likely token",
    )
    .otherwise("temperature's"),
    row(
        "test_top_p",
        Kind::Number(Bounds::above(0.0, 1.0), |h, x| h.test_top_p = x),
        "nucleus mass in validation",
    ),
    row(
        "seed",
        Kind::Large(|h, n| h.seed = n),
        "seed of everything random in the job",
    )
    .also(&["random_seed"]),
];

/// Names that job files made for several types carry along, and that a `GRPO` job has no use for:
/// checked, and answered with a warning.
pub(super) const WITHOUT_EFFECT: &[&str] = &["lora_rank", "lora_alpha"];

/// Names that belong to what this version doesn't train, with what to do about them.
pub(super) const UNSUPPORTED: &[(&str, &str)] = &[
    ("lora_dropout", LORA),
    ("lora_target_modules", LORA),
    ("critic_lr", CRITIC),
    ("critic_lr_warmup_steps", CRITIC),
    ("value_clip", CRITIC),
    ("gae_lambda", CRITIC),
    ("gamma", CRITIC),
];

const LORA: &str =
    "belongs to LoRA; this version fine-tunes all weights (customization_type GRPO): leave it out";
const CRITIC: &str =
    "belongs to PPO; this version trains with GRPO, which has no critic: leave it out";

/// Sets one hyperparameter by name, as `--set lr=1e-4` does.
///
/// # Errors
/// `Invalid value` for an unknown name or a value that is not allowed.
pub fn set(target: &mut Hyperparameters, name: &str, text: &str) -> Result<(), Box<Fault>> {
    let place = Location::default().field(format!("hyperparameters.{name}"));
    match HYPERPARAMETERS.iter().find(|row| row.name == name) {
        Some(row) => row
            .set(target, text)
            .map_err(|refusal| Box::new(refused(&refusal, text).at(place))),
        None => Err(Box::new(unknown(name).at(place))),
    }
}

/// The fault of a value that is not allowed.
pub(super) fn refused(refusal: &Refusal, given: &str) -> Fault {
    let Refusal {
        message,
        allowed,
        nearest,
    } = refusal;
    let hint = suggest::hint(nearest.as_deref());
    let mut fault = Fault::invalid_value(
        format!("{message}; allowed: {allowed}{hint}"),
        format!("set it to {allowed}"),
    )
    .with("value", given)
    .with("allowed", allowed.as_str());
    if let Some(nearest) = nearest {
        fault = fault.with("nearest", nearest.as_str());
    }
    fault
}

/// The fault of a name that is no hyperparameter.
pub(super) fn unknown(name: &str) -> Fault {
    let shown = super::setting::shown(name);
    if let Some((_, why)) = UNSUPPORTED.iter().find(|(n, _)| *n == name) {
        return Fault::invalid_value(format!("{shown} {why}"), "remove the line")
            .with("value", name)
            .with("allowed", names());
    }
    let nearest = meant(name);
    let mut fault = Fault::invalid_value(
        format!("unknown hyperparameter {shown}{}", suggest::hint(nearest)),
        format!(
            "allowed: {}; `paddock explain hyperparameters` says what each does",
            names().join(", ")
        ),
    )
    .with("value", name)
    .with("allowed", names());
    if let Some(nearest) = nearest {
        fault = fault.with("nearest", nearest);
    }
    fault
}

/// The hyperparameter that a name likely means, by its spelling or by what other trainers call it.
pub fn meant(name: &str) -> Option<&'static str> {
    let by_other_name = HYPERPARAMETERS.iter().find(|row| row.also.contains(&name));
    by_other_name
        .map(|row| row.name)
        .or_else(|| suggest::nearest(name, HYPERPARAMETERS.iter().map(|row| row.name)))
}

/// The names of all hyperparameters.
pub fn names() -> Vec<&'static str> {
    HYPERPARAMETERS.iter().map(|row| row.name).collect()
}

/// What holds if a hyperparameter is left out.
pub fn default_of(row: &Row) -> String {
    if let Some(text) = row.otherwise {
        return text.to_owned();
    }
    match serde_json::to_value(Hyperparameters::default()) {
        Ok(defaults) => match &defaults[row.name] {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string().trim_end_matches(".0").to_owned(),
        },
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_field_once() {
        let value = serde_json::to_value(Hyperparameters::default()).expect("plain numbers");
        let mut fields: Vec<_> = value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect();
        let mut rows: Vec<_> = names().iter().map(|n| (*n).to_owned()).collect();
        fields.sort();
        rows.sort();
        assert_eq!(fields, rows);
    }

    #[test]
    fn every_default_is_allowed() {
        for row in HYPERPARAMETERS.iter().filter(|row| row.otherwise.is_none()) {
            let mut h = Hyperparameters::default();
            row.set(&mut h, &default_of(row))
                .unwrap_or_else(|e| panic!("{}: {e:?}", row.name));
            assert_eq!(h, Hyperparameters::default(), "{}", row.name);
        }
    }

    #[test]
    fn text_and_number_are_the_same() {
        let mut h = Hyperparameters::default();
        set(&mut h, "lr", "1e-6").expect("allowed");
        assert_eq!(h.lr, Some(0.000_001));
        set(&mut h, "lr", "0.000001").expect("allowed");
        assert_eq!(h.lr, Some(1e-6));
        let fault = set(&mut h, "batch_size", "32.5").expect_err("not whole");
        assert_eq!(
            fault.message,
            "batch_size is \"32.5\", which is not a whole number; allowed: a whole number from 1 to 65536"
        );
    }

    #[test]
    fn other_trainers_names_are_known() {
        assert_eq!(meant("learning_rate"), Some("lr"));
        assert_eq!(meant("num_generation"), Some("num_generations"));
        assert_eq!(meant("colour"), None);
        let fault = unknown("lora_dropout");
        assert!(fault.message.contains("LoRA"), "{}", fault.message);
    }
}
