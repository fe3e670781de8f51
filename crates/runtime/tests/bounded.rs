//! What many large calls may take of this process's memory. Alone in its file: what else ran in the
//! process would count too.

mod support;

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use paddock_types::plugin::RuntimeOverrides;
use paddock_types::{Outcome, SubKind};
use serde_json::{Value, json};
use support::{Project, call, eventually, verdict};

const SOURCE: &str = r#"
import os, time
from paddock import RolloutResult, SingleGraderResult, rollout, single_grader

@single_grader
def slow(context, sample, trajectory):
    while not os.path.exists(sample.extra["go"]):
        time.sleep(0.01)
    return SingleGraderResult(reward=len(sample.extra["text"]))

@rollout
async def large(context, proxy, sample):
    return RolloutResult(extra={"text": "x" * sample.extra["size"]})
"#;

const MIB: usize = 1 << 20;
const CALLS: usize = 2048;

/// One after the other: what one of them holds must not count for another.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.trim().strip_suffix("kB"));
    kib.and_then(|k| k.trim().parse::<usize>().ok())
        .expect("it")
        * 1024
}

fn limits(concurrency: u32, replicas: u32) -> RuntimeOverrides {
    RuntimeOverrides {
        timeout: Some(300),
        max_concurrency: Some(concurrency),
        max_replicas: Some(replicas),
        ..RuntimeOverrides::default()
    }
}

/// 2,048 calls of 1 MiB wait for two slow processes: their bodies are the caller's, and nobody
/// copies them while they wait.
#[tokio::test(flavor = "multi_thread")]
async fn large_calls_that_wait_are_not_copied() {
    let _alone = ALONE.lock().await;
    let project = Project::new(SOURCE);
    let plugin = project.start("slow", limits(2, 1)).await;
    let go = project.file("go");
    let request = call(&json!({"go": go, "text": "x".repeat(MIB)}));
    let before = resident();
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let plugin = plugin.clone();
            let mut request = request.clone();
            request.id = paddock_types::CallId::new();
            tokio::spawn(async move { plugin.call(request).await })
        })
        .collect();
    eventually("all are asked for, and two run", || {
        (plugin.in_flight() == CALLS && plugin.queued() <= CALLS - 2).then_some(())
    })
    .await;
    // What might be read ahead is read by now: two processes have had a body each.
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 * MIB, "{} MiB more are resident", grown / MIB);
    std::fs::write(&go, "").expect("written");
    for (n, verdict) in join_all(calls).await.into_iter().enumerate() {
        let verdict = verdict.expect("no panic");
        assert_eq!(verdict.rewards, [MIB as f64], "call {n}: {verdict:#?}");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 * MIB, "{} MiB stay resident", grown / MIB);
    plugin.close().await;
}

/// Answers of 4 MiB for somebody who takes 8 at a time, and is slow: no more than those few are held.
#[tokio::test(flavor = "multi_thread")]
async fn large_answers_are_held_only_as_far_as_somebody_asks() {
    let _alone = ALONE.lock().await;
    let project = Project::new(SOURCE);
    let plugin = project.start("large", limits(8, 1)).await;
    let before = resident();
    let mut most = 0;
    let calls = (0..128).map(|_| {
        let plugin = plugin.clone();
        async move { verdict(&plugin, call(&json!({"size": 4 * MIB}))).await }
    });
    let mut verdicts = futures::stream::iter(calls).buffer_unordered(8);
    while let Some(verdict) = verdicts.next().await {
        let text = verdict.extra.get("text").and_then(Value::as_str);
        assert_eq!(text.map(str::len), Some(4 * MIB), "{}", verdict.message);
        drop(verdict);
        // A slow taker: meanwhile the others may answer.
        tokio::time::sleep(Duration::from_millis(2)).await;
        most = most.max(resident().saturating_sub(before));
    }
    drop(verdicts);
    // Each of eight may be there as bytes, as a value, and once more where a buffer has grown.
    assert!(most < 256 * MIB, "{} MiB more were resident", most / MIB);
    plugin.close().await;
}

/// The limit of a request and of an answer is one number, and both say it.
#[tokio::test]
async fn what_is_over_the_limit_is_refused_with_the_limit() {
    let _alone = ALONE.lock().await;
    let mut project = Project::new(SOURCE);
    project.options.frame_limit = MIB;
    let plugin = project.start("large", limits(2, 1)).await;
    let request = verdict(&plugin, call(&json!({"text": "x".repeat(MIB)}))).await;
    assert_eq!(request.sub_kind, Some(SubKind::Raised), "{request:#?}");
    let message = &request.message;
    assert!(
        message.starts_with("the request takes 1.0 MiB: allowed are 1 MiB (frame_limit)"),
        "{message}"
    );
    let answer = verdict(&plugin, call(&json!({"size": MIB}))).await;
    assert_eq!(answer.sub_kind, Some(SubKind::Raised), "{answer:#?}");
    let message = &answer.message;
    assert!(
        message.starts_with("the answer takes 1.0 MiB: allowed are 1 MiB (frame_limit)"),
        "{message}"
    );
    let fits = verdict(&plugin, call(&json!({"size": MIB / 2}))).await;
    assert_eq!(fits.outcome, Outcome::Success, "{}", fits.message);
    plugin.close().await;
}
