//! The chat template of the byte-level models: messages to tokens, and a reply's tokens back.
//!
//! It is compact, since a small model has little context to spend, and regular: rendering a
//! conversation is rendering its messages one after another. Markers come from this module alone,
//! never from what a message says. `docs/design/tokens.md` draws the format.

use paddock_types::chat::Message;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::tokenizer::{
    self, ASSISTANT, BOS, END, SYSTEM, THINK, THINK_END, TOOL, TOOL_CALL, TOOL_CALL_END, TOOLS,
    USER, encode_text,
};

/// Whether the model thinks before it answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Thinking {
    /// The model decides.
    #[default]
    Auto,
    /// Its turn begins with thinking.
    Enabled,
    /// Its turn begins after an empty thinking.
    Disabled,
}

impl Thinking {
    /// From a row's or request's `thinking` field, `{"type": "enabled" | "disabled" | "auto"}`.
    /// What isn't that shape is [`Thinking::Auto`]; the readers of rows and requests refuse it.
    pub fn from_value(value: Option<&Value>) -> Self {
        match value.and_then(|v| v.get("type")).and_then(Value::as_str) {
            Some("enabled") => Self::Enabled,
            Some("disabled") => Self::Disabled,
            _ => Self::Auto,
        }
    }
}

/// Why a model's turn ended, in the API's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it.
    Stop,
    /// It ran into `max_new_tokens` or a full context.
    Length,
    /// The model ended it with tool calls.
    ToolCalls,
}

impl FinishReason {
    /// As the API spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
        }
    }
}

/// A model's turn as a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The assistant's message: `content`, and where there are any `reasoning_content` and
    /// `tool_calls`.
    pub message: Message,
    /// Why it ended.
    pub finish_reason: FinishReason,
}

/// What stands before the first message: the begin marker and the tools, if there are any.
pub fn preamble(tools: Option<&Value>) -> Vec<u32> {
    let mut out = vec![BOS];
    if has_tools(tools) {
        out.extend(render_tools(tools));
    }
    out
}

/// A list of tools as a section of its own: `name(parameters) description`, a line each.
/// Without tools the section is empty, which takes back an earlier one.
pub fn render_tools(tools: Option<&Value>) -> Vec<u32> {
    let lines: Vec<String> = tools
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(tool_line)
        .collect();
    section(TOOLS, &lines.join("\n"))
}

/// True if there is at least one tool.
pub fn has_tools(tools: Option<&Value>) -> bool {
    tools
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty())
}

/// The whole conversation, without a generation prompt.
pub fn render(messages: &[Message], tools: Option<&Value>) -> Vec<u32> {
    let mut out = preamble(tools);
    for message in messages {
        out.extend(render_message(message));
    }
    out
}

/// One message, so that recorded tokens can be extended.
pub fn render_message(message: &Message) -> Vec<u32> {
    match message.role() {
        "assistant" => render_assistant(message),
        "system" | "developer" => section(SYSTEM, &message.content()),
        "tool" | "function" => section(TOOL, &message.content()),
        _ => section(USER, &message.content()),
    }
}

/// Opens the assistant's turn: what is sampled follows it.
pub fn generation_prompt(thinking: Thinking) -> Vec<u32> {
    match thinking {
        Thinking::Auto => vec![ASSISTANT],
        Thinking::Enabled => vec![ASSISTANT, THINK],
        Thinking::Disabled => vec![ASSISTANT, THINK, THINK_END],
    }
}

/// The tokens that end a turn.
pub fn stop_tokens() -> &'static [u32] {
    &[END]
}

