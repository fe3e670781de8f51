use std::fs;

use super::*;

const ROW: &str = r#"{"messages": [{"role": "user", "content": "hi"}]}"#;

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

fn config(training: &str, validation: ValidationSet, allowed: InvalidRecords) -> DataConfig {
    DataConfig {
        training_files: vec![training.into()],
        validation,
        max_invalid_records: allowed,
    }
}

fn fault(files: &[(&str, &str)], allowed: InvalidRecords) -> Fault {
    let folder = project(files);
    let config = config("train.jsonl", ValidationSet::None, allowed);
    load(folder.path(), &config, 0).expect_err("a fault")
}

const NONE: InvalidRecords = InvalidRecords::Number(0);

#[test]
fn a_missing_file_is_invalid_data_with_the_nearest_name() {
    let fault = fault(&[("trian.jsonl", ROW)], NONE);
    assert_eq!(fault.kind, FaultKind::InvalidData);
    assert_eq!(
        fault.location.field.as_deref(),
        Some("data.training_set.local_files[0]")
    );
    assert!(fault.advice.contains("\"trian.jsonl\""), "{}", fault.advice);
}

#[test]
fn an_empty_file_is_invalid_data() {
    let fault = fault(&[("train.jsonl", "\n  \n")], NONE);
    assert_eq!(fault.kind, FaultKind::InvalidData);
    assert!(fault.message.contains("is empty"), "{}", fault.message);
}

#[test]
fn a_byte_order_mark_at_the_head_is_no_fault() {
    let folder = project(&[("train.jsonl", &format!("\u{feff}{ROW}\n{ROW}"))]);
    let config = config("train.jsonl", ValidationSet::None, NONE);
    let data = load(folder.path(), &config, 0).expect("good rows");
    assert_eq!(data.training.len(), 2);
}

#[test]
fn every_broken_row_is_named_by_file_and_line() {
    let text = format!("{ROW}\n{{\"messages\": \n\n{{\"prompt\": \"hi\"}}\n");
    let fault = fault(&[("train.jsonl", &text)], NONE);
    assert_eq!(fault.kind, FaultKind::InvalidValue);
    assert_eq!(fault.location.line, Some(2));
    assert!(
        fault
            .also
            .iter()
            .any(|text| text.starts_with("train.jsonl:4")),
        "{:?}",
        fault.also
    );
    assert_eq!(fault.evidence["invalid_rows"], 2);
}

#[test]
fn broken_rows_within_the_limit_are_left_out_and_counted() {
    let folder = project(&[("train.jsonl", &format!("{ROW}\nnot JSON\n{ROW}"))]);
    for allowed in [InvalidRecords::Number(1), InvalidRecords::Ratio(0.34)] {
        let config = config("train.jsonl", ValidationSet::None, allowed);
        let data = load(folder.path(), &config, 0).expect("within the limit");
        assert_eq!((data.training.len(), data.invalid_rows), (2, 1));
        assert_eq!(data.training[1].source, "train.jsonl:3");
    }
    let text = format!("{ROW}\nnot JSON\n{ROW}");
    assert_eq!(
        fault(&[("train.jsonl", &text)], InvalidRecords::Ratio(0.3)).kind,
        FaultKind::InvalidValue
    );
}

#[test]
fn no_limit_excuses_a_file_that_is_not_there() {
    let folder = project(&[("train.jsonl", ROW)]);
    let validation = ValidationSet::Files(vec!["test.jsonl".into()]);
    let config = config("train.jsonl", validation, InvalidRecords::Ratio(1.0));
    let fault = load(folder.path(), &config, 0).expect_err("a fault");
    assert_eq!(
        fault.location.field.as_deref(),
        Some("data.validation_set.local_files[0]")
    );
}
