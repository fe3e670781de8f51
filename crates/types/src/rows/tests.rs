//! Rows as data files have them, good and broken.

use proptest::prelude::*;

use super::*;

fn faults(line: &str) -> Vec<Problem> {
    check(line.as_bytes(), &RowLimits::default()).expect_err(line)
}

#[test]
fn a_full_row_is_kept_as_it_is() {
    let line = r#"{"messages":[{"role":"system","content":[{"type":"text","text":"hi"}]},{"role":"user","content":"2+2?","name":"a"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"add","arguments":"{\"a\":2}"}}]},
        {"role":"tool","tool_call_id":"c","content":"4"}],"tools":[{"type":"function","function":{"name":"add","parameters":{}}}],
        "thinking":{"type":"auto"},"extra":{"answer":4},"temperature":0.5,"top_k":5,"top_p":null,"own":[1,{"b":null}]}"#
        .replace('\n', "");
    let row = check(line.as_bytes(), &RowLimits::default()).expect("a good row");
    assert_eq!(
        Value::Object(row.clone()),
        serde_json::from_str::<Value>(&line).expect("JSON")
    );
    assert_eq!(messages(&row).len(), 4);
    let sampling = sampling(&row);
    assert_eq!(
        (sampling.temperature, sampling.top_k, sampling.top_p),
        (Some(0.5), Some(5), None)
    );
}

#[test]
fn each_problem_has_its_field() {
    let cases = [
        (r#"{"prompt":"2+2"}"#, "messages", "is missing"),
        (r#"{"message":[]}"#, "messages", "is \"message\" meant?"),
        (r#"{"messages":[]}"#, "messages", "at least one"),
        (r#"{"messages":"hi"}"#, "messages", "a list of messages"),
        (
            r#"{"messages":[{"role":"usr","content":"a"}]}"#,
            "messages[0].role",
            "did you mean \"user\"",
        ),
        (
            r#"{"messages":[{"content":"a"}]}"#,
            "messages[0].role",
            "is missing",
        ),
        (
            r#"{"messages":[{"role":"user"}]}"#,
            "messages[0].content",
            "is missing",
        ),
        (
            r#"{"messages":[{"role":"user","content":5}]}"#,
            "messages[0].content",
            "a text or a list",
        ),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}"#,
            "messages[0].content[0].type",
            "does not take",
        ),
        (
            r#"{"messages":[{"role":"user","content":"a","tool_calls":[{"function":{"name":"f"}}]}]}"#,
            "messages[0].tool_calls",
            "role \"user\"",
        ),
        (
            r#"{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":5}}]}]}"#,
            "messages[0].tool_calls[0].function.name",
            "a text",
        ),
        (
            r#"{"messages":[{"role":"assistant","tool_calls":[{}]}]}"#,
            "messages[0].tool_calls[0].function",
            "is missing",
        ),
        (
            r#"{"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f"}]}"#,
            "tools[0].type",
            "function",
        ),
        (
            r#"{"messages":[{"role":"user","content":"a"}],"thinking":{"type":"on"}}"#,
            "thinking.type",
            "enabled",
        ),
        (
            r#"{"messages":[{"role":"user","content":"a"}],"extra":[1]}"#,
            "extra",
            "an object",
        ),
        (
            r#"{"messages":[{"role":"user","content":"a"}],"temperature":0}"#,
            "temperature",
            "above 0",
        ),
        (
            r#"{"messages":[{"role":"user","content":"a"}],"top_p":1.5}"#,
            "top_p",
            "up to 1",
        ),
        (
            r#"{"messages":[{"role":"user","content":"a"}],"n":0}"#,
            "n",
            "from 1",
        ),
    ];
    for (line, field, says) in cases {
        let found = faults(line);
        assert!(
            found
                .iter()
                .any(|p| p.field == field && p.message.contains(says)),
            "{line}: {found:?}"
        );
    }
}

#[test]
fn broken_json_says_where_and_what_to_do() {
    let cases = [
        (r#"{"messages": [}"#, Some(15), "comma"),
        (r#"{"messages": [1"#, None, "one line"),
        (r#"{"a":1} {"b":2}"#, Some(9), "line of its own"),
        (r#"{'messages': []}"#, Some(2), "Python"),
        (r#"{"extra": NaN}"#, Some(11), "NaN"),
        ("[1]", None, "one object"),
        ("   ", None, "remove"),
    ];
    for (line, column, says) in cases {
        let problem = &faults(line)[0];
        assert!(problem.advice.contains(says), "{line}: {problem:?}");
        if column.is_some() {
            assert_eq!(problem.column, column, "{line}: {problem:?}");
        }
    }
}

#[test]
fn encodings_are_told_apart() {
    let check = |bytes: &[u8]| {
        let limits = RowLimits {
            max_bytes: 100,
            ..RowLimits::default()
        };
        check(bytes, &limits).expect_err("broken")[0]
            .message
            .clone()
    };
    assert!(check(b"\xef\xbb\xbf{}").contains("byte order mark"));
    assert!(check(b"\xff\xfe{\0}\0").contains("UTF-16"));
    assert!(check(b"{\0\"\0a\0").contains("UTF-16"));
    assert!(check(b"{\"a\": \"\xc4\xe3\"}").contains("0xc4 at column 8"));
    assert!(check(&[b'x'; 101]).contains("101 bytes"));
}

#[test]
fn a_problem_becomes_a_fault_with_its_place() {
    let problem = faults(r#"{"messages":[]}"#).remove(0);
    let fault = problem.into_fault("data/train.jsonl", 7);
    assert_eq!(
        fault.to_string(),
        "Invalid value: messages is empty; allowed: at least one message"
    );
    assert_eq!(fault.location.to_string(), "data/train.jsonl:7, messages");
}

proptest! {
    #[test]
    fn no_bytes_panic(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = check(&line, &RowLimits::default());
    }

    #[test]
    fn no_json_panics(value in json_value()) {
        let line = serde_json::json!({"messages": value, "tools": value, "thinking": value, "extra": value, "n": value});
        let _ = check(line.to_string().as_bytes(), &RowLimits::default());
    }
}

/// JSON that is often nearly right.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "user|assistant|text|image_url|[a-z]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let key = "role|content|type|text|tool_calls|function|name|arguments|id|[a-z]{0,3}";
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map(key, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}
