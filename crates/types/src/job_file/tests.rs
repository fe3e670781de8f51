//! The job file as its authors write it, and as they get it wrong.

use proptest::prelude::*;

use super::*;
use crate::job::LossAggMode;
use crate::plugin::InstanceSize;

const WHOLE: &str = include_str!("testdata/job.yaml");

/// The whole file with one text put for another.
fn with(from: &str, to: &str) -> Result<Parsed, Vec<Fault>> {
    assert!(WHOLE.contains(from), "{from}");
    parse(&WHOLE.replacen(from, to, 1), "job.yaml")
}

fn only(result: Result<Parsed, Vec<Fault>>) -> Fault {
    let mut faults = result.expect_err("a fault");
    assert_eq!(faults.len(), 1, "{faults:#?}");
    let fault = faults.remove(0);
    assert_eq!(fault.kind, crate::FaultKind::InvalidValue);
    assert!(
        fault.location.line.is_some() && fault.location.field.is_some(),
        "{fault:?}"
    );
    assert!(!fault.advice.is_empty());
    fault
}

fn good(text: &str) -> JobConfig {
    let parsed = parse(text, "job.yaml").expect("a good file");
    assert_eq!(parsed.warnings, Vec::<String>::new());
    parsed.config
}

#[test]
fn what_a_grpo_job_has_no_use_for_is_checked_and_warned_of() {
    let with = |line: &str| parse(&WHOLE.replace("seed: 7", line), "job.yaml");
    let parsed = with("lora_rank: \"32\"").expect("allowed");
    assert_eq!(
        parsed.warnings,
        [
            "job.yaml:12: hyperparameters.lora_rank has no effect: it belongs to LoRA, and customization_type GRPO trains all weights"
        ]
    );
    let fault = only(with("lora_alpha: four"));
    assert_eq!(
        fault.location.field.as_deref(),
        Some("hyperparameters.lora_alpha")
    );
}

#[test]
fn the_whole_file_reads() {
    let config = good(WHOLE);
    assert_eq!(config.hyperparameters.lr, Some(1e-6));
    assert_eq!(config.hyperparameters.loss_agg_mode, LossAggMode::TokenMean);
    let rollout = config.rollout.expect("a rollout");
    assert_eq!(rollout.runtime.instance, InstanceSize::parse("cpu1mem2"));
    assert_eq!(rollout.runtime.max_concurrency, Some(100));
    assert_eq!(config.graders[0].weight, 0.5);
    assert_eq!(config.graders[1].plugin.name, "brief");
    assert_eq!(config.graders[1].plugin.envs["KEY"], "${KEY}");
    assert_eq!(
        config.data.validation,
        ValidationSet::Files(vec!["./data/test.jsonl".into()])
    );
    assert_eq!(config.tags, serde_json::json!({"team": "rl", "round": 3}));
}

#[test]
fn a_small_file_has_defaults() {
    let text = "name: a\ncustom_rl_pipeline: {graders: [{plugin: {python_func: p.g:score}}]}\ndata: {training_set: {local_files: [a.jsonl]}}\n";
    let config = good(text);
    assert_eq!(config.hyperparameters, Hyperparameters::default());
    assert_eq!(config.graders[0].plugin.name, "score");
    assert_eq!(config.graders[0].weight, 1.0);
    assert_eq!(config.model, base_model());
    assert!(config.rollout.is_none());
    for row in SETTINGS {
        let mut set = config.clone();
        let default = row.otherwise.expect("every setting says its default");
        row.set(&mut set, default).expect("allowed");
        assert_eq!(set, config, "{}", row.name);
    }
}

#[test]
fn each_slip_is_named_with_its_place() {
    let cases = [
        (
            "batch_size:",
            "batchsize:",
            6,
            "hyperparameters.batchsize",
            "did you mean \"batch_size\"",
        ),
        ("\"1e-6\"", "fast", 9, "hyperparameters.lr", "not a number"),
        (
            "num_generations: \"8\"",
            "num_generations: 1",
            7,
            "hyperparameters.num_generations",
            "from 2 to 1024",
        ),
        (
            "batch_size: \"32\"",
            "batch_size: \"32.5\"",
            6,
            "hyperparameters.batch_size",
            "not a whole number",
        ),
        (
            "temperature: \"1.0\"",
            "temperature: 0",
            11,
            "hyperparameters.temperature",
            "above 0",
        ),
        (
            "token-mean",
            "token-meen",
            10,
            "hyperparameters.loss_agg_mode",
            "did you mean \"token-mean\"",
        ),
        (
            "seed: 7",
            "lora_dropout: 0.1",
            12,
            "hyperparameters.lora_dropout",
            "LoRA",
        ),
        (
            "customization_type: GRPO",
            "customization_type: PPO",
            2,
            "customization_type",
            "allowed: GRPO",
        ),
        (
            "timeout: 900",
            "timeout: 901",
            18,
            "custom_rl_pipeline.rollout.plugin.runtime.timeout",
            "from 1 to 900",
        ),
        (
            "cpu1mem2",
            "cpu1mem3",
            18,
            "custom_rl_pipeline.rollout.plugin.runtime.instance",
            "did you mean \"cpu1mem2\"",
        ),
        (
            "min_replicas: 1",
            "min_replicas: 11",
            18,
            "custom_rl_pipeline.rollout.plugin.runtime.min_replicas",
            "max_replicas (10)",
        ),
        (
            "plugins.reward:score",
            "plugins.reward.score",
            20,
            "custom_rl_pipeline.graders[0].plugin.python_func",
            "module.path:function",
        ),
        (
            "name: brief",
            "name: reward",
            22,
            "custom_rl_pipeline.graders[1].plugin.name",
            "taken by custom_rl_pipeline.graders[0]",
        ),
        (
            "weight: 0.5",
            "weight: .nan",
            21,
            "custom_rl_pipeline.graders[0].weight",
            "not a number",
        ),
        (
            "local_files: [./data/train.jsonl]",
            "tos_paths: [a]",
            25,
            "data.training_set.tos_paths",
            "local_files",
        ),
        (
            "max_invalid_records_number: 0",
            "num_steps: 3",
            27,
            "data.num_steps",
            "belongs under `hyperparameters`",
        ),
        (
            "max_invalid_records_number: 0",
            "validation_percentage: 10",
            27,
            "data.validation_percentage",
            "exclude",
        ),
        (
            "enable_trajectory: true",
            "enable_trajectory: maybe",
            29,
            "enable_trajectory",
            "true or false",
        ),
        (
            "save_model_limit: 1",
            "save_model_limits: 1",
            28,
            "save_model_limits",
            "did you mean \"save_model_limit\"",
        ),
    ];
    for (from, to, line, field, says) in cases {
        let result = with(from, to);
        let faults = result.expect_err(to);
        let fault = faults
            .iter()
            .find(|f| f.location.field.as_deref() == Some(field))
            .unwrap_or_else(|| panic!("{to}: {faults:#?}"));
        assert_eq!(fault.location.line, Some(line), "{to}");
        assert_eq!(fault.location.file.as_deref(), Some("job.yaml"));
        assert!(fault.message.contains(says), "{to}: {}", fault.message);
    }
}

