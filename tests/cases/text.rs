//! What `paddock call` shows to people.

use std::path::Path;

use crate::caller;
use crate::project::Project;
use crate::run::mark;

fn shown(function: &str) -> String {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/plugins");
    let project = Project::of(&plugins);
    let args = ["--request", "{\"sample\": {}, \"trajectories\": [{}]}"].map(str::to_owned);
    let ended = caller::start(&project, &mark(), function, &args).wait();
    assert_eq!(ended.code, Some(4), "{ended:#?}");
    let lines = ended.lines.iter();
    lines
        .map(|line| line.value.as_str().unwrap_or_default().to_owned() + "\n")
        .collect()
}

#[test]
fn the_advice_is_for_what_happened() {
    let raised = shown("answers:chained");
    assert!(raised.contains("500"), "{raised}");
    assert!(
        raised.contains("the line that the traceback names"),
        "{raised}"
    );
    assert!(raised.contains("  do         "), "{raised}");
    let wrong = shown("answers:a_plain_list");
    assert!(
        wrong.contains("expected GroupGraderResult, got list"),
        "{wrong}"
    );
    assert!(!wrong.contains("traceback"), "{wrong}");
    assert!(
        wrong.contains("answer what the message asks for"),
        "{wrong}"
    );
}
