//! The examples' tasks: their rows from the examples' data, their rollouts and rewards in Rust.

use std::error::Error;
use std::path::Path;

use paddock_policy::recorder::Recorder;
use paddock_policy::template::stop_tokens;
use paddock_policy::{Policy, SampleKey, SampleRequest};
use paddock_types::chat::Message;
use paddock_types::trajectory::Conversation;
use serde_json::{Value, json};

/// What a rollout came to.
pub(crate) struct Outcome {
    pub(crate) conversation: Conversation,
    /// The job's reward.
    pub(crate) reward: f64,
    /// Whether it succeeded: the answer was exact, the number was found.
    pub(crate) success: bool,
}

/// Rows of a task's file.
pub(crate) fn rows(task: &str, file: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(task)
        .join("data")
        .join(file);
    let text = std::fs::read_to_string(path)?;
    Ok(text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?)
}

/// Tokens that a model call may sample, as the examples' jobs have it.
pub(crate) fn max_new_tokens(task: &str) -> u32 {
    match task {
        "arithmetic" => 8,
        "higher_lower" => 6,
        _ => 48,
    }
}

struct Talk {
    policy: Policy,
    recorder: Recorder,
    messages: Vec<Message>,
    key: SampleKey,
    max_new_tokens: u32,
    temperature: f64,
}

impl Talk {
    async fn ask(&mut self) -> Result<Message, paddock_policy::PolicyError> {
        let turn = self.recorder.open(self.messages.clone(), None, true);
        let request = SampleRequest {
            prompt: turn.prompt.clone(),
            stop: stop_tokens().to_vec(),
            max_new_tokens: self.max_new_tokens,
            temperature: self.temperature,
            top_p: 1.0,
            top_k: 0,
            key: SampleKey {
                turn: turn.turn,
                ..self.key
            },
        };
        let sampled = self.policy.sample(request).await?;
        let message = self.recorder.close(turn, &sampled).message;
        self.messages.push(message.clone());
        Ok(message)
    }
}

/// One rollout of a row.
pub(crate) async fn rollout(
    policy: Policy,
    task: String,
    row: Value,
    key: SampleKey,
    temperature: f64,
) -> Result<Outcome, paddock_policy::PolicyError> {
    let prompt = row["messages"][0]["content"].as_str().unwrap_or_default();
    let mut talk = Talk {
        policy,
        recorder: Recorder::new(row.get("tools").cloned()),
        messages: vec![Message::text("user", prompt)],
        key,
        max_new_tokens: max_new_tokens(&task),
        temperature,
    };
    let extra = &row["extra"];
    let (reward, success) = match task.as_str() {
        "arithmetic" => sum(&mut talk, extra).await?,
        "higher_lower" => game(&mut talk, extra).await?,
        _ => product(&mut talk, extra).await?,
    };
    Ok(Outcome {
        conversation: talk.recorder.finish(),
        reward,
        success,
    })
}

fn number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

async fn sum(talk: &mut Talk, extra: &Value) -> Result<(f64, bool), paddock_policy::PolicyError> {
    let said = talk.ask().await?.content();
    let right = Some(said.as_str()) == extra["answer"].as_i64().map(|n| n.to_string()).as_deref();
    let digits = number(&said);
    Ok((0.9 * f64::from(right) + 0.1 * f64::from(digits), right))
}

async fn game(talk: &mut Talk, extra: &Value) -> Result<(f64, bool), paddock_policy::PolicyError> {
    let [mut least, mut most, secret] =
        ["low", "high", "secret"].map(|name| extra[name].as_i64().unwrap_or_default());
    let (mut found, mut guesses, mut sensible) = (false, 0.0, 0.0);
    while guesses < 6.0 {
        let said = talk.ask().await?.content();
        guesses += 1.0;
        let guess = said.parse::<i64>().ok().filter(|_| number(&said));
        let possible = guess.is_some_and(|guess| (least..=most).contains(&guess));
        sensible += f64::from(u8::from(possible));
        let answer = match guess {
            None => "number",
            Some(guess) if guess < secret => {
                least = least.max(guess + 1);
                "higher"
            }
            Some(guess) if guess > secret => {
                most = most.min(guess - 1);
                "lower"
            }
            Some(_) => {
                found = true;
                break;
            }
        };
        talk.messages.push(Message::text("user", answer));
    }
    let soon = if found { 1.1 - 0.1 * guesses } else { 0.0 };
    Ok((0.5 * soon + 0.5 * sensible / guesses, found))
}

async fn product(
    talk: &mut Talk,
    extra: &Value,
) -> Result<(f64, bool), paddock_policy::PolicyError> {
    let wanted = extra["answer"].to_string();
    let mut results: Vec<String> = Vec::new();
    let mut right = false;
    for _ in 0..3 {
        let reply = talk.ask().await?;
        let Some(calls) = reply.0.get("tool_calls").and_then(Value::as_array) else {
            right = reply.content() == wanted;
            break;
        };
        for call in calls {
            let result = match call["function"]["name"].as_str() {
                Some("calc") => calculate(call["function"]["arguments"].as_str().unwrap_or("")),
                _ => "error: no such tool".to_owned(),
            };
            let message = json!({"role": "tool", "tool_call_id": call["id"], "content": result});
            talk.messages
                .push(serde_json::from_value(message).unwrap_or_default());
            results.push(result);
        }
    }
    let tool = match results.iter().position(|result| *result == wanted) {
        Some(0) => 1.0,
        Some(_) => 0.5,
        None => 0.0,
    };
    Ok((0.8 * f64::from(right) + 0.2 * tool, right))
}

fn calculate(arguments: &str) -> String {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let Some(expression) = arguments["expression"].as_str() else {
        return "error: no expression".into();
    };
    let found = expression.split_once(['+', '-', '*']).and_then(|(a, b)| {
        let op = expression.as_bytes()[a.len()];
        let (a, b) = (a.trim(), b.trim());
        let fits = |n: &str| number(n) && n.len() < 10;
        (fits(a) && fits(b)).then_some((a.parse::<i64>().ok()?, op, b.parse::<i64>().ok()?))
    });
    match found {
        Some((a, b'+', b)) => (a + b).to_string(),
        Some((a, b'-', b)) => (a - b).to_string(),
        Some((a, _, b)) => (a * b).to_string(),
        None => "error: not a op b".into(),
    }
}
