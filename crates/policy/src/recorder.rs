//! The exact-token record of one trajectory.
//!
//! Every model turn stays in the tokens that were given to the model and in those it sampled. Text
//! that has tokens is never tokenised again: a request is matched against what is recorded,
//! message by message in normal form, and only what follows the match is rendered. What is trained
//! on is therefore what was sampled.
//!
//! The record is a tree of messages: a request hangs below the last message it shares with an
//! earlier one, so that an edited history, a side conversation and parallel branches each keep
//! their tokens, and a plugin may go back to any of them. The trajectory is one path of it, from
//! the root to the wrapped client's last turn. `docs/design/tokens.md` has the rules.
//!
//! Pure: no I/O, no clock. A turn that is never closed leaves nothing behind.

mod path;
mod tree;

use std::sync::{Arc, Weak};

use paddock_types::chat::{Message, Usage};
use paddock_types::trajectory::Conversation;
use serde_json::Value;

use crate::sample::{Finish, Sampled};
use crate::template::{self, FinishReason, Reply, Thinking};
use crate::tokenizer::END;
use path::assemble;
use tree::{Entry, NodeId, Tree};

/// Records the conversations of one trajectory with the policy.
#[derive(Debug)]
pub struct Recorder {
    tree: Tree,
    sample_tools: Option<Value>,
    thinking: Thinking,
    /// True once the wrapped client has asked something.
    wrapped: bool,
    next_order: u64,
    open: Vec<Opened>,
    closed: Vec<Closed>,
}

/// A model turn between its request and its answer. Dropping it ends the turn unrecorded.
#[derive(Debug)]
pub struct OpenTurn {
    /// Tokens to sample from.
    pub prompt: Vec<u32>,
    /// Its number in the trajectory, from 0: with the sample's key it decides the random numbers.
    /// A turn that was dropped leaves its number to the next one.
    pub turn: u32,
    /// True if it isn't part of the trajectory: a judge, a second agent.
    pub side: bool,
    order: u64,
    base: Option<NodeId>,
    added: Vec<Entry>,
    lead: Vec<u32>,
    tools: Option<Value>,
    thinking: Thinking,
    alive: Arc<()>,
}

/// What the recorder keeps of a turn that is open.
#[derive(Debug)]
struct Opened {
    order: u64,
    turn: u32,
    side: bool,
    messages: Vec<Message>,
    alive: Weak<()>,
}

/// What the recorder keeps of a turn that was closed.
#[derive(Debug)]
struct Closed {
    order: u64,
    turn: u32,
    side: bool,
    node: NodeId,
    finish: FinishReason,
    /// The order of the next turn to be opened when it ended.
    ended: u64,
    usage: Usage,
}

impl OpenTurn {
    /// What the model said, as a message. Recording it is [`Recorder::close`]'s.
    pub fn reply(&self, sampled: &Sampled) -> Reply {
        let mut number = 0;
        let mut ids = || {
            number += 1;
            format!("call_{}_{number}", self.turn)
        };
        // A stop token of the request's own is no part of what was said.
        let said = match (sampled.finish, sampled.tokens.split_last()) {
            (Finish::Stop, Some((&last, said))) if last != END => said,
            _ => &sampled.tokens,
        };
        let mut reply = template::parse_reply(said, self.thinking, &mut ids);
        if sampled.finish == Finish::Length {
            reply.finish_reason = FinishReason::Length;
        }
        reply
    }
}

impl Recorder {
    /// A record of nothing yet. A request that leaves its tools out has the sample's.
    pub fn new(sample_tools: Option<Value>) -> Self {
        Self {
            tree: Tree::default(),
            sample_tools,
            thinking: Thinking::Auto,
            wrapped: false,
            next_order: 0,
            open: Vec::new(),
            closed: Vec::new(),
        }
    }

    /// Sets whether the model thinks, for the turns opened from here on: the sample's `thinking`.
    pub fn set_thinking(&mut self, thinking: Thinking) {
        self.thinking = thinking;
    }

    /// Begins a turn: matches a request's messages against what is recorded.
    ///
    /// `main` says that the wrapped client asks: whatever it sends becomes the trajectory's last
    /// context, and what it left out of its history is dropped. Any other request is part of the
    /// trajectory only if it continues it. `tools` of `None` are the sample's, an empty list none.
    pub fn open(&mut self, messages: Vec<Message>, tools: Option<Value>, main: bool) -> OpenTurn {
        self.open.retain(|turn| turn.alive.strong_count() > 0);
        let tools = tools
            .or_else(|| self.sample_tools.clone())
            .filter(|tools| template::has_tools(Some(tools)));
        let side = !main && !self.continues(&messages);
        self.wrapped |= main;

        let (base, shared) = self.tree.longest_match(&messages, self.last_main());
        let mut in_force = base.map(|node| self.tree.entry(node).tools.clone());
        let mut added: Vec<Entry> = Vec::new();
        for message in messages.iter().skip(shared) {
            let mut ids = lead(&in_force, &tools);
            ids.extend(template::render_message(message));
            in_force = Some(tools.clone());
            added.push(Entry::rendered(message.clone(), ids, tools.clone()));
        }
        let mut turn_lead = lead(&in_force, &tools);
        turn_lead.extend(template::generation_prompt(self.thinking));

        let mut prompt = assemble(self.tree.path(base).into_iter().chain(&added)).ids;
        if prompt.last().is_some_and(|&id| id != END) {
            prompt.push(END);
        }
        prompt.extend(&turn_lead);

        let turn = self.free_number();
        let order = self.next_order;
        self.next_order += 1;
        let alive = Arc::new(());
        self.open.push(Opened {
            order,
            turn,
            side,
            messages,
            alive: Arc::downgrade(&alive),
        });
        OpenTurn {
            prompt,
            turn,
            side,
            order,
            base,
            added,
            lead: turn_lead,
            tools,
            thinking: self.thinking,
            alive,
        }
    }

