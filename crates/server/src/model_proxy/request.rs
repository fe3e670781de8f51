//! A chat request, read and checked.
//!
//! What can't be honoured is refused, never ignored in silence, if ignoring it would change what
//! the model is trained on; what changes nothing (`model`, `user`, `seed`, …) is left unread.

use paddock_api::model::ChatRequest;
use paddock_types::chat::{Message, Sampling};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::error::ChatError;

/// Stop texts that a request may name.
const MAX_STOP: usize = 16;

/// A chat request, and how its answer is wanted.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: ChatRequest,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
}

#[derive(Deserialize)]
struct Body {
    messages: Option<Vec<Message>>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    max_completion_tokens: Option<i64>,
    max_tokens: Option<i64>,
    max_new_tokens: Option<i64>,
    stop: Option<Stop>,
    n: Option<i64>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    logprobs: Option<bool>,
    top_logprobs: Option<i64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    logit_bias: Option<Map<String, Value>>,
    response_format: Option<ResponseFormat>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stop {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct ResponseFormat {
    #[serde(rename = "type")]
    kind: String,
}

/// Reads a request.
pub(super) fn parse(body: &[u8], main: bool) -> Result<Asked, ChatError> {
    let mut body: Body = serde_json::from_slice(body).map_err(|error| {
        ChatError::invalid(None, format!("the body is no chat request: {error}"))
    })?;
    refuse_what_cannot_be_honoured(&body)?;
    let include_usage = body
        .stream_options
        .as_ref()
        .and_then(|options| options.include_usage)
        .unwrap_or(false);
    let stream = body.stream.unwrap_or(false);
    let request = ChatRequest {
        messages: messages(body.messages.take())?,
        tools: tools(&mut body),
        sampling: sampling(&body)?,
        main,
        n: within("n", body.n, 1..=128)?.unwrap_or(1),
        stop: stop(body.stop.take())?,
        logprobs: body.logprobs.unwrap_or(false),
    };
    Ok(Asked {
        request,
        stream,
        include_usage,
    })
}

fn messages(messages: Option<Vec<Message>>) -> Result<Vec<Message>, ChatError> {
    let messages = messages.unwrap_or_default();
    if messages.is_empty() {
        let text = "messages is empty: at least one message is needed";
        return Err(ChatError::invalid(Some("messages"), text));
    }
    if let Some(at) = messages
        .iter()
        .position(|message| message.role().is_empty())
    {
        let text = format!("messages[{at}] has no role");
        return Err(ChatError::invalid(Some("messages"), text));
    }
    Ok(messages)
}

/// The tools that may be called: none of them, if the request says so.
fn tools(body: &mut Body) -> Option<Value> {
    let none = body
        .tool_choice
        .as_ref()
        .is_some_and(|choice| choice == "none");
    let tools = body.tools.take().map(Value::Array);
    if none {
        Some(Value::Array(Vec::new()))
    } else {
        tools
    }
}

fn sampling(body: &Body) -> Result<Sampling, ChatError> {
    let (name, most) = if body.max_completion_tokens.is_some() {
        ("max_completion_tokens", body.max_completion_tokens)
    } else if body.max_tokens.is_some() {
        ("max_tokens", body.max_tokens)
    } else {
        ("max_new_tokens", body.max_new_tokens)
    };
    // vLLM takes -1 for "all of them", which is 0 here.
    let top_k = body.top_k.map(|k| if k == -1 { 0 } else { k });
    Ok(Sampling {
        max_new_tokens: within(name, most, 1..=u32::MAX)?,
        temperature: number("temperature", body.temperature, |t| t >= 0.0, "0 or more")?,
        top_p: number(
            "top_p",
            body.top_p,
            |p| p > 0.0 && p <= 1.0,
            "more than 0, up to 1",
        )?,
        top_k: within("top_k", top_k, 0..=u32::MAX)?,
    })
}

fn stop(stop: Option<Stop>) -> Result<Vec<String>, ChatError> {
    let stop = match stop {
        None => Vec::new(),
        Some(Stop::One(text)) => vec![text],
        Some(Stop::Many(texts)) => texts,
    };
    if stop.len() > MAX_STOP || stop.iter().any(String::is_empty) {
        let text = format!("stop: allowed are up to {MAX_STOP} texts, none of them empty");
        return Err(ChatError::invalid(Some("stop"), text));
    }
    Ok(stop)
}

fn refuse_what_cannot_be_honoured(body: &Body) -> Result<(), ChatError> {
    let refuse = |param, text: &str| Err(ChatError::invalid(Some(param), text));
    for (name, penalty) in [
        ("frequency_penalty", body.frequency_penalty),
        ("presence_penalty", body.presence_penalty),
    ] {
        if penalty.is_some_and(|penalty| penalty != 0.0) {
            return refuse(
                name,
                &format!("{name} is not supported: leave it out, or 0"),
            );
        }
    }
    if body
        .logit_bias
        .as_ref()
        .is_some_and(|bias| !bias.is_empty())
    {
        return refuse("logit_bias", "logit_bias is not supported: leave it out");
    }
    if body.top_logprobs.is_some_and(|count| count != 0) {
        return refuse(
            "top_logprobs",
            "top_logprobs is not supported: the log-probabilities are those of the sampled tokens",
        );
    }
    if body
        .response_format
        .as_ref()
        .is_some_and(|f| f.kind != "text")
    {
        return refuse(
            "response_format",
            "response_format is not supported: allowed is \"text\"",
        );
    }
    match &body.tool_choice {
        None => Ok(()),
        Some(Value::String(choice)) if choice == "auto" || choice == "none" => Ok(()),
        Some(_) => refuse(
            "tool_choice",
            "the model can't be made to call a tool: allowed for tool_choice is \"auto\" or \"none\"",
        ),
    }
}

fn within(
    name: &'static str,
    value: Option<i64>,
    allowed: std::ops::RangeInclusive<u32>,
) -> Result<Option<u32>, ChatError> {
    let Some(value) = value else {
        return Ok(None);
    };
    match u32::try_from(value) {
        Ok(value) if allowed.contains(&value) => Ok(Some(value)),
        _ => {
            let (least, most) = (allowed.start(), allowed.end());
            let text = format!("{name} \"{value}\": allowed is {least} to {most}");
            Err(ChatError::invalid(Some(name), text))
        }
    }
}

fn number(
    name: &'static str,
    value: Option<f64>,
    is_allowed: impl Fn(f64) -> bool,
    allowed: &str,
) -> Result<Option<f64>, ChatError> {
    match value {
        Some(value) if !is_allowed(value) => {
            let text = format!("{name} \"{value}\": allowed is {allowed}");
            Err(ChatError::invalid(Some(name), text))
        }
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn asked(body: Value) -> Result<Asked, ChatError> {
        parse(body.to_string().as_bytes(), true)
    }

    #[test]
    fn a_request_is_read_field_by_field() {
        let asked = asked(json!({
            "model": "ignored", "user": null, "seed": 3,
            "messages": [{"role": "user", "content": "hi", "name": "kept"}],
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "tool_choice": "auto", "temperature": 0, "top_p": 0.5, "top_k": -1,
            "max_tokens": 7, "max_completion_tokens": 9, "stop": "END", "n": 2,
            "stream": true, "stream_options": {"include_usage": true}, "logprobs": true,
            "frequency_penalty": 0, "response_format": {"type": "text"},
        }))
        .expect("it is a request");
        let request = asked.request;
        assert_eq!(request.messages[0].0["name"], "kept");
        assert_eq!(request.tools.expect("tools")[0]["function"]["name"], "f");
        assert_eq!(
            request.sampling,
            Sampling {
                max_new_tokens: Some(9),
                temperature: Some(0.0),
                top_p: Some(0.5),
                top_k: Some(0),
            }
        );
        assert_eq!(request.stop, ["END"]);
        assert_eq!(request.n, 2);
        assert!(request.main && request.logprobs && asked.stream && asked.include_usage);
    }

    #[test]
    fn what_is_left_out_or_null_is_not_set() {
        let asked = asked(json!({
            "messages": [{"role": "user", "content": "hi"}],
            "temperature": null, "max_tokens": null, "stop": null, "tools": null, "n": null,
        }))
        .expect("it is a request");
        assert_eq!(asked.request.sampling, Sampling::default());
        assert_eq!((asked.request.n, asked.stream), (1, false));
        assert_eq!(asked.request.tools, None);
    }

    #[test]
    fn tool_choice_none_takes_the_tools_away() {
        let asked = asked(json!({
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"type": "function"}], "tool_choice": "none",
        }))
        .expect("it is a request");
        assert_eq!(asked.request.tools, Some(json!([])));
    }

    #[test]
    fn what_cannot_be_given_is_refused_by_name() {
        let cases = [
            (json!({"messages": []}), "messages"),
            (json!({"messages": [{"content": "hi"}]}), "messages"),
            (json!({"temperature": -0.1}), "temperature"),
            (json!({"top_p": 0}), "top_p"),
            (json!({"top_k": -2}), "top_k"),
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"n": 0}), "n"),
            (json!({"stop": [""]}), "stop"),
            (json!({"tool_choice": "required"}), "tool_choice"),
            (json!({"tool_choice": {"type": "function"}}), "tool_choice"),
            (json!({"frequency_penalty": 0.5}), "frequency_penalty"),
            (json!({"presence_penalty": -1}), "presence_penalty"),
            (json!({"logit_bias": {"5": 1}}), "logit_bias"),
            (json!({"top_logprobs": 3}), "top_logprobs"),
            (
                json!({"response_format": {"type": "json_object"}}),
                "response_format",
            ),
        ];
        for (mut body, param) in cases {
            if body.get("messages").is_none() {
                body["messages"] = json!([{"role": "user", "content": "hi"}]);
            }
            let text = body.to_string();
            let refused = asked(body).expect_err(&text);
            let expected = ChatError::invalid(Some(param), "");
            let shown = format!("{refused:?}");
            assert!(
                shown.contains(&format!("Some(\"{param}\")")),
                "{text}: {shown}"
            );
            assert!(shown.contains("400"), "{text}: {shown} {expected:?}");
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&body, false);
        }

        #[test]
        fn no_number_panics(temperature: f64, top_k: i64, n: i64, most: i64) {
            let body = json!({
                "messages": [{"role": "user"}], "temperature": temperature, "top_k": top_k,
                "n": n, "max_tokens": most,
            });
            let _ = asked(body);
        }
    }
}
