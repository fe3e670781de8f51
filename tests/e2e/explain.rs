//! `paddock explain` knows every kind by the name that users see.

use crate::paddock::{binary, run};

#[test]
fn topics_and_pages() {
    let topics = run(binary(&["explain", "--json"])).ok().json();
    let topics = topics.as_array().expect("a list").clone();
    assert_eq!(topics.len(), 16, "{topics:?}");
    for topic in &topics {
        let name = topic.as_str().expect("a name");
        let page = run(binary(&["explain", name])).ok();
        assert!(page.stdout.lines().count() > 3, "{name}: {}", page.stdout);
    }
}

#[test]
fn the_table_of_hyperparameters() {
    let rows = run(binary(&["explain", "hyperparameters", "--json"]))
        .ok()
        .json();
    insta::assert_snapshot!(
        "hyperparameters",
        serde_json::to_string_pretty(&rows).expect("JSON")
    );
}

#[test]
fn a_topic_nobody_knows() {
    let ended = run(binary(&["explain", "Invalid", "valu"]));
    assert_eq!(ended.code, 2);
    assert!(
        ended.stderr.contains("did you mean \"Invalid value\"?"),
        "{}",
        ended.stderr
    );
}
