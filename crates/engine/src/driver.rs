//! Carries out what the plan says: validations, steps, checkpoints. It decides nothing itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use paddock_policy::{PolicyError, Progress};
use paddock_types::fault::{Fault, FaultKind, Location};
use paddock_types::id::Phase;
use paddock_types::job::{JobConfig, JobState};
use paddock_types::plugin::PluginState;
use sha2::{Digest, Sha256};

use crate::context::JobContext;
use crate::plan::{self, Work};
use crate::prepare::Prepared;
use crate::record::{Record, store_fault};
use crate::runner::{Outcomes, Runner};
use crate::{JobEvent, checkpoints, train};

/// A job at work.
pub(crate) struct Driver<'a> {
    pub(crate) context: Arc<JobContext>,
    pub(crate) prepared: &'a Prepared,
    pub(crate) record: &'a mut Record,
    pub(crate) job_dir: PathBuf,
}

impl Driver<'_> {
    /// Does what the plan says next, until it says that the job is done.
    pub(crate) async fn drive(&mut self) -> Result<JobState, Fault> {
        self.plugins(PluginState::Running);
        self.record.save(JobState::Running).await?;
        let mut validations: BTreeMap<u32, f64> = BTreeMap::new();
        let has_validation = !self.prepared.data.validation.is_empty();
        let mut done = None;
        loop {
            let work = plan::next(done, &self.prepared.config.hyperparameters, has_validation);
            match work {
                Work::Validate { after } => self.validate(after, &mut validations).await?,
                Work::Step { step } => self.step(step).await?,
                Work::Save { after } => self.checkpoint(after, &validations).await?,
                Work::Finish => return Ok(JobState::Completed),
            }
            self.context.writer.flush().await.map_err(store_fault)?;
            self.count_calls();
            self.record.save(JobState::Running).await?;
            done = Some(work);
        }
    }

    fn count_calls(&mut self) {
        if let Ok(counts) = self.context.calls.lock() {
            self.record.inner.summary.calls = counts.clone();
        }
    }

    fn plugins(&mut self, state: PluginState) {
        self.record
            .inner
            .plugins
            .values_mut()
            .for_each(|plugin| *plugin = state);
    }

    async fn pass(&self, phase: Phase, step: u32) -> Result<Outcomes, Fault> {
        let h = &self.prepared.config.hyperparameters;
        let rows = self.prepared.data.draw(phase, step, h.batch_size, h.seed);
        Runner::run(self.context.clone(), phase, step, rows).await
    }

    async fn validate(
        &mut self,
        after: u32,
        validations: &mut BTreeMap<u32, f64>,
    ) -> Result<(), Fault> {
        let outcomes = self.pass(Phase::Test, after).await?;
        let record = train::validation_record(&outcomes, after);
        if let Some(reward) = record.reward {
            validations.insert(after, reward.mean);
            let summary = &mut self.record.inner.summary.validation;
            if after == 0 {
                summary.before = Some(reward.mean);
            } else {
                summary.after = Some(reward.mean);
            }
        }
        for (reason, count) in &record.left_out {
            self.context.warn(format!(
                "validation after step {after}: {count} left out: {reason}"
            ));
        }
        let job = self.context.job;
        self.record
            .store
            .put_validation(job, &record)
            .await
            .map_err(store_fault)?;
        self.context.tell(JobEvent::Validation(record));
        Ok(())
    }

    async fn step(&mut self, step: u32) -> Result<(), Fault> {
        let h = &self.prepared.config.hyperparameters;
        let begun = Instant::now();
        self.record.inner.summary.samples.drawn += u64::from(h.batch_size);
        let outcomes = self.pass(Phase::Train, step).await?;
        let rollout_seconds = begun.elapsed().as_secs_f64();
        let samples = &mut self.record.inner.summary.samples;
        let batch = train::batch(&outcomes, h.scale_rewards);
        let mut record = train::step_record(&outcomes, &batch, step);
        for (reason, count) in &record.dropped {
            *samples.dropped.entry(reason.clone()).or_default() += count;
        }
        if batch.trajectories.is_empty() {
            return Err(nothing_left(step, &record.dropped));
        }
        if batch.silent > 0 {
            self.context.warn(format!(
                "step {step}: {} rollouts never asked the model and are not trained on",
                batch.silent
            ));
        }
        let begun = Instant::now();
        let settings = train::settings(h, step, self.context.policy.card().lr);
        let update = self
            .context
            .policy
            .update(batch.trajectories, settings)
            .await;
        record.update = update.map_err(|error| update_fault(&error, step))?;
        record.update_seconds = begun.elapsed().as_secs_f64();
        record.rollout_seconds = rollout_seconds;
        record.ended_ms = crate::now_ms();
        let summary = &mut self.record.inner.summary;
        summary.steps = step;
        summary.reward.first.get_or_insert(record.reward.mean);
        summary.reward.last = Some(record.reward.mean);
        self.record
            .store
            .put_step(self.context.job, &record)
            .await
            .map_err(store_fault)?;
        self.context.tell(JobEvent::Step {
            record: Box::new(record),
            of: h.num_steps,
        });
        Ok(())
    }

    async fn checkpoint(
        &mut self,
        after: u32,
        validations: &BTreeMap<u32, f64>,
    ) -> Result<(), Fault> {
        let folder = checkpoints::folder(&self.job_dir, after);
        let config = &self.prepared.config;
        let progress = progress(config, after);
        let save = self.context.policy.save(folder.clone(), progress).await;
        save.map_err(|error| {
            Fault::internal(format!(
                "the checkpoint after step {after} can't be written: {error}"
            ))
        })?;
        checkpoints::prune(&self.job_dir, validations, config.save_model_limit)
            .map_err(|e| Fault::internal(format!("an old checkpoint can't be removed: {e}")))?;
        let folder = folder.display().to_string();
        self.record.inner.summary.checkpoint = Some(folder.clone());
        self.context.tell(JobEvent::Checkpoint(folder));
        Ok(())
    }

    /// Ends the plugins and says how each of them ended.
    pub(crate) async fn close(&mut self, ended: &Result<JobState, Fault>) {
        let blamed = ended
            .as_ref()
            .err()
            .and_then(|fault| fault.location.plugin.clone());
        for (name, state) in &mut self.record.inner.plugins {
            *state = match &blamed {
                Some(plugin) if plugin == name => PluginState::Failed,
                _ => PluginState::Completed,
            };
        }
        self.count_calls();
        for plugin in self.context.plugins() {
            plugin.clone().close().await;
        }
    }
}

