use std::fs;
use std::path::Path;

use super::*;
use crate::model::ModelCard;
use crate::model::tests::small;
use crate::train::UpdateSettings;
use crate::train::tests::{settings, trajectories};

fn trainer() -> Trainer {
    let card = ModelCard {
        name: "small".into(),
        lr: 1e-3,
        ..ModelCard::default()
    };
    Trainer::new(small(true), card).expect("a trainer")
}

fn hash(trainer: &Trainer) -> String {
    trainer.model().hash().expect("a hash")
}

fn step(trainer: &mut Trainer, step: u32) {
    let settings = UpdateSettings { step, ..settings() };
    trainer
        .update(&trajectories(10 + step), &settings)
        .expect("an update");
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

#[test]
fn a_resumed_training_equals_an_uninterrupted_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoint = folder.path().join("step-2");
    let progress = Progress {
        step: 2,
        seed: 9,
        position: 64,
        ..Progress::default()
    };
    let mut whole = trainer();
    for n in 1..=2 {
        step(&mut whole, n);
    }
    whole.save(&checkpoint, &progress).expect("saved");
    let (mut resumed, read) = Trainer::resume(&checkpoint).expect("resumed");
    assert_eq!(read, progress);
    assert_eq!(read_progress(&checkpoint).expect("progress"), progress);
    for n in 3..=4 {
        step(&mut whole, n);
        step(&mut resumed, n);
    }
    assert_eq!(hash(&resumed), hash(&whole));
    assert_eq!(resumed.optimiser, whole.optimiser);
    assert_eq!(resumed.reference_hash, whole.reference_hash);
}

#[test]
fn a_checkpoint_before_the_first_step_begins_a_training() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoint = folder.path().join("step-0");
    let mut whole = trainer();
    whole
        .save(&checkpoint, &Progress::default())
        .expect("saved");
    let (mut resumed, _) = Trainer::resume(&checkpoint).expect("resumed");
    step(&mut whole, 1);
    step(&mut resumed, 1);
    assert_eq!(hash(&resumed), hash(&whole));
}

#[test]
fn a_checkpoint_is_a_model_and_leaves_nothing_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoint = folder.path().join("last");
    let mut trainer = trainer();
    step(&mut trainer, 1);
    // What killed attempts leave.
    for leftover in [".last.new", ".last.old"] {
        fs::create_dir(folder.path().join(leftover)).expect("a folder");
    }
    trainer
        .save(&checkpoint, &Progress::default())
        .expect("saved");
    step(&mut trainer, 2);
    trainer
        .save(
            &checkpoint,
            &Progress {
                step: 2,
                ..Progress::default()
            },
        )
        .expect("saved again");
    assert_eq!(names(folder.path()), ["last"]);
    let files = [
        "card.json",
        "config.json",
        "model.safetensors",
        "optimizer.safetensors",
        "reference.safetensors",
        "state.json",
    ];
    assert_eq!(names(&checkpoint), files);
    let (model, card) = Model::load(&checkpoint).expect("a model");
    assert_eq!(model.hash().expect("a hash"), hash(&trainer));
    assert_eq!(card.name, "small");
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_old_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoint = folder.path().join("last");
    trainer()
        .save(&checkpoint, &Progress::default())
        .expect("saved");
    let failing = replace_folder(&checkpoint, |inside| {
        fs::write(inside.join("half"), "").expect("written");
        Err(PolicyError::Ended)
    });
    assert!(matches!(failing, Err(PolicyError::Ended)));
    assert_eq!(names(folder.path()), ["last"]);
    Trainer::resume(&checkpoint).expect("the old one");
}

#[test]
fn broken_checkpoints_are_refused_with_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoint = folder.path().join("one");
    let mut trainer = trainer();
    step(&mut trainer, 1);
    trainer
        .save(&checkpoint, &Progress::default())
        .expect("saved");
    let refused = || Trainer::resume(&checkpoint).err().expect("refused");

    let state = checkpoint.join("state.json");
    let text = fs::read_to_string(&state).expect("text");
    let tokenizer = crate::tokenizer::hash();
    fs::write(&state, text.replace(&tokenizer, "other")).expect("written");
    let error = refused().to_string();
    assert!(error.contains("the tokenizer had hash other"), "{error}");
    fs::write(&state, text).expect("written");

    let weights = checkpoint.join("model.safetensors");
    let bytes = fs::read(&weights).expect("bytes");
    fs::write(&weights, &bytes[..bytes.len() - 8]).expect("written");
    assert!(matches!(refused(), PolicyError::Weights { .. }));
    let mut changed = bytes.clone();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    fs::write(&weights, changed).expect("written");
    assert!(refused().to_string().contains("the weights had hash"));
    fs::write(&weights, bytes).expect("written");

    fs::remove_file(checkpoint.join("optimizer.safetensors")).expect("removed");
    assert!(matches!(refused(), PolicyError::Read { .. }));
}
