//! `paddock model chat`: a conversation, a line each. Works in a terminal and with piped input.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use paddock_policy::recorder::Recorder;
use paddock_policy::template::{self, Reply};
use paddock_policy::{Policy, SampleKey, SampleRequest};
use paddock_types::Fault;
use paddock_types::chat::Message;
use paddock_types::id::Phase;
use serde_json::Value;

use super::{folder, unreadable};
use crate::failure::{Done, Failure, chain};
use crate::output::Out;
use crate::places::CacheDir;
use crate::reader::block_on;

/// `model chat`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A model folder or a checkpoint [default: the base model that ships]
    checkpoint: Option<PathBuf>,
    /// A system message to begin with
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Sampling temperature; 0 takes the most likely token
    #[arg(long, default_value_t = 0.7, value_parser = temperature)]
    temperature: f64,
    /// Nucleus mass
    #[arg(long, default_value_t = 1.0, value_parser = top_p)]
    top_p: f64,
    /// Tokens that one answer may have
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    max_new_tokens: u32,
    /// Seed of the sampling
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    cache: CacheDir,
}

fn temperature(text: &str) -> Result<f64, String> {
    let number = text
        .parse::<f64>()
        .ok()
        .filter(|x| (0.0..=10.0).contains(x));
    number.ok_or_else(|| "allowed: a number from 0 to 10".into())
}

fn top_p(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|x| *x > 0.0 && *x <= 1.0);
    number.ok_or_else(|| "allowed: a number above 0, up to 1".into())
}

/// Does what is asked.
pub(crate) fn run(args: &Args) -> Done {
    let folder = folder(args.checkpoint.as_deref(), &args.cache)?;
    let policy = Policy::load(&folder).map_err(|error| unreadable(&folder, &error))?;
    let terminal = io::stdin().is_terminal();
    if terminal {
        let card = policy.card();
        eprintln!("{} {}; /reset forgets, /quit ends", card.name, card.version);
    }
    let mut talk = Talk::new(args, policy);
    // Bytes that are no UTF-8 are shown as such to the model, and end nothing.
    let mut lines = io::stdin().lock().split(b'\n');
    loop {
        if terminal {
            eprint!("> ");
            io::stderr().flush()?;
        }
        let Some(line) = lines.next() else { break };
        let line = line.map_err(|e| Failure::usage(format!("the input can't be read: {e}")))?;
        match String::from_utf8_lossy(&line).trim() {
            "" => {}
            "/quit" => break,
            "/reset" => talk.reset(),
            text => {
                let reply = block_on(talk.say(text))??;
                print(&reply)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The conversation so far, in the tokens that were sampled.
struct Talk<'a> {
    args: &'a Args,
    policy: Policy,
    recorder: Recorder,
    messages: Vec<Message>,
    turn: u32,
}

impl<'a> Talk<'a> {
    fn new(args: &'a Args, policy: Policy) -> Self {
        let mut talk = Self {
            args,
            policy,
            recorder: Recorder::new(None),
            messages: Vec::new(),
            turn: 0,
        };
        talk.reset();
        talk
    }

    fn reset(&mut self) {
        self.recorder = Recorder::new(None);
        self.messages = self
            .args
            .system
            .iter()
            .map(|text| Message::text("system", text))
            .collect();
    }

    async fn say(&mut self, text: &str) -> Result<Reply, Failure> {
        self.messages.push(Message::text("user", text));
        let open = self.recorder.open(self.messages.clone(), None, true);
        let request = SampleRequest {
            prompt: open.prompt.clone(),
            stop: template::stop_tokens().to_vec(),
            max_new_tokens: self.args.max_new_tokens,
            temperature: self.args.temperature,
            top_p: self.args.top_p,
            top_k: 0,
            key: SampleKey {
                seed: self.args.seed,
                phase: Phase::Test,
                step: 0,
                sample: 0,
                generation: 0,
                turn: self.turn,
            },
        };
        self.turn += 1;
        let sampled = self.policy.sample(request).await;
        let sampled = sampled.map_err(|error| Fault::internal(chain(&error)))?;
        let reply = self.recorder.close(open, &sampled);
        self.messages.push(reply.message.clone());
        Ok(reply)
    }
}

/// The answer; thinking and tool calls are marked as such.
fn print(reply: &Reply) -> Result<(), Failure> {
    let mut out = Out::new();
    let message = &reply.message;
    if let Some(thought) = message.0.get("reasoning_content").and_then(Value::as_str) {
        out.line(format!("(thinks) {thought}"))?;
    }
    let calls = message.0.get("tool_calls").and_then(Value::as_array);
    let content = message.content();
    if !content.is_empty() || calls.is_none() {
        out.line(content)?;
    }
    for call in calls.into_iter().flatten() {
        let function = &call["function"];
        let name = function["name"].as_str().unwrap_or_default();
        let arguments = function["arguments"].as_str().unwrap_or_default();
        out.line(format!("(calls) {name}({arguments})"))?;
    }
    out.flush()
}