/// What a job needs to go on from here: the draw is a function of the seed and the step.
fn progress(config: &JobConfig, after: u32) -> Progress {
    let h = &config.hyperparameters;
    let text = serde_json::to_vec(config).unwrap_or_default();
    let hash = Sha256::digest(text);
    Progress {
        step: after,
        seed: h.seed,
        permutation_seed: h.seed,
        position: u64::from(after) * u64::from(h.batch_size),
        config_hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn nothing_left(step: u32, dropped: &BTreeMap<String, u64>) -> Fault {
    let most = dropped
        .iter()
        .max_by_key(|(_, count)| **count)
        .map(|(reason, _)| reason.clone());
    let reasons: Vec<String> = dropped
        .iter()
        .map(|(reason, count)| format!("{count} by {reason}"))
        .collect();
    let named = most.as_deref().and_then(|reason| reason.split_once(": "));
    let plugin = named.map(|(plugin, _)| plugin.to_owned());
    let mut fault = Fault::new(
        FaultKind::CallPlugin,
        format!(
            "step {step}: every sample was dropped: {}",
            reasons.join(", ")
        ),
        "look at the reasons of the dropped trajectories: `paddock trajectories list --status discard`",
    );
    fault.location = Location {
        plugin,
        step: Some(step),
        ..Location::default()
    };
    fault
}

fn update_fault(error: &PolicyError, step: u32) -> Fault {
    let at = Location {
        step: Some(step),
        ..Location::default()
    };
    match error {
        PolicyError::NonFinite { .. } => Fault::new(
            FaultKind::LossNan,
            error.to_string(),
            "lower `lr`, lengthen `lr_warmup_steps`, or look at the step's rewards for outliers; the last checkpoint is good",
        ),
        other => Fault::internal(format!("the update of step {step} failed: {other}")),
    }
    .at(at)
}
