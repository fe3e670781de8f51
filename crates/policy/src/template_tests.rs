use proptest::prelude::*;

use super::*;
use crate::tokenizer::show;

fn message(value: Value) -> Message {
    Message(object(value))
}

fn parse(tokens: &[u32]) -> Reply {
    let mut next = 0;
    parse_reply(tokens, Thinking::Auto, &mut || {
        next += 1;
        format!("call_{next}")
    })
}

fn tokens(parts: &[(&str, Option<u32>)]) -> Vec<u32> {
    parts
        .iter()
        .flat_map(|(text, marker)| encode_text(text).into_iter().chain(*marker))
        .collect()
}

#[test]
fn the_format_is_compact() {
    let tools = json!([{"type": "function", "function": {
        "name": "calc", "description": "", "parameters": {
            "type": "object", "properties": {"e": {"type": "string"}}}}}]);
    let conversation = [
        message(json!({"role": "system", "content": "be brief"})),
        message(json!({"role": "user", "content": [{"type": "text", "text": "12+7="}]})),
        message(
            json!({"role": "assistant", "content": null, "reasoning_content": "hm",
            "tool_calls": [{"id": "x", "type": "function",
                "function": {"name": "calc", "arguments": {"e": "12+7"}}}]}),
        ),
        message(json!({"role": "tool", "tool_call_id": "x", "content": "19"})),
        message(json!({"role": "assistant", "content": "19"})),
    ];
    assert_eq!(
        show(&render(&conversation, Some(&tools))),
        "<bos><tools>calc(e)<end><system>be brief<end><user>12+7=<end>\
         <assistant><think>hm<think_end><tool_call>calc {\"e\":\"12+7\"}<tool_call_end><end>\
         <tool>19<end><assistant>19<end>"
    );
    assert_eq!(render(&[Message::text("user", "12+7=")], None).len(), 8);
    assert_eq!(render(&[], Some(&json!([]))), vec![BOS]);
}

#[test]
fn a_description_follows_the_signature() {
    let tools = json!([
        {"type": "function", "function": {"name": "a", "description": "adds",
            "parameters": {"properties": {"x": {}, "y": {}}}}},
        {"name": "now"},
    ]);
    assert_eq!(
        show(&render_tools(Some(&tools))),
        "<tools>a(x,y) adds\nnow()<end>"
    );
    assert_eq!(show(&render_tools(None)), "<tools><end>");
}

#[test]
fn a_tool_call_comes_back() {
    let reply = parse(&tokens(&[
        ("let me see", Some(TOOL_CALL)),
        ("calc {\"e\": \"1+1\"}", Some(TOOL_CALL_END)),
        ("", Some(END)),
    ]));
    assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
    assert_eq!(
        Value::Object(reply.message.0),
        json!({"role": "assistant", "content": "let me see", "tool_calls": [{"id": "call_1",
            "type": "function", "function": {"name": "calc", "arguments": "{\"e\": \"1+1\"}"}}]})
    );
}

#[test]
fn a_malformed_tool_call_is_text_with_stop() {
    let cases: [(Vec<u32>, &str); 6] = [
        (
            tokens(&[
                ("", Some(TOOL_CALL)),
                ("calc {1+1}", Some(TOOL_CALL_END)),
                ("", Some(END)),
            ]),
            "<tool_call>calc {1+1}</tool_call>",
        ),
        (
            tokens(&[("", Some(TOOL_CALL)), ("calc [1]", Some(TOOL_CALL_END))]),
            "<tool_call>calc [1]</tool_call>",
        ),
        (
            tokens(&[("so ", Some(TOOL_CALL)), ("calc {}", None)]),
            "so <tool_call>calc {}",
        ),
        (
            tokens(&[("", Some(TOOL_CALL)), ("a b {}", Some(TOOL_CALL_END))]),
            "<tool_call>a b {}</tool_call>",
        ),
        (
            tokens(&[
                ("", Some(TOOL_CALL)),
                ("calc {", Some(USER)),
                ("}", Some(TOOL_CALL_END)),
            ]),
            "<tool_call>calc {}",
        ),
        (
            tokens(&[
                ("", Some(TOOL_CALL)),
                ("ok {}", Some(TOOL_CALL_END)),
                (" and ", Some(TOOL_CALL)),
                ("", Some(TOOL_CALL_END)),
            ]),
            "<tool_call>ok {}</tool_call> and <tool_call></tool_call>",
        ),
    ];
    for (sampled, text) in cases {
        let reply = parse(&sampled);
        assert_eq!(
            reply.finish_reason,
            FinishReason::Stop,
            "{}",
            show(&sampled)
        );
        assert_eq!(
            Value::Object(reply.message.0),
            json!({"role": "assistant", "content": text})
        );
    }
}

