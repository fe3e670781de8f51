//! Runs a prepared job to its end and keeps its record true all the while.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use paddock_policy::{PolicyError, Progress};
use paddock_store::{JobLock, Store, Writer};
use paddock_types::JobId;
use paddock_types::fault::{Fault, FaultKind, Location};
use paddock_types::id::Phase;
use paddock_types::job::{JobConfig, JobRecord, JobState, JobSummary, SampleCounts};
use paddock_types::log::Level;
use paddock_types::plugin::PluginState;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc::UnboundedSender;

use crate::context::{Flight, JobContext};
use crate::metrics::{self, Meter};
use crate::plan::{self, Work};
use crate::prepare::Prepared;
use crate::runner::{Outcomes, Runner};
use crate::session::Sessions;
use crate::{JobEvent, checkpoints, start, train};

/// What a job needs of the process it runs in.
pub struct Services {
    /// Where records are read from and jobs are kept.
    pub store: Arc<dyn Store>,
    /// Where records go.
    pub writer: Writer,
    /// The sessions that the model proxy serves.
    pub sessions: Sessions,
    /// Base URL of the model proxy, ending in `/v1`.
    pub proxy_url: String,
}

/// Runs a job until it completes, fails, or `stop` is done. A fault is in the summary.
pub async fn run(
    prepared: Prepared,
    services: Services,
    events: UnboundedSender<JobEvent>,
    stop: impl Future<Output = ()>,
) -> JobSummary {
    let job = JobId::new();
    let mut record = Record::new(job, &prepared, services.store.clone());
    let job_dir = prepared.options.data_dir.join("jobs").join(job.to_string());
    // Until the last record is written: a job that has no holder was left behind.
    let mut held = None;
    tokio::pin!(stop);
    let ended = async {
        held = Some(JobLock::acquire(&prepared.options.data_dir, job).map_err(store_fault)?);
        record.save(JobState::Preparing).await?;
        let started = tokio::select! {
            started = start::start(&prepared, job, &job_dir, &services.writer, &events) => started?,
            () = &mut stop => return Ok(JobState::Stopped),
        };
        let context = Arc::new(JobContext {
            job,
            config: prepared.config.clone(),
            policy: started.policy,
            rollout: started.rollout,
            graders: started.graders,
            sessions: services.sessions.clone(),
            proxy_url: services.proxy_url.clone(),
            writer: services.writer.clone(),
            events: events.clone(),
            calls: std::sync::Mutex::default(),
            flight: Flight::default(),
            meter: Meter::default(),
        });
        context.log(Level::Info, format!("code {} runs", started.code));
        let mut driver = Driver {
            context,
            prepared: &prepared,
            record: &mut record,
            job_dir,
        };
        let watched = driver.context.clone();
        let ended = tokio::select! {
            ended = driver.drive() => ended,
            fault = measure(&watched, services.store.as_ref()) => Err(fault),
            error = services.writer.failed() => {
                Err(Fault::internal(format!("the job's records can't be written: {error}")))
            }
            () = &mut stop => Ok(JobState::Stopped),
        };
        driver.close(&ended).await;
        if ended.is_ok() {
            write_window(&watched, services.store.as_ref()).await?;
        }
        ended
    }
    .await;
    let state = match ended {
        Ok(state) => state,
        Err(fault) => {
            record.inner.summary.fault = Some(fault);
            JobState::Failed
        }
    };
    if let Err(error) = services.writer.flush().await {
        record.lost(&error.to_string());
    }
    let state = if record.inner.summary.fault.is_some() {
        JobState::Failed
    } else {
        state
    };
    if let Err(fault) = record.save(state).await {
        record.lost(&fault.message);
    }
    drop(held);
    record.inner.summary
}

/// Writes the plugins' numbers window after window; comes back only with a fault.
async fn measure(context: &JobContext, store: &dyn Store) -> Fault {
    let mut clock = tokio::time::interval(metrics::WINDOW);
    clock.tick().await;
    loop {
        clock.tick().await;
        if let Err(fault) = write_window(context, store).await {
            return fault;
        }
    }
}

async fn write_window(context: &JobContext, store: &dyn Store) -> Result<(), Fault> {
    let plugins: Vec<(String, usize)> = context
        .plugins()
        .map(|p| (p.name().to_owned(), p.in_flight()))
        .collect();
    for (plugin, points) in context.meter.window(&plugins) {
        store
            .put_metrics(context.job, &plugin, &points)
            .await
            .map_err(store_fault)?;
    }
    Ok(())
}

/// The job's record, as the store keeps it.
struct Record {
    inner: JobRecord,
    store: Arc<dyn Store>,
    begun: Instant,
}

impl Record {
    fn new(job: JobId, prepared: &Prepared, store: Arc<dyn Store>) -> Self {
        let now = crate::now_ms();
        let summary = JobSummary {
            job,
            name: prepared.config.name.clone(),
            state: JobState::Queued,
            fault: None,
            steps: 0,
            reward: Default::default(),
            validation: Default::default(),
            samples: SampleCounts {
                invalid_rows: prepared.data.invalid_rows,
                ..SampleCounts::default()
            },
            calls: Default::default(),
            seconds: 0.0,
            checkpoint: None,
        };
        let names = prepared.config.plugins().map(|plugin| plugin.name.clone());
        let inner = JobRecord {
            summary,
            config: prepared.config.clone(),
            project_dir: prepared.project.display().to_string(),
            created_ms: now,
            updated_ms: now,
            plugins: names.map(|name| (name, PluginState::Waiting)).collect(),
        };
        Self {
            inner,
            store,
            begun: Instant::now(),
        }
    }

    async fn save(&mut self, state: JobState) -> Result<(), Fault> {
        self.inner.summary.state = state;
        self.inner.summary.seconds = self.begun.elapsed().as_secs_f64();
        self.inner.updated_ms = crate::now_ms();
        self.store.put_job(&self.inner).await.map_err(store_fault)
    }

    /// Records could not be written: the job can't be said to have completed.
    fn lost(&mut self, why: &str) {
        let fault = Fault::internal(format!("the job's records could not all be written: {why}"));
        self.inner.summary.fault.get_or_insert(fault);
        self.inner.summary.state = JobState::Failed;
    }
}

fn store_fault(error: paddock_store::StoreError) -> Fault {
    Fault::internal(format!("the store failed: {error}"))
}

struct Driver<'a> {
    context: Arc<JobContext>,
    prepared: &'a Prepared,
    record: &'a mut Record,
    job_dir: PathBuf,
}

impl Driver<'_> {
    async fn drive(&mut self) -> Result<JobState, Fault> {
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
    async fn close(&mut self, ended: &Result<JobState, Fault>) {
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
