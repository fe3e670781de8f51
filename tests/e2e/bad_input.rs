//! What must stop a job before it starts: told by kind, file, line and field, with what is allowed
//! and the nearest right spelling. Nothing is left behind.

use serde_json::Value;

use crate::paddock::Project;

/// What a fault must say.
struct Expected<'a> {
    kind: &'a str,
    file: &'a str,
    line: Option<u64>,
    field: Option<&'a str>,
    says: &'a [&'a str],
}

/// Runs a broken project, and checks its fault and that nothing is left.
fn refused(project: &Project, expected: &Expected<'_>) -> Value {
    let before = project.files();
    let ended = project.job(&[]);
    assert_eq!(ended.code, 3, "{ended:#?}");
    let summary = ended.last_json();
    assert_eq!(summary["state"], "failed");
    assert_eq!(summary["job"], Value::Null, "no job began");
    let fault = &summary["fault"];
    assert_eq!(fault["kind"], expected.kind, "{fault:#}");
    assert_eq!(fault["owner"], "data");
    let place = &fault["location"];
    let file = place["file"].as_str().unwrap_or_default();
    assert!(file.ends_with(expected.file), "{fault:#}");
    if expected.line.is_some() {
        assert_eq!(place["line"].as_u64(), expected.line, "{fault:#}");
    }
    if expected.field.is_some() {
        assert_eq!(place["field"].as_str(), expected.field, "{fault:#}");
    }
    let text = format!("{} {}", fault["message"], fault["advice"]);
    for part in expected.says {
        assert!(text.contains(part), "\"{part}\" in {text}");
    }
    assert!(ended.stderr.contains(expected.kind), "{}", ended.stderr);
    assert!(ended.stderr.contains("paddock explain"), "{}", ended.stderr);
    assert_eq!(
        project.files(),
        before,
        "nothing is written and nothing is left"
    );
    assert!(!project.data_dir().exists());
    fault.clone()
}

/// A slip in the job file.
fn slip(from: &str, to: &str, line: u64, field: &str, says: &[&str]) {
    let project = Project::new();
    project.edit("job.yaml", from, to);
    let expected = Expected {
        kind: "Invalid value",
        file: "job.yaml",
        line: Some(line),
        field: Some(field),
        says,
    };
    refused(&project, &expected);
}

#[test]
fn a_missing_data_file() {
    let project = Project::new();
    project.edit("job.yaml", "./data/train.jsonl", "./data/tran.jsonl");
    let expected = Expected {
        kind: "Invalid data",
        file: "data/tran.jsonl",
        line: None,
        field: Some("data.training_set.local_files[0]"),
        says: &["tran.jsonl", "did you mean", "train.jsonl"],
    };
    refused(&project, &expected);
}

#[test]
fn an_empty_data_file() {
    let project = Project::new();
    project.write("data/train.jsonl", "");
    let expected = Expected {
        kind: "Invalid data",
        file: "data/train.jsonl",
        line: None,
        field: Some("data.training_set.local_files[0]"),
        says: &["empty"],
    };
    refused(&project, &expected);
}

#[test]
fn a_broken_json_line() {
    let project = Project::new();
    let row = crate::paddock::row("1+1=");
    project.write("data/train.jsonl", format!("{row}{{\"messages\": [\n{row}"));
    let expected = Expected {
        kind: "Invalid value",
        file: "data/train.jsonl",
        line: Some(2),
        field: None,
        says: &["broken JSON", "column"],
    };
    refused(&project, &expected);
}

#[test]
fn a_row_without_messages() {
    let project = Project::new();
    let row = crate::paddock::row("1+1=");
    project.write(
        "data/train.jsonl",
        format!("{row}{row}{{\"message\": []}}\n"),
    );
    let expected = Expected {
        kind: "Invalid value",
        file: "data/train.jsonl",
        line: Some(3),
        field: Some("messages"),
        says: &["messages is missing", "\"message\\\" meant"],
    };
    let fault = refused(&project, &expected);
    assert!(
        fault["message"]
            .as_str()
            .is_some_and(|m| m.contains("is \"message\" meant?"))
    );
}

#[test]
fn an_unknown_hyperparameter() {
    slip(
        "batch_size: 2",
        "batchsize: 2",
        6,
        "hyperparameters.batchsize",
        &[
            "unknown hyperparameter",
            "did you mean",
            "batch_size",
            "num_steps",
        ],
    );
}