#[test]
fn thinking_is_kept_apart() {
    let reply = parse(&tokens(&[
        ("", Some(THINK)),
        ("hm", Some(THINK_END)),
        ("4", Some(END)),
    ]));
    assert_eq!(reply.message.0["reasoning_content"], "hm");
    assert_eq!(reply.message.0["content"], "4");
    let mut ids = || String::new();
    let opened = tokens(&[("hm", Some(THINK_END)), ("4", Some(END))]);
    let same = parse_reply(&opened, Thinking::Enabled, &mut ids);
    assert_eq!(same, reply);
    let cut = parse_reply(&encode_text("hm"), Thinking::Enabled, &mut ids);
    assert_eq!(cut.message.0["content"], "");
    assert_eq!(cut.message.0["reasoning_content"], "hm");
}

#[test]
fn the_thinking_field_is_read() {
    let read = |value: Value| Thinking::from_value(Some(&value));
    assert_eq!(read(json!({"type": "enabled"})), Thinking::Enabled);
    assert_eq!(read(json!({"type": "disabled"})), Thinking::Disabled);
    assert_eq!(read(json!({"type": "auto"})), Thinking::Auto);
    assert_eq!(Thinking::from_value(None), Thinking::Auto);
}

/// An assistant's message as the template can hold it.
fn assistant() -> impl Strategy<Value = Message> {
    let arguments = prop::collection::hash_map("[a-z]{1,6}", any::<String>(), 0..3);
    let calls = prop::collection::vec(("[a-zA-Z0-9_.-]{1,12}", arguments), 0..3);
    (any::<String>(), any::<Option<String>>(), calls).prop_map(|(text, reasoning, calls)| {
        let mut out = object(json!({"role": "assistant", "content": text}));
        if let Some(reasoning) = reasoning {
            out.insert("reasoning_content".into(), reasoning.into());
        }
        let calls: Vec<Value> = calls
            .into_iter()
            .enumerate()
            .map(|(index, (name, arguments))| {
                json!({"id": format!("call_{}", index + 1), "type": "function",
                       "function": {"name": name, "arguments": json!(arguments).to_string()}})
            })
            .collect();
        if !calls.is_empty() {
            out.insert("tool_calls".into(), calls.into());
        }
        Message(out)
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    let roles = prop::sample::select(vec!["system", "user", "tool", "developer", "critic"]);
    prop_oneof![
        assistant(),
        (roles, any::<String>()).prop_map(|(role, text)| Message::text(role, &text)),
    ]
}

proptest! {
    #[test]
    fn a_rendered_reply_parses_to_the_same_message(original in assistant()) {
        let rendered = render_message(&original);
        prop_assert_eq!(rendered[0], ASSISTANT);
        let reply = parse(&rendered[1..]);
        prop_assert_eq!(reply.message.normal(), original.normal());
        let reasoning = |m: &Message| match m.0.get("reasoning_content") {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        prop_assert_eq!(reasoning(&reply.message), reasoning(&original));
        // And it renders to the very same tokens again.
        prop_assert_eq!(render_message(&reply.message), rendered);
    }

    #[test]
    fn message_by_message_equals_the_whole(
        messages in prop::collection::vec(any_message(), 0..6),
        tools in prop::option::of(Just(json!([{"name": "f"}]))),
    ) {
        let mut parts = preamble(tools.as_ref());
        for message in &messages {
            parts.extend(render_message(message));
        }
        prop_assert_eq!(parts, render(&messages, tools.as_ref()));
    }

    #[test]
    fn text_forges_no_marker(text in any::<String>(), role in "(system|user|tool|assistant)") {
        let rendered = render_message(&Message::text(&role, &text));
        let markers = rendered.iter().filter(|&&id| id > 255).count();
        prop_assert_eq!(markers, 2);
    }

    #[test]
    fn any_tokens_parse(ids in prop::collection::vec(
        prop_oneof![0u32..272, 256u32..272, Just(u32::from(b'{')), Just(u32::from(b' '))], 0..80,
    )) {
        for thinking in [Thinking::Auto, Thinking::Enabled, Thinking::Disabled] {
            let reply = parse_reply(&ids, thinking, &mut || "id".into());
            let has_calls = reply.message.0.contains_key("tool_calls");
            prop_assert_eq!(has_calls, reply.finish_reason == FinishReason::ToolCalls);
        }
    }
}
