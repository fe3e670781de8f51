//! A trajectory's talk with the policy: who may ask, what was said, in which tokens.
//!
//! A session is open for one attempt of one rollout. Its token opens nothing else, and nothing
//! once the attempt is over. Random numbers come from the sample's key, never from the order in
//! which requests arrive.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paddock_policy::recorder::{OpenTurn, Recorder};
use paddock_policy::sample::{SampleKey, SampleRequest, Sampled};
use paddock_policy::template::{self, Reply, Thinking};
use paddock_policy::{Policy, PolicyError};
use paddock_runtime::CallClock;
use paddock_types::chat::{Message, Sampling, Usage};
use paddock_types::id::{Phase, SampleId};
use paddock_types::job::JobConfig;
use paddock_types::trajectory::Conversation;
use serde_json::Value;

use crate::dataset::Row;

/// What decides a session's answers.
pub struct SessionSettings {
    key: SampleKey,
    sampling: Sampling,
    tools: Option<Value>,
    thinking: Thinking,
    model_timeout: Duration,
    clock: CallClock,
    training: bool,
}

impl SessionSettings {
    /// The settings of a rollout: the row's own sampling fields come before the job's.
    pub fn new(
        config: &JobConfig,
        sample: SampleId,
        generation: u32,
        charged: u32,
        row: &Row,
        clock: CallClock,
    ) -> Self {
        let h = &config.hyperparameters;
        let training = sample.phase == Phase::Train;
        let job = Sampling {
            max_new_tokens: Some(h.max_new_tokens),
            temperature: Some(match training {
                true => h.temperature,
                false => h.test_temperature.unwrap_or(h.temperature),
            }),
            top_p: Some(if training { h.top_p } else { h.test_top_p }),
            top_k: Some(h.top_k),
        };
        // A plugin's own retry samples anew; any other attempt repeats what was sampled before.
        let seed = h
            .seed
            .wrapping_add(u64::from(charged).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let key = SampleKey {
            seed,
            phase: sample.phase,
            step: sample.step,
            sample: sample.index,
            generation,
            turn: 0,
        };
        Self {
            key,
            sampling: row.sampling.or(job),
            tools: row.tools.clone(),
            thinking: Thinking::from_value(row.thinking.as_ref()),
            model_timeout: Duration::from_secs(config.model_timeout.into()),
            clock,
            training,
        }
    }
}

/// Why a turn was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// The request asks for what can't be given.
    #[error("{0}")]
    Refused(String),
    /// The model's side failed: the platform's fault.
    #[error("{0}")]
    Platform(String),
}

/// What a request asks of the policy.
pub struct Ask {
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The tools it names; `None` takes the sample's.
    pub tools: Option<Value>,
    /// The sampling fields that it sets itself.
    pub sampling: Sampling,
    /// Tokens that end the turn, besides the model's own end.
    pub stop: Vec<u32>,
    /// True if it comes from the wrapped client.
    pub main: bool,
}

/// A turn that was sampled and is not recorded yet.
pub struct Turn {
    inner: Arc<Inner>,
    open: OpenTurn,
    /// What was sampled.
    pub sampled: Sampled,
}

impl Turn {
    /// What the model said, and why it ended.
    pub fn reply(&self) -> Reply {
        self.open.reply(&self.sampled)
    }

    /// Token counts.
    pub fn usage(&self) -> Usage {
        let prompt_tokens = self.open.prompt.len() as u64;
        let completion_tokens = self.sampled.tokens.len() as u64;
        let total_tokens = prompt_tokens + completion_tokens;
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens,
        }
    }

    /// The answer was given in full: it is part of the record now. After the end of the
    /// trajectory this changes nothing.
    pub fn record(self) {
        if let Some(recorder) = self.inner.state().recorder.as_mut() {
            recorder.close(self.open, &self.sampled);
        }
    }
}

struct State {
    recorder: Option<Recorder>,
    model_fault: Option<String>,
}

