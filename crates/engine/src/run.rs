//! Runs a prepared job to its end and keeps its record true all the while.

use std::future::Future;
use std::sync::Arc;

use paddock_store::{JobLock, Store, Writer};
use paddock_types::JobId;
use paddock_types::fault::Fault;
use paddock_types::job::{JobState, JobSummary};
use paddock_types::log::Level;
use tokio::sync::mpsc::UnboundedSender;

use crate::context::{Flight, JobContext};
use crate::driver::Driver;
use crate::metrics::{self, Meter};
use crate::prepare::Prepared;
use crate::record::{Record, store_fault};
use crate::session::Sessions;
use crate::{JobEvent, start};

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
            started = start::start(&prepared, job, &job_dir, &services, &events) => started?,
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
        for warning in &prepared.warnings {
            context.warn(warning.as_str());
        }
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
