//! The model proxy: requests, answers, streams, errors.

use std::sync::atomic::Ordering;

use paddock_api::model::ModelError;
use paddock_api::path;
use paddock_server::ServeOptions;
use paddock_types::chat::Sampling;
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::backend::{TRAJECTORY, tool_call};
use crate::fixture::Running;

fn chat(running: &Running, body: &Value) -> RequestBuilder {
    chat_as(TRAJECTORY, running, body)
}

fn chat_as(token: &str, running: &Running, body: &Value) -> RequestBuilder {
    reqwest::Client::new()
        .post(format!(
            "{}{}",
            running.server.url(),
            path::CHAT_COMPLETIONS
        ))
        .bearer_auth(token)
        .json(body)
}

fn hello() -> Value {
    json!({"model": "any", "messages": [{"role": "user", "content": "2 + 2?"}]})
}

async fn answered(request: RequestBuilder) -> Value {
    let answer = request.send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 200);
    answer.json().await.expect("JSON")
}

#[tokio::test]
async fn a_completion_is_in_openai_s_shape() {
    let running = Running::start().await;
    let mut answer = answered(chat(&running, &hello())).await;
    assert!(
        answer["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("chatcmpl-"))
    );
    assert!(answer["created"].as_u64().is_some_and(|time| time > 0));
    answer["id"] = "ID".into();
    answer["created"] = 0.into();
    insta::assert_json_snapshot!(answer, @r#"
    {
      "id": "ID",
      "object": "chat.completion",
      "created": 0,
      "model": "paddock-base",
      "choices": [
        {
          "index": 0,
          "message": {
            "role": "assistant",
            "content": "4"
          },
          "logprobs": null,
          "finish_reason": "stop"
        }
      ],
      "usage": {
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "total_tokens": 9
      }
    }
    "#);
    assert_eq!(running.backend.receipts.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_is_asked_reaches_the_backend() {
    let running = Running::start().await;
    let mut body = hello();
    body["temperature"] = 0.5.into();
    body["max_tokens"] = 9.into();
    body["stop"] = json!(["END"]);
    body["tools"] = json!([{"type": "function", "function": {"name": "add"}}]);
    answered(chat(&running, &body).header("X-Paddock-Main", "1")).await;
    answered(chat(&running, &hello())).await;
    let asked = running.backend.asked.lock().expect("no panic");
    assert!(asked[0].main && !asked[1].main);
    assert_eq!(asked[0].messages[0].content(), "2 + 2?");
    assert_eq!(asked[0].stop, ["END"]);
    assert!(asked[0].tools.is_some() && asked[1].tools.is_none());
    let sampling = Sampling {
        temperature: Some(0.5),
        max_new_tokens: Some(9),
        ..Sampling::default()
    };
    assert_eq!(asked[0].sampling, sampling);
    assert_eq!(asked[1].sampling, Sampling::default());
}

#[tokio::test]
async fn a_tool_call_has_null_content_and_its_reasoning() {
    let running = Running::start().await;
    *running.backend.message.lock().expect("no panic") = Some(tool_call());
    let answer = answered(chat(&running, &hello())).await;
    let message = &answer["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    assert_eq!(message["reasoning_content"], "I should add them");
    assert_eq!(message["tool_calls"][0]["function"]["name"], "add");
}

#[tokio::test]
async fn log_probabilities_come_when_asked_for() {
    let running = Running::start().await;
    let mut body = hello();
    body["logprobs"] = true.into();
    let answer = answered(chat(&running, &body)).await;
    let expected = json!({
        "content": [{"token": "4", "logprob": -0.5, "bytes": [52], "top_logprobs": []}],
        "refusal": null,
    });
    assert_eq!(answer["choices"][0]["logprobs"], expected);
}

/// Reads server-sent events as a client does: `data:` lines, an empty line after each.
fn events(body: &str) -> Vec<String> {
    assert!(body.ends_with("\n\n"), "the last event is cut: {body:?}");
    body.trim_end()
        .split("\n\n")
        .map(|event| {
            let data = event.strip_prefix("data: ");
            data.expect("every event is one data line").to_owned()
        })
        .collect()
}

async fn streamed(running: &Running, body: &Value) -> Vec<Value> {
    let answer = chat(running, body).send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let text = answer.text().await.expect("a body");
    let mut events = events(&text);
    assert_eq!(events.pop().as_deref(), Some("[DONE]"));
    let chunks = events.iter().map(|event| serde_json::from_str(event));
    let chunks: Result<Vec<Value>, _> = chunks.collect();
    chunks.expect("every event is JSON")
}

#[tokio::test]
async fn a_stream_is_the_answer_in_pieces() {
    let running = Running::start().await;
    let mut message = tool_call();
    message.0.insert("content".into(), "zwölf 羊, then".into());
    *running.backend.message.lock().expect("no panic") = Some(message.clone());
    let mut body = hello();
    body["stream"] = true.into();
    body["logprobs"] = true.into();
    let chunks = streamed(&running, &body).await;
    assert!(chunks.len() > 4, "{} chunks", chunks.len());
    let deltas: Vec<_> = chunks.iter().map(|c| &c["choices"][0]["delta"]).collect();
    assert_eq!(deltas[0]["role"], "assistant");
    for key in ["content", "reasoning_content"] {
        let joined: String = deltas.iter().filter_map(|d| d[key].as_str()).collect();
        assert_eq!(joined, message.0[key].as_str().expect("text"), "{key}");
    }
    let calls: Vec<_> = deltas
        .iter()
        .filter(|d| d["tool_calls"].is_array())
        .collect();
    assert_eq!(calls[0]["tool_calls"][0]["index"], 0);
    assert_eq!(calls[0]["tool_calls"][0]["id"], "call_1");
    let last = &chunks[chunks.len() - 1]["choices"][0];
    assert_eq!(last["finish_reason"], "stop");
    assert_eq!(last["delta"], json!({}));
    assert_eq!(last["logprobs"]["content"][0]["logprob"], -0.5);
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["id"], chunks[0]["id"]);
        assert!(chunk.get("usage").is_none(), "it was not asked for");
    }
    assert_eq!(running.backend.receipts.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_stream_ends_with_its_usage_when_asked() {
    let running = Running::start().await;
    let mut body = hello();
    body["stream"] = true.into();
    body["stream_options"] = json!({"include_usage": true});
    let chunks = streamed(&running, &body).await;
    let (last, before) = chunks.split_last().expect("there are chunks");
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["total_tokens"], 9);
    assert!(before.iter().all(|chunk| chunk["usage"].is_null()));
}

/// Status and error object of a request that isn't answered.
async fn refused(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.expect("JSON");
    (status, body["error"].clone())
}

#[tokio::test]
async fn errors_are_in_openai_s_shape() {
    let running = Running::start().await;
    let mut body = hello();
    body["n"] = 4.into();
    let (status, error) = refused(chat(&running, &body)).await;
    assert_eq!(status, 400);
    insta::assert_json_snapshot!(error, @r#"
    {
      "message": "n \"4\": allowed while training is 1",
      "type": "invalid_request_error",
      "param": "n",
      "code": null
    }
    "#);
    let (status, error) = refused(chat_as("old", &running, &hello())).await;
    assert_eq!(status, 401);
    assert_eq!(error["code"], "invalid_api_key");
    let broken = chat(&running, &hello()).body("{\"messages\": [");
    let (status, error) = refused(broken).await;
    assert_eq!(status, 400);
    assert_eq!(error["type"], "invalid_request_error");
    let (status, error) = refused(chat(&running, &json!({"messages": []}))).await;
    assert_eq!((status, &error["param"]), (400, &json!("messages")));
}

#[tokio::test]
async fn trouble_on_the_model_s_side_is_503() {
    let running = Running::start().await;
    *running.backend.fails.lock().expect("no panic") = Some(ModelError::Unavailable {
        message: "the policy did not answer within 120 s".to_owned(),
    });
    for stream in [false, true] {
        let mut body = hello();
        body["stream"] = stream.into();
        let (status, error) = refused(chat(&running, &body)).await;
        assert_eq!(status, 503);
        assert_eq!(error["type"], "server_error");
        assert_eq!(error["code"], "model_unavailable");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let options = ServeOptions {
        body_limit: 1000,
        ..ServeOptions::default()
    };
    let running = Running::with(options).await;
    answered(chat(&running, &hello())).await;
    let mut body = hello();
    body["messages"][0]["content"] = "x".repeat(2000).into();
    let (status, error) = refused(chat(&running, &body)).await;
    assert_eq!(status, 413);
    assert_eq!(error["type"], "invalid_request_error");
}

#[tokio::test]
async fn the_model_is_listed_for_who_may_ask_it() {
    let running = Running::start().await;
    let list = reqwest::Client::new()
        .get(format!("{}{}", running.server.url(), path::MODELS))
        .bearer_auth(TRAJECTORY);
    let list = answered(list).await;
    assert_eq!(list["data"][0]["id"], "paddock-base");
}

#[tokio::test]
async fn many_requests_share_connections_and_keep_apart() {
    let running = Running::start().await;
    let http = reqwest::Client::new();
    let url = format!("{}{}", running.server.url(), path::CHAT_COMPLETIONS);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (http, url) = (http.clone(), url.clone());
        tasks.spawn(async move {
            for _ in 0..25 {
                let sent = http.post(&url).bearer_auth(TRAJECTORY).json(&hello());
                answered(sent).await;
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(running.backend.receipts.load(Ordering::SeqCst), 400);
}
