//! A conversation to imitate, written turn by turn in the chat template's tokens.

use paddock_types::chat::Message;
use serde_json::Value;

use crate::template::{Thinking, generation_prompt, preamble, render_message};
use crate::tokenizer::{END, TOOL_CALL, TOOL_CALL_END, encode_text};
use crate::train::Example;

/// A conversation; the assistant's turns in it are learned.
#[derive(Debug, Clone)]
pub struct Lesson {
    example: Example,
    prompt: String,
}

impl Lesson {
    /// Begins one with what the user says first: its prompt.
    pub fn new(tools: Option<&Value>, prompt: &str) -> Self {
        let mut lesson = Self {
            example: Example::default(),
            prompt: prompt.to_owned(),
        };
        lesson.push(preamble(tools), false);
        lesson.hears("user", prompt);
        lesson
    }

    /// What the user says first.
    pub fn prompt(&self) -> &str {
        &self.prompt
    }

    /// Somebody else's message.
    pub fn hears(&mut self, role: &str, text: &str) {
        self.push(render_message(&Message::text(role, text)), false);
    }

    /// The assistant says a text.
    pub fn says(&mut self, text: &str) {
        self.turn(Thinking::Auto, encode_text(text));
    }

    /// The assistant's turn after a generation prompt, in tokens without the end marker.
    pub fn turn(&mut self, thinking: Thinking, mut tokens: Vec<u32>) {
        self.push(generation_prompt(thinking), false);
        tokens.push(END);
        self.push(tokens, true);
    }

    /// The assistant calls a tool: what stands between the markers, well formed or not.
    pub fn calls(&mut self, text: &str) {
        let mut tokens = vec![TOOL_CALL];
        tokens.extend(encode_text(text));
        tokens.push(TOOL_CALL_END);
        self.turn(Thinking::Auto, tokens);
    }

    /// The tokens, with those to be learned marked.
    pub fn into_example(self) -> Example {
        self.example
    }

    fn push(&mut self, tokens: Vec<u32>, learned: bool) {
        self.example.ids.extend(tokens);
        self.example.mask.resize(self.example.ids.len(), learned);
    }
}
