//! The job's record: what the store says of it while it runs and afterwards.

use std::sync::Arc;
use std::time::Instant;

use paddock_store::Store;
use paddock_types::JobId;
use paddock_types::fault::Fault;
use paddock_types::job::{JobRecord, JobState, JobSummary, SampleCounts};
use paddock_types::plugin::PluginState;

use crate::prepare::Prepared;

/// The job's record, as the store keeps it.
pub(crate) struct Record {
    pub(crate) inner: JobRecord,
    pub(crate) store: Arc<dyn Store>,
    begun: Instant,
}

impl Record {
    pub(crate) fn new(job: JobId, prepared: &Prepared, store: Arc<dyn Store>) -> Self {
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

    pub(crate) async fn save(&mut self, state: JobState) -> Result<(), Fault> {
        self.inner.summary.state = state;
        self.inner.summary.seconds = self.begun.elapsed().as_secs_f64();
        self.inner.updated_ms = crate::now_ms();
        self.store.put_job(&self.inner).await.map_err(store_fault)
    }

    /// Records could not be written: the job can't be said to have completed.
    pub(crate) fn lost(&mut self, why: &str) {
        let fault = Fault::internal(format!("the job's records could not all be written: {why}"));
        self.inner.summary.fault.get_or_insert(fault);
        self.inner.summary.state = JobState::Failed;
    }
}

/// A record could not be read or written.
pub(crate) fn store_fault(error: paddock_store::StoreError) -> Fault {
    Fault::internal(format!("the store failed: {error}"))
}
