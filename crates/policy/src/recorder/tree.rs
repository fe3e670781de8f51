//! The tree of recorded messages.
//!
//! Nodes are only ever added. A node's tokens hold whatever the template put before its message.

use paddock_types::chat::Message;
use paddock_types::trajectory::Tokens;
use serde_json::Value;

use super::path::push;
use crate::sample::Sampled;

/// A node's place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(usize);

/// A message with its tokens.
#[derive(Debug)]
pub(super) struct Entry {
    message: Message,
    normal: Value,
    /// Ids, mask and log-probs of the message and what leads it in.
    pub(super) tokens: Tokens,
    /// Tools in force from here on.
    pub(super) tools: Option<Value>,
    sampled: bool,
}

impl Entry {
    /// A message that the template rendered.
    pub(super) fn rendered(message: Message, ids: Vec<u32>, tools: Option<Value>) -> Self {
        let mut tokens = Tokens::default();
        push(&mut tokens, &ids);
        Self {
            normal: message.normal(),
            message,
            tokens,
            tools,
            sampled: false,
        }
    }

    /// A message that the policy sampled after `lead`.
    pub(super) fn sampled(
        message: Message,
        lead: Vec<u32>,
        sampled: &Sampled,
        tools: Option<Value>,
    ) -> Self {
        let mut entry = Self::rendered(message, lead, tools);
        let tokens = &mut entry.tokens;
        tokens.ids.extend(&sampled.tokens);
        tokens.mask.resize(tokens.ids.len(), true);
        tokens.logprobs.extend(&sampled.logprobs);
        tokens.logprobs.resize(tokens.ids.len(), 0.0);
        entry.sampled = true;
        entry
    }

    /// True if `message` is this entry's: one normal form, and no other reasoning. Reasoning left
    /// out is no edit.
    pub(super) fn is(&self, message: &Message) -> bool {
        self.normal == message.normal() && self.reasons_as(message)
    }

    fn reasons_as(&self, message: &Message) -> bool {
        match reasoning(message) {
            None => true,
            given => given == reasoning(&self.message),
        }
    }
}

fn reasoning(message: &Message) -> Option<&str> {
    let text = message.0.get("reasoning_content")?.as_str()?;
    (!text.is_empty()).then_some(text)
}

#[derive(Debug)]
struct Node {
    parent: Option<NodeId>,
    entry: Entry,
    children: Vec<NodeId>,
}

/// Every message that was recorded, below the message that it followed.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    roots: Vec<NodeId>,
}

impl Tree {
    pub(super) fn entry(&self, node: NodeId) -> &Entry {
        &self.nodes[node.0].entry
    }

    /// The deepest node whose path is a prefix of `messages`, and how many it shares. Of several
    /// (branches that said the same), the one on the way to `preferred`, else the latest.
    pub(super) fn longest_match(
        &self,
        messages: &[Message],
        preferred: Option<NodeId>,
    ) -> (Option<NodeId>, usize) {
        let preferred = self.nodes_to(preferred);
        let mut alive: Vec<Option<NodeId>> = vec![None];
        let mut depth = 0;
        for message in messages {
            let normal = message.normal();
            let next: Vec<Option<NodeId>> = alive
                .iter()
                .flat_map(|node| self.children(*node))
                .filter(|&&child| {
                    let entry = self.entry(child);
                    entry.normal == normal && entry.reasons_as(message)
                })
                .map(|&child| Some(child))
                .collect();
            if next.is_empty() {
                break;
            }
            alive = next;
            depth += 1;
        }
        let best = alive
            .into_iter()
            .max_by_key(|node| (node.is_some_and(|n| preferred.contains(&n)), *node))
            .flatten();
        (best, depth)
    }

    /// Adds a node below `parent`.
    pub(super) fn add(&mut self, parent: Option<NodeId>, entry: Entry) -> NodeId {
        let id = NodeId(self.nodes.len());
        self.nodes.push(Node {
            parent,
            entry,
            children: Vec::new(),
        });
        match parent {
            Some(parent) => self.nodes[parent.0].children.push(id),
            None => self.roots.push(id),
        }
        id
    }

    /// Adds a rendered message below `parent`, unless a branch has already put it there.
    pub(super) fn add_rendered(&mut self, parent: Option<NodeId>, entry: Entry) -> NodeId {
        let there = self.children(parent).iter().copied().find(|&child| {
            let other = self.entry(child);
            !other.sampled && other.tokens == entry.tokens && other.normal == entry.normal
        });
        there.unwrap_or_else(|| self.add(parent, entry))
    }

    /// The nodes from the root to `node`, both included.
    pub(super) fn nodes_to(&self, node: Option<NodeId>) -> Vec<NodeId> {
        let mut out: Vec<NodeId> =
            std::iter::successors(node, |id| self.nodes[id.0].parent).collect();
        out.reverse();
        out
    }

    /// The entries from the root to `node`.
    pub(super) fn path(&self, node: Option<NodeId>) -> Vec<&Entry> {
        let nodes = self.nodes_to(node);
        nodes.into_iter().map(|id| self.entry(id)).collect()
    }

    /// The messages of some nodes.
    pub(super) fn messages(&self, nodes: &[NodeId]) -> Vec<Message> {
        let message = |&id| self.entry(id).message.clone();
        nodes.iter().map(message).collect()
    }

    fn children(&self, node: Option<NodeId>) -> &[NodeId] {
        match node {
            Some(node) => &self.nodes[node.0].children,
            None => &self.roots,
        }
    }
}