#[test]
fn all_problems_are_found_at_once() {
    let text = WHOLE
        .replace("batch_size: \"32\"", "batch_size: none")
        .replace("timeout: 900", "timeout: 0")
        .replace("\ndata:", "\ndatas:");
    let faults = parse(&text, "job.yaml").expect_err("several");
    let fields: Vec<_> = faults
        .iter()
        .filter_map(|f| f.location.field.as_deref())
        .collect();
    for field in [
        "hyperparameters.batch_size",
        "custom_rl_pipeline.rollout.plugin.runtime.timeout",
        "datas",
        "data",
    ] {
        assert!(fields.contains(&field), "{field} in {fields:?}");
    }
    let lines: Vec<_> = faults.iter().map(|f| f.location.line).collect();
    assert!(lines.is_sorted(), "{lines:?}");
}

#[test]
fn no_grader_is_a_fault() {
    let text = "name: a\ncustom_rl_pipeline:\n  graders: []\ndata: {training_set: {local_files: [a.jsonl]}}\n";
    let fault = only(parse(text, "job.yaml"));
    assert!(
        fault.message.contains("at least one grader"),
        "{}",
        fault.message
    );
}

#[test]
fn overrides_are_checked_like_the_file() {
    let mut config = good(WHOLE);
    override_hyperparameters(&mut config, &[("num_steps".into(), "3".into())]).expect("allowed");
    assert_eq!(config.hyperparameters.num_steps, 3);
    let bad = [
        ("steps".to_owned(), "3".to_owned()),
        ("lr".to_owned(), "-1".to_owned()),
    ];
    let faults = override_hyperparameters(&mut config, &bad).expect_err("two");
    assert!(faults[0].message.contains("did you mean \"num_steps\""));
    assert!(faults[1].message.contains("above 0"));
}

#[test]
fn unset_variables_are_named() {
    let config = good(WHOLE);
    let faults = expand_envs(config.clone(), |_| None).expect_err("not set");
    assert_eq!(
        faults[0].location.field.as_deref(),
        Some("custom_rl_pipeline.graders[1].plugin.envs.KEY")
    );
    let config = expand_envs(config, |name| Some(format!("<{name}>"))).expect("set");
    assert_eq!(config.graders[1].plugin.envs["KEY"], "<KEY>");
}

proptest! {
    #[test]
    fn no_text_panics(text in "(?s).{0,400}") {
        let _ = parse(&text, "job.yaml");
    }

    #[test]
    fn no_broken_line_panics(line in 0usize..30, junk in "[\\[\\]{}:&*!|>'\"%@`a-z0-9 ,$#-]{0,40}") {
        let mut lines: Vec<&str> = WHOLE.lines().collect();
        let at = line.min(lines.len());
        lines.insert(at, &junk);
        if let Err(faults) = parse(&lines.join("\n"), "job.yaml") {
            prop_assert!(!faults.is_empty());
        }
    }

    #[test]
    fn no_cut_panics(end in 0usize..2000) {
        let end = WHOLE.floor_char_boundary(end.min(WHOLE.len()));
        let _ = parse(&WHOLE[..end], "job.yaml");
    }
}

#[test]
fn the_network_is_full_unless_said_and_a_proxy_needs_hosts() {
    let with = |line: &str| parse(&format!("{line}\n{WHOLE}"), "job.yaml");
    assert_eq!(good(WHOLE).network, Network::Full);
    let config = with("network: none").expect("good").config;
    assert_eq!(config.network, Network::None);
    let config = with("network: proxy\nnetwork_allow: [a.org, \"*.b.org:443\"]").expect("good");
    let allow = vec!["a.org".to_owned(), "*.b.org:443".to_owned()];
    assert_eq!(config.config.network, Network::Proxy { allow });
    for (lines, field) in [
        ("network: proxy", "network_allow"),
        ("network: proxy\nnetwork_allow: []", "network_allow"),
        ("network_allow: [a.org]", "network_allow"),
        ("network: some", "network"),
        (
            "network: proxy\nnetwork_allow: [\"http://a.org\"]",
            "network_allow[0]",
        ),
    ] {
        let fault = only(with(lines));
        assert_eq!(fault.location.field.as_deref(), Some(field), "{lines}");
    }
}
