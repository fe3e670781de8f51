//! Continuous batching: requests join and leave between token steps.
//!
//! A round feeds every running sequence its pending tokens (a new one's prompt, an older one's
//! last token), in groups that threads compute from end to end. A row's bits do not depend on
//! its group, so neither grouping nor order of arrival changes what is sampled.

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::choice::choose;
use super::request::{Finish, SampleRequest, Sampled};
use super::reuse::Reuse;
use crate::model::infer::Reading;
use crate::model::{Cache, Model, ModelConfig};
use crate::policy::PolicyError;

/// Rows that a round computes at most on each thread, beyond one a sequence: prompts that do
/// not fit wait for the next round.
const PROMPT_ROWS: usize = 2048;

/// Bytes of keys and values that sequences may come to hold. At least one always runs.
const CACHE_BYTES: usize = 1 << 30;

/// Where a turn's answer goes.
pub(crate) trait Reply: Send {
    /// Hands over what came of the turn.
    fn send(self, result: Result<Sampled, PolicyError>);
    /// True when nobody waits for it any more.
    fn is_closed(&self) -> bool;
}

struct Running<R> {
    request: SampleRequest,
    random: ChaCha8Rng,
    cache: Cache,
    /// Tokens not yet in the cache.
    pending: Vec<u32>,
    sampled: Sampled,
    /// Positions that it may come to hold.
    reserved: usize,
    reply: R,
}

/// The sequences that are being sampled, and those that wait for room.
pub(crate) struct Batch<R> {
    waiting: VecDeque<(SampleRequest, R)>,
    running: Vec<Running<R>>,
    reuse: Reuse,
    reserved: usize,
    /// Positions that fit.
    room: usize,
    context: usize,
}

impl<R: Reply> Batch<R> {
    /// An empty batch for a model of this shape.
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let heads = config.heads();
        let bytes = 2 * 4 * heads.keys * heads.head * config.num_hidden_layers;
        Self {
            waiting: VecDeque::new(),
            running: Vec::new(),
            reuse: Reuse::default(),
            reserved: 0,
            room: CACHE_BYTES / bytes,
            context: config.max_position_embeddings,
        }
    }

    /// True when nothing runs or waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Adds a request, answering at once what needs no model.
    pub(crate) fn add(&mut self, model: &Model, request: SampleRequest, reply: R) {
        if let Err(error) = request.check(model.config()) {
            reply.send(Err(error));
        } else if request.max_new_tokens == 0 || request.prompt.len() >= self.context {
            let (tokens, logprobs) = (Vec::new(), Vec::new());
            reply.send(Ok(Sampled {
                tokens,
                logprobs,
                finish: Finish::Length,
            }));
        } else {
            self.waiting.push_back((request, reply));
        }
    }

    /// Forgets cached turns: the weights are about to change. Nothing may be running.
    pub(crate) fn forget(&mut self) {
        debug_assert!(self.running.is_empty());
        self.reuse = Reuse::default();
    }

    /// Samples one token for every sequence that has a place in this round.
    pub(crate) fn round(&mut self, model: &Model) {
        self.leave_out_closed();
        self.admit(model);
        let mut chosen = choose_rows(&mut self.running);
        let rows: usize = chosen.iter().map(|running| running.pending.len()).sum();
        let groups = split(&mut chosen, rows.div_ceil(rayon::current_num_threads()));
        let done = Reading::new(model).and_then(|reading| {
            groups
                .into_par_iter()
                .map(|group| advance(&reading, group))
                .collect::<Result<(), _>>()
        });
        if let Err(error) = done {
            self.fail(&error.to_string());
            return;
        }
        self.hand_over();
    }

    fn leave_out_closed(&mut self) {
        self.waiting.retain(|(_, reply)| !reply.is_closed());
        let mut reserved = 0;
        self.running.retain(|running| {
            let stays = !running.reply.is_closed();
            reserved += if stays { running.reserved } else { 0 };
            stays
        });
        self.reserved = reserved;
    }

    fn admit(&mut self, model: &Model) {
        while let Some((request, _)) = self.waiting.front() {
            let wanted = request.prompt.len() + request.max_new_tokens as usize;
            let reserved = wanted.min(self.context);
            if self.reserved + reserved > self.room && !self.running.is_empty() {
                break;
            }
            let Some((request, reply)) = self.waiting.pop_front() else {
                break;
            };
            let cache = self
                .reuse
                .take(&request.prompt)
                .unwrap_or_else(|| Cache::new(model));
            self.reserved += reserved;
            self.reuse.shrink(self.room.saturating_sub(self.reserved));
            self.running.push(Running {
                random: request.key.random(),
                pending: request.prompt[cache.len()..].to_vec(),
                cache,
                sampled: Sampled {
                    tokens: Vec::new(),
                    logprobs: Vec::new(),
                    finish: Finish::Length,
                },
                reserved,
                request,
                reply,
            });
        }
    }

    /// Answers the sequences that have ended and frees their places.
    fn hand_over(&mut self) {
        let context = self.context;
        let ended = |running: &mut Running<R>| running.has_ended(context);
        for running in self.running.extract_if(.., ended).collect::<Vec<_>>() {
            self.reserved -= running.reserved;
            let Running {
                mut request,
                cache,
                sampled,
                reply,
                ..
            } = running;
            let broken = sampled.logprobs.iter().any(|x| !x.is_finite());
            if broken {
                reply.send(Err(PolicyError::NonFinite {
                    what: "log-prob",
                    step: request.key.step,
                    evidence: format!("while sampling with {:?}", request.key),
                }));
                continue;
            }
            request.prompt.extend_from_slice(&sampled.tokens);
            self.reuse.keep(request.prompt, cache);
            reply.send(Ok(sampled));
        }
        self.reuse.shrink(self.room.saturating_sub(self.reserved));
    }

    /// The tensor library refused: everyone who runs is told.
    fn fail(&mut self, text: &str) {
        self.reserved = 0;
        for running in self.running.drain(..) {
            running.reply.send(Err(PolicyError::Sampling {
                reason: text.to_owned(),
            }));
        }
    }
}