struct Inner {
    policy: Policy,
    settings: SessionSettings,
    state: Mutex<State>,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn turn(self: Arc<Self>, ask: Ask) -> Result<Turn, TurnError> {
        let _served = self.settings.clock.pause();
        let sampling = ask.sampling.or(self.settings.sampling);
        let open = match self.state().recorder.as_mut() {
            Some(recorder) => recorder.open(ask.messages, ask.tools, ask.main),
            None => return Err(TurnError::Refused("the trajectory is over".into())),
        };
        let temperature = sampling.temperature.unwrap_or(1.0);
        if self.settings.training && !open.side && temperature <= 0.0 {
            return Err(TurnError::Refused(
                "temperature 0 while training: allowed is more than 0, so that a group has spread"
                    .into(),
            ));
        }
        let mut stop = template::stop_tokens().to_vec();
        stop.extend(ask.stop);
        let request = SampleRequest {
            prompt: open.prompt.clone(),
            stop,
            max_new_tokens: sampling.max_new_tokens.unwrap_or(1024),
            temperature,
            top_p: sampling.top_p.unwrap_or(1.0),
            top_k: sampling.top_k.unwrap_or(0),
            key: SampleKey {
                turn: open.turn,
                ..self.settings.key
            },
        };
        let limit = self.settings.model_timeout;
        match tokio::time::timeout(limit, self.policy.sample(request)).await {
            Ok(Ok(sampled)) => Ok(Turn {
                inner: self.clone(),
                open,
                sampled,
            }),
            Ok(Err(PolicyError::Request(why))) => Err(TurnError::Refused(why)),
            Ok(Err(error)) => Err(self.failed(error.to_string())),
            Err(_) => Err(self.failed(format!(
                "the policy did not answer within {} s",
                limit.as_secs()
            ))),
        }
    }

    fn failed(&self, why: String) -> TurnError {
        self.state().model_fault = Some(why.clone());
        TurnError::Platform(why)
    }
}

/// All open sessions, by token.
#[derive(Clone, Default)]
pub struct Sessions {
    open: Arc<Mutex<HashMap<String, Arc<Inner>>>>,
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Inner>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session with a token of its own.
    pub fn open(&self, policy: Policy, settings: SessionSettings) -> Session {
        let random: [u8; 24] = rand::random();
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut recorder = Recorder::new(settings.tools.clone());
        recorder.set_thinking(settings.thinking);
        let recorder = Some(recorder);
        let state = Mutex::new(State {
            recorder,
            model_fault: None,
        });
        let inner = Arc::new(Inner {
            policy,
            settings,
            state,
        });
        self.table().insert(token.clone(), inner.clone());
        Session {
            token,
            inner,
            sessions: self.clone(),
        }
    }

    /// Samples an answer to a request that bears a session's token; `None` if no such session is
    /// open.
    pub async fn turn(&self, token: &str, ask: Ask) -> Option<Result<Turn, TurnError>> {
        let inner = self.table().get(token).cloned()?;
        Some(inner.turn(ask).await)
    }

    /// The model that answers this token's requests.
    pub fn model(&self, token: &str) -> Option<String> {
        self.table()
            .get(token)
            .map(|inner| inner.policy.card().name.clone())
    }
}

/// An open session. Dropping it closes it.
pub struct Session {
    token: String,
    inner: Arc<Inner>,
    sessions: Sessions,
}

impl Session {
    /// What a request must bear.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Makes and records a turn of the trajectory itself.
    pub async fn turn(
        &self,
        messages: Vec<Message>,
        tools: Option<Value>,
    ) -> Result<(), TurnError> {
        let sampling = Sampling::default();
        let ask = Ask {
            messages,
            tools,
            sampling,
            stop: vec![],
            main: true,
        };
        self.inner.clone().turn(ask).await?.record();
        Ok(())
    }

    /// Closes the session: what was said, and what failed on the model's side.
    pub fn finish(self) -> (Conversation, Option<String>) {
        self.sessions.table().remove(&self.token);
        let mut state = self.inner.state();
        let conversation = state
            .recorder
            .take()
            .map(Recorder::finish)
            .unwrap_or_default();
        (conversation, state.model_fault.take())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.sessions.table().remove(&self.token);
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