/// SHA-256 of how a conversation with one of everything is rendered. A checkpoint names it.
pub fn hash() -> String {
    let assistant = Message(object(json!({
        "role": "assistant", "content": "c", "reasoning_content": "r",
        "tool_calls": [{"id": "i", "type": "function", "function": {"name": "n", "arguments": "{}"}}],
    })));
    let messages = [
        Message::text("system", "s"),
        Message::text("user", "u"),
        assistant,
        Message::text("tool", "t"),
    ];
    let tools = json!([{"type": "function", "function": {
        "name": "n", "description": "d", "parameters": {"properties": {"a": {}, "b": {}}}}}]);
    let mut hasher = Sha256::new();
    hasher.update(tokenizer::hash());
    for thinking in [Thinking::Auto, Thinking::Enabled, Thinking::Disabled] {
        let mut tokens = render(&messages, Some(&tools));
        tokens.extend(generation_prompt(thinking));
        for token in tokens {
            hasher.update(token.to_le_bytes());
        }
    }
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// What the model sampled after a generation prompt, as a message. Reads up to the end marker.
///
/// A tool call that isn't `name SP {arguments}` between its markers makes the whole reply text
/// that ended with `stop`, its calls spelt out, as model servers do. `ids` names the tool calls.
pub fn parse_reply(tokens: &[u32], thinking: Thinking, ids: &mut dyn FnMut() -> String) -> Reply {
    let pieces = split(tokens, thinking);
    let mut reasoning = String::new();
    let mut text = String::new();
    let mut calls = Vec::new();
    let mut malformed = false;
    for piece in &pieces {
        match piece {
            Piece::Text(bytes) => text.push_str(&tokenizer::decode(bytes)),
            Piece::Think(bytes) => reasoning.push_str(&tokenizer::decode(bytes)),
            Piece::Call { bytes, ended } => match read_call(bytes) {
                Some(call) if *ended => calls.push(call),
                _ => malformed = true,
            },
        }
    }
    if malformed {
        text = pieces.iter().map(Piece::spelt_out).collect();
        calls.clear();
    }
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    let content = match text.is_empty() && !calls.is_empty() {
        true => Value::Null,
        false => text.into(),
    };
    message.insert("content".into(), content);
    if !reasoning.is_empty() {
        message.insert("reasoning_content".into(), reasoning.into());
    }
    let finish_reason = match calls.is_empty() {
        true => FinishReason::Stop,
        false => FinishReason::ToolCalls,
    };
    if !calls.is_empty() {
        let calls = calls.into_iter().map(|(name, arguments)| {
            json!({"id": ids(), "type": "function",
                   "function": {"name": name, "arguments": arguments}})
        });
        message.insert("tool_calls".into(), calls.collect());
    }
    Reply {
        message: Message(message),
        finish_reason,
    }
}

/// A run of a reply's tokens.
enum Piece<'a> {
    Text(&'a [u32]),
    Think(&'a [u32]),
    Call { bytes: &'a [u32], ended: bool },
}

impl Piece<'_> {
    /// As text, for a reply whose calls can't be read.
    fn spelt_out(&self) -> String {
        match self {
            Self::Text(bytes) => tokenizer::decode(bytes),
            Self::Think(_) => String::new(),
            Self::Call { bytes, ended } => {
                let end = if *ended { "</tool_call>" } else { "" };
                format!("<tool_call>{}{end}", tokenizer::decode(bytes))
            }
        }
    }
}

/// Splits a reply at its markers, up to the end marker.
fn split(tokens: &[u32], thinking: Thinking) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = match tokens.iter().position(|&id| id == END) {
        Some(end) => &tokens[..end],
        None => tokens,
    };
    if thinking == Thinking::Enabled {
        rest = take_thinking(rest, &mut pieces);
    }
    while let Some(at) = rest.iter().position(|&id| id == THINK || id == TOOL_CALL) {
        pieces.push(Piece::Text(&rest[..at]));
        let marker = rest[at];
        rest = &rest[at + 1..];
        if marker == THINK {
            rest = take_thinking(rest, &mut pieces);
            continue;
        }
        // A call holds bytes alone: any other marker inside it leaves it without its end.
        let stop = rest.iter().position(|&id| id > 255).unwrap_or(rest.len());
        let ended = rest.get(stop) == Some(&TOOL_CALL_END);
        pieces.push(Piece::Call {
            bytes: &rest[..stop],
            ended,
        });
        rest = &rest[stop + usize::from(ended)..];
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// Takes the thinking off the front; all of it where it never ends.
fn take_thinking<'a>(rest: &'a [u32], pieces: &mut Vec<Piece<'a>>) -> &'a [u32] {
    match rest.iter().position(|&id| id == THINK_END) {
        Some(end) => {
            pieces.push(Piece::Think(&rest[..end]));
            &rest[end + 1..]
        }
        None => {
            pieces.push(Piece::Think(rest));
            &[]
        }
    }
}

/// `name SP {arguments}` as the name and the arguments' text.
fn read_call(bytes: &[u32]) -> Option<(String, String)> {
    let bytes: Vec<u8> = bytes
        .iter()
        .map(|&id| u8::try_from(id).ok())
        .collect::<Option<_>>()?;
    let text = String::from_utf8(bytes).ok()?;
    let (name, arguments) = text.split_once(' ')?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return None;
    }
    serde_json::from_str::<Map<String, Value>>(arguments).ok()?;
    Some((name.to_owned(), arguments.to_owned()))
}

fn render_assistant(message: &Message) -> Vec<u32> {
    let mut out = vec![ASSISTANT];
    if let Some(Value::String(reasoning)) = message.0.get("reasoning_content")
        && !reasoning.is_empty()
    {
        out.push(THINK);
        out.extend(encode_text(reasoning));
        out.push(THINK_END);
    }
    out.extend(encode_text(&message.content()));
    for call in message
        .0
        .get("tool_calls")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let function = call.get("function").unwrap_or(call);
        let name = function
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => "{}".to_owned(),
            Some(value) => value.to_string(),
        };
        out.push(TOOL_CALL);
        out.extend(encode_text(&format!("{name} {arguments}")));
        out.push(TOOL_CALL_END);
    }
    out.push(END);
    out
}

fn section(marker: u32, text: &str) -> Vec<u32> {
    let mut out = vec![marker];
    out.extend(encode_text(text));
    out.push(END);
    out
}

/// `name(parameters) description`: all of a definition that a byte-level model can use.
fn tool_line(tool: &Value) -> String {
    let function = tool.get("function").unwrap_or(tool);
    let text = |key| {
        function
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let parameters: Vec<&str> = function
        .get("parameters")
        .and_then(|p| p.get("properties"))
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|map| map.keys().map(String::as_str))
        .collect();
    let line = format!(
        "{}({}) {}",
        text("name"),
        parameters.join(","),
        text("description")
    );
    line.trim_end().to_owned()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