impl<R> Running<R> {
    fn has_ended(&mut self, context: usize) -> bool {
        let stopped = self
            .sampled
            .tokens
            .last()
            .is_some_and(|t| self.request.stop.contains(t));
        if stopped {
            self.sampled.finish = Finish::Stop;
        }
        let count = self.sampled.tokens.len();
        let broken = self.sampled.logprobs.last().is_some_and(|x| !x.is_finite());
        stopped
            || broken
            || count >= self.request.max_new_tokens as usize
            || self.request.prompt.len() + count >= context
    }
}

/// The sequences of this round: all that need one row, and prompts while they fit.
fn choose_rows<R>(running: &mut [Running<R>]) -> Vec<&mut Running<R>> {
    let mut left = PROMPT_ROWS * rayon::current_num_threads();
    let mut any = false;
    let fits = running.iter_mut().filter(|running| {
        let rows = running.pending.len();
        let fits = rows == 1 || rows <= left || !any;
        if fits {
            any = true;
            left = left.saturating_sub(rows);
        }
        fits
    });
    fits.collect()
}

/// Cuts sequences into runs of about `rows` new rows.
fn split<'a, 'b, R>(
    mut running: &'a mut [&'b mut Running<R>],
    rows: usize,
) -> Vec<&'a mut [&'b mut Running<R>]> {
    let mut groups = Vec::new();
    while !running.is_empty() {
        let mut held = 0;
        let fits = running.iter().take_while(|running| {
            held += running.pending.len();
            held <= rows
        });
        let count = fits.count().max(1);
        let (group, rest) = running.split_at_mut(count);
        groups.push(group);
        running = rest;
    }
    groups
}

/// Feeds a group its pending tokens and lets each sequence choose its next one.
fn advance<R>(reading: &Reading<'_>, group: &mut [&mut Running<R>]) -> Result<(), PolicyError> {
    let mut wanted = Vec::with_capacity(group.len());
    let mut rows = 0;
    let mut sequences = Vec::with_capacity(group.len());
    for running in group.iter_mut() {
        rows += running.pending.len();
        wanted.push(rows as u32 - 1);
        sequences.push((&mut running.cache, running.pending.as_slice()));
    }
    let logits = reading.extend(&mut sequences, &wanted)?;
    for (running, row) in group
        .iter_mut()
        .zip(logits.chunks_exact(logits.len() / wanted.len()))
    {
        let choice = choose(row, &running.request, &mut running.random);
        running.pending.clear();
        running.pending.push(choice.token);
        running.sampled.tokens.push(choice.token);
        running.sampled.logprobs.push(choice.logprob);
    }
    Ok(())
}
