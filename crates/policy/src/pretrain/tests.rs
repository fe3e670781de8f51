use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use super::*;
use crate::tokenizer::{ASSISTANT, show};

/// The first user message of each row of the examples' data.
fn examples_prompts() -> HashSet<String> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut out = HashSet::new();
    for example in std::fs::read_dir(examples).expect("examples") {
        let Ok(files) = std::fs::read_dir(example.expect("entry").path().join("data")) else {
            continue;
        };
        for file in files {
            let path = file.expect("entry").path();
            if path
                .extension()
                .is_none_or(|extension| extension != "jsonl")
            {
                continue;
            }
            for line in std::fs::read_to_string(&path).expect("data").lines() {
                let row: Value = serde_json::from_str(line).expect("a row");
                let prompt = row["messages"][0]["content"].as_str().expect("a text");
                out.insert(prompt.to_owned());
            }
        }
    }
    out
}

#[test]
fn the_examples_prompts_are_held_out() {
    let prompts = examples_prompts();
    assert!(prompts.len() > 3000, "{} prompts", prompts.len());
    for prompt in &prompts {
        assert!(held_out(prompt), "\"{prompt}\" is not held out");
    }
}

#[test]
fn no_lesson_holds_a_held_out_prompt() {
    let mut dice = Dice::new(1);
    let mix = Mix {
        arithmetic: 4000,
        higher_lower: 2000,
        calculator: 2000,
        echo: 0,
        chat: 0,
    };
    let prompts = examples_prompts();
    for lesson in lessons(mix, Care::Mixed, &mut dice) {
        let prompt = lesson.prompt();
        assert!(!held_out(prompt), "\"{prompt}\" is held out");
        assert!(!prompts.contains(prompt), "\"{prompt}\" is an example's");
    }
    for _ in 0..1000 {
        for lesson in [chat::lesson(&mut dice), echo::lesson(&mut dice)] {
            assert!(!prompts.contains(lesson.prompt()));
        }
    }
}

#[test]
fn training_and_validation_prompts_are_disjoint() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for example in ["arithmetic", "higher_lower", "calculator"] {
        let read = |name: &str| -> HashSet<String> {
            std::fs::read_to_string(examples.join(example).join("data").join(name))
                .expect("data")
                .lines()
                .map(|line| {
                    let row: Value = serde_json::from_str(line).expect("a row");
                    row["messages"].to_string()
                })
                .collect()
        };
        assert!(
            read("train.jsonl").is_disjoint(&read("validation.jsonl")),
            "{example}"
        );
    }
}

#[test]
fn lessons_come_from_the_seed_alone() {
    let mix = Options::default().mix;
    let draw = |seed| -> Vec<_> {
        let lessons = lessons(mix, Care::Mixed, &mut Dice::new(seed));
        lessons.into_iter().map(Lesson::into_example).collect()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn what_is_learned_is_the_assistants() {
    let mix = Mix {
        arithmetic: 50,
        higher_lower: 50,
        calculator: 50,
        echo: 50,
        chat: 50,
    };
    for lesson in lessons(mix, Care::Mixed, &mut Dice::new(3)) {
        let example = lesson.into_example();
        assert_eq!(example.ids.len(), example.mask.len());
        assert!(example.ids.len() < 1024, "{}", show(&example.ids));
        let starts = example
            .mask
            .windows(2)
            .filter(|pair| !pair[0] && pair[1])
            .count();
        let turns = example.ids.iter().filter(|&&id| id == ASSISTANT).count();
        assert_eq!(starts, turns, "{}", show(&example.ids));
    }
}

#[test]
fn the_pace_rises_and_falls() {
    assert!(pace(1, 1000) < 0.05);
    assert!((pace(50, 1000) - 1.0).abs() < 1e-9);
    assert!((pace(1000, 1000) - 0.1).abs() < 1e-9);
}

#[test]
fn a_short_run_is_repeatable_and_learns() {
    let run_in = |folder: &Path| {
        let options = Options {
            out: folder.join("model"),
            steps: 12,
            mix: Mix {
                arithmetic: 12,
                higher_lower: 2,
                calculator: 2,
                echo: 2,
                chat: 2,
            },
            ..Options::default()
        };
        let mut losses = Vec::new();
        let report = run(&options, |progress| losses.push(progress.loss)).expect("a model");
        assert!(report.folder.join("model.safetensors").is_file());
        (report.hash, losses)
    };
    let folder = tempfile::tempdir().expect("a folder");
    let (hash, losses) = run_in(folder.path());
    let (again, _) = run_in(folder.path());
    assert_eq!(hash, again);
    assert!(losses[11] < 0.8 * losses[0], "{losses:?}");
}