#[test]
fn a_value_out_of_range() {
    slip(
        "batch_size: 2",
        "batch_size: 0",
        6,
        "hyperparameters.batch_size",
        &["\\\"0\\\"", "a whole number from 1 to"],
    );
}

#[test]
fn half_a_sample() {
    slip(
        "batch_size: 2",
        "batch_size: \"32.5\"",
        6,
        "hyperparameters.batch_size",
        &["32.5", "not a whole number"],
    );
}

#[test]
fn a_learning_rate_that_is_no_number() {
    slip(
        "\"1e-5\"",
        "\"fast\"",
        11,
        "hyperparameters.lr",
        &["fast", "not a number", "above 0"],
    );
}

#[test]
fn a_single_generation() {
    slip(
        "num_generations: 2",
        "num_generations: 1",
        7,
        "hyperparameters.num_generations",
        &["from 2 to"],
    );
}

#[test]
fn a_type_that_is_not_trained_here() {
    slip(
        "GRPO",
        "PPO",
        2,
        "customization_type",
        &["PPO", "allowed: GRPO"],
    );
}

const FIELD: &str = "custom_rl_pipeline.graders[0].plugin.python_func";

/// A grader that can't be one.
fn function(name: &str, says: &[&str]) {
    let project = Project::new();
    project.edit(
        "job.yaml",
        "plugins.reward:even",
        &format!("plugins.reward:{name}"),
    );
    let expected = Expected {
        kind: "Invalid value",
        file: "",
        line: None,
        field: Some(FIELD),
        says,
    };
    refused(&project, &expected);
}

#[test]
fn a_function_that_does_not_exist() {
    function("evn", &["evn", "even"]);
}

#[test]
fn a_function_without_decorator() {
    function("undecorated", &["undecorated", "single_grader"]);
}

#[test]
fn a_wrong_signature() {
    function("misnamed", &["trajectorys", "trajectory"]);
}

#[test]
fn all_problems_of_the_job_file_at_once() {
    let project = Project::new();
    project.edit("job.yaml", "batch_size: 2", "batch_size: none");
    project.edit("job.yaml", "num_generations: 2", "num_generations: 1");
    let summary = project.job(&[]).last_json();
    let also = summary["fault"]["also"]
        .as_array()
        .expect("the others")
        .clone();
    assert_eq!(also.len(), 1, "{also:?}");
    assert!(
        also[0]
            .as_str()
            .is_some_and(|text| text.contains("num_generations")),
        "{also:?}"
    );
}

#[test]
fn overrides_are_checked_too() {
    let project = Project::new();
    let ended = project.job(&["--set", "learning_rate=1e-4"]);
    assert_eq!(ended.code, 3, "{ended:#?}");
    let fault = &ended.last_json()["fault"];
    assert!(
        fault["message"]
            .as_str()
            .is_some_and(|m| m.contains("did you mean \"lr\"")),
        "{fault:#}"
    );
}

#[test]
fn no_project() {
    let project = Project::new();
    let ended = project.paddock(&["run", "nowhere"]);
    assert_eq!(ended.code, 3, "{ended:#?}");
    assert!(
        ended.stderr.starts_with("Invalid data: "),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_base_model_that_is_not_there() {
    slip(
        "name: paddock-base",
        "name: padock-base",
        4,
        "model_reference.foundation_model.name",
        &["did you mean \\\"paddock-base", "allowed: paddock-base"],
    );
}

#[test]
fn answers_longer_than_the_models_context() {
    let project = Project::new();
    project.edit("job.yaml", "max_new_tokens: 4", "max_new_tokens: 99999");
    let expected = Expected {
        kind: "Invalid value",
        file: "",
        line: None,
        field: Some("hyperparameters.max_new_tokens"),
        says: &["2048 tokens", "1 to 2047"],
    };
    refused(&project, &expected);
}

#[test]
fn a_data_folder_that_can_not_be_written_to() {
    let project = Project::new();
    project.write("taken", "a file");
    let taken = project.dir().join("taken/data");
    let ended = project.paddock(&["run", "project", "--data-dir", &taken.to_string_lossy()]);
    assert_eq!(ended.code, 3, "{ended:#?}");
    assert!(
        ended.stderr.contains("Invalid value") && ended.stderr.contains("--data-dir"),
        "{}",
        ended.stderr
    );
}