    /// Ends a turn with what the model sampled, and says it as a message.
    pub fn close(&mut self, turn: OpenTurn, sampled: &Sampled) -> Reply {
        let reply = turn.reply(sampled);
        let mut node = turn.base;
        for entry in turn.added {
            node = Some(self.tree.add_rendered(node, entry));
        }
        let entry = Entry::sampled(reply.message.clone(), turn.lead, sampled, turn.tools);
        let node = self.tree.add(node, entry);
        let prompt = turn.prompt.len() as u64;
        let completion = sampled.tokens.len() as u64;
        drop(turn.alive);
        self.open.retain(|open| open.order != turn.order);
        self.closed.push(Closed {
            order: turn.order,
            turn: turn.turn,
            side: turn.side,
            node,
            finish: reply.finish_reason,
            ended: self.next_order,
            usage: Usage {
                prompt_tokens: prompt,
                completion_tokens: completion,
                total_tokens: prompt + completion,
            },
        });
        reply
    }

    /// The trajectory: the last context of the wrapped client, with what was dropped on the way
    /// and the conversations beside it.
    pub fn finish(mut self) -> Conversation {
        self.closed.sort_by_key(|turn| turn.order);
        let mut out = Conversation {
            turns: self.closed.len() as u32,
            ..Conversation::default()
        };
        for turn in &self.closed {
            out.usage.prompt_tokens += turn.usage.prompt_tokens;
            out.usage.completion_tokens += turn.usage.completion_tokens;
            out.usage.total_tokens += turn.usage.total_tokens;
        }
        let last = self.last_main();
        let kept = self.tree.nodes_to(last);
        out.messages = self.tree.messages(&kept);
        out.tokens = assemble(self.tree.path(last));
        if let Some(turn) = self.closed.iter().rfind(|turn| !turn.side) {
            out.finish_reason = turn.finish.as_str().to_owned();
        }
        let dropped = self.dropped(&kept);
        out.dropped = self.tree.messages(&dropped);
        out.side = self.sides(&[kept, dropped].concat());
        out
    }

    /// The node of the last turn of the trajectory as it stands: the one opened last.
    fn last_main(&self) -> Option<NodeId> {
        self.closed
            .iter()
            .filter(|turn| !turn.side)
            .max_by_key(|turn| turn.order)
            .map(|turn| turn.node)
    }

    /// True if these messages go on from where the trajectory stands.
    fn continues(&self, messages: &[Message]) -> bool {
        if let Some(last) = self.last_main() {
            let path = self.tree.path(Some(last));
            return path.len() <= messages.len()
                && path.iter().zip(messages).all(|(entry, m)| entry.is(m));
        }
        // The trajectory hasn't begun. Without a wrapped client the first to ask begins it; who
        // asks beside it must ask the same (a branch, a repeated request) to be taken for it.
        let mut begun = self.open.iter().filter(|turn| !turn.side).peekable();
        match begun.peek() {
            Some(_) => begun.any(|turn| same(&turn.messages, messages)),
            None => !self.wrapped,
        }
    }

    /// The least number that no turn has.
    fn free_number(&self) -> u32 {
        let taken = |number: &u32| {
            self.closed.iter().any(|turn| turn.turn == *number)
                || self.open.iter().any(|turn| turn.turn == *number)
        };
        (0..).find(|number| !taken(number)).unwrap_or_default()
    }

    /// What each turn of the trajectory left out of the one before it, in a history edited since.
    fn dropped(&self, kept: &[NodeId]) -> Vec<NodeId> {
        let mut dropped = Vec::new();
        let main: Vec<&Closed> = self.closed.iter().filter(|turn| !turn.side).collect();
        for pair in main.windows(2) {
            if self.is_branch(pair[0]) {
                continue;
            }
            let next = self.tree.nodes_to(Some(pair[1].node));
            for node in self.tree.nodes_to(Some(pair[0].node)) {
                if !next.contains(&node) && !kept.contains(&node) && !dropped.contains(&node) {
                    dropped.push(node);
                }
            }
        }
        dropped
    }

    /// The conversations beside the trajectory, each to its end. `told` is told elsewhere.
    fn sides(&self, told: &[NodeId]) -> Vec<Vec<Message>> {
        let beside: Vec<&Closed> = self
            .closed
            .iter()
            .filter(|turn| (turn.side || self.is_branch(turn)) && !told.contains(&turn.node))
            .collect();
        let goes_on = |turn: &Closed| {
            beside.iter().any(|other| {
                other.node != turn.node && self.tree.nodes_to(Some(other.node)).contains(&turn.node)
            })
        };
        beside
            .iter()
            .filter(|turn| !goes_on(turn))
            .map(|turn| self.tree.messages(&self.tree.nodes_to(Some(turn.node))))
            .collect()
    }

    /// True if the wrapped client asked it and another turn at once.
    fn is_branch(&self, turn: &Closed) -> bool {
        self.closed.iter().any(|other| {
            !other.side
                && other.order != turn.order
                && other.order < turn.ended
                && turn.order < other.ended
        })
    }
}

/// What goes before a message: the preamble at the root, the tools where they change.
fn lead(in_force: &Option<Option<Value>>, tools: &Option<Value>) -> Vec<u32> {
    match in_force {
        None => template::preamble(tools.as_ref()),
        Some(before) if before != tools => template::render_tools(tools.as_ref()),
        Some(_) => Vec::new(),
    }
}

fn same(a: &[Message], b: &[Message]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.normal() == b.normal())
}

#[cfg(test)]
mod tests;
