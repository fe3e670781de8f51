//! The data section of a job file: which rows are trained on, which are held out.

use crate::fault::Fault;
use crate::job::{DataConfig, InvalidRecords, ValidationSet};
use crate::job_file::DATA_KEYS;
use crate::job_file::reader::{Fields, Reader, Slot};
use crate::job_file::setting::{Bounds, shown, whole};

const FILES: &str =
    "a list of paths inside the project, such as `local_files: [./data/train.jsonl]`";

/// Reads `data`.
pub(super) fn data(reader: &mut Reader<'_>, slot: &Slot<'_>) -> Option<DataConfig> {
    let fields = reader.fields(slot, DATA_KEYS)?;
    let training_files = match fields.get("training_set") {
        Some(slot) => files(reader, &slot),
        None => {
            reader.missing(
                &fields,
                "training_set",
                "name the training rows: `training_set: {local_files: [./data/train.jsonl]}`",
            );
            Vec::new()
        }
    };
    let validation = validation(reader, &fields);
    let max_invalid_records = invalid_records(reader, &fields);
    Some(DataConfig {
        training_files,
        validation,
        max_invalid_records,
    })
}

fn validation(reader: &mut Reader<'_>, fields: &Fields<'_>) -> ValidationSet {
    match (
        fields.get("validation_set"),
        fields.get("validation_percentage"),
    ) {
        (None, None) => ValidationSet::None,
        (Some(set), None) => ValidationSet::Files(files(reader, &set)),
        (None, Some(share)) => {
            let bounds = Bounds::between(0.0, 100.0);
            let percent = reader.number(&share, &bounds.describe(), |x| bounds.holds(x));
            percent.map_or(ValidationSet::None, ValidationSet::Percentage)
        }
        (Some(_), Some(share)) => {
            both(reader, &share, "validation_set");
            ValidationSet::None
        }
    }
}

fn invalid_records(reader: &mut Reader<'_>, fields: &Fields<'_>) -> InvalidRecords {
    let number = fields.get("max_invalid_records_number");
    let ratio = fields.get("max_invalid_records_ratio");
    match (number, ratio) {
        (None, None) => InvalidRecords::Number(0),
        (Some(slot), None) => {
            let allowed = "a whole number from 0";
            let text = reader.scalar(&slot, allowed).unwrap_or_default();
            match whole(text.trim()) {
                Ok(n) => InvalidRecords::Number(n),
                Err(why) => {
                    reader.refuse(&slot, format!("max_invalid_records_number {why}"), allowed);
                    InvalidRecords::Number(0)
                }
            }
        }
        (None, Some(slot)) => {
            let bounds = Bounds::closed(0.0, 1.0);
            let ratio = reader.number(&slot, &bounds.describe(), |x| bounds.holds(x));
            ratio.map_or(InvalidRecords::Number(0), InvalidRecords::Ratio)
        }
        (Some(_), Some(slot)) => {
            both(reader, &slot, "max_invalid_records_number");
            InvalidRecords::Number(0)
        }
    }
}

fn both(reader: &mut Reader<'_>, slot: &Slot<'_>, other: &str) {
    let fault = Fault::invalid_value(
        format!("{} and {other} exclude each other", slot.name()),
        "keep one of the two",
    );
    reader.note(slot, fault);
}

fn files(reader: &mut Reader<'_>, slot: &Slot<'_>) -> Vec<String> {
    let Some(fields) = reader.fields(slot, &["local_files"]) else {
        return Vec::new();
    };
    let Some(slot) = fields.get("local_files") else {
        reader.missing(&fields, "local_files", &format!("write {FILES}"));
        return Vec::new();
    };
    let items = reader.items(&slot, FILES);
    if items.is_empty() && matches!(&slot.node.data, super::tree::Data::List(_)) {
        reader.refuse(&slot, "local_files is empty".into(), "at least one path");
    }
    let mut out: Vec<String> = Vec::new();
    for item in items {
        let Some(path) = reader.text(&item) else {
            continue;
        };
        if out.contains(&path) {
            reader.refuse(
                &item,
                format!("{} is named twice", shown(&path)),
                "each file once",
            );
        }
        out.push(path);
    }
    out
}
