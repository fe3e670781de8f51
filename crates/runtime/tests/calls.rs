//! Calls that go well, through real processes.

mod support;

use std::collections::BTreeSet;

use futures::future::join_all;
use paddock_types::log::Level;
use paddock_types::plugin::{Concurrency, PluginKind, RuntimeOverrides};
use paddock_types::{Outcome, SubKind};
use serde_json::json;
use support::{Project, call, eventually, group_call, timeout, verdict};

const SOURCE: &str = r#"
import asyncio, logging, os, sys, threading
from paddock import (GroupGraderResult, RolloutResult, Runtime, SingleGraderResult, group_grader,
                     rollout, single_grader)

@single_grader(runtime=Runtime(timeout=30, max_concurrency=4, max_replicas=1))
def score(context, sample, trajectory):
    return SingleGraderResult(reward=sample.extra["reward"], metrics={"pid": os.getpid()})

@group_grader
def group(context, sample, trajectories):
    return GroupGraderResult(rewards=[0.5] * len(trajectories))

@rollout
async def roll(context, proxy, sample):
    await asyncio.sleep(0.01)
    return RolloutResult(extra={"n": sample.extra["n"], "pid": os.getpid()})

@rollout
def roll_in_thread(context, proxy, sample):
    barrier.wait(30)
    return RolloutResult(extra={"n": sample.extra["n"], "pid": os.getpid()})

barrier = threading.Barrier(5)

@single_grader
def envs(context, sample, trajectory):
    return SingleGraderResult(reward=1, error=",".join(sorted(os.environ)))

@single_grader
def talks(context, sample, trajectory):
    print("said " + sample.extra["word"])
    print("an error", file=sys.stderr)
    logging.getLogger("mine").warning("logged %s", sample.extra["word"])
    os.write(1, b"caf\xe9 without an end")
    for _ in range(sample.extra.get("flood", 0)):
        print("x" * 1000)
    return SingleGraderResult(reward=1)

@single_grader
def metrics(context, sample, trajectory):
    return SingleGraderResult(reward=1, metrics={"good": 1, "bad": float("nan")})
"#;

#[tokio::test]
async fn a_grader_answers_and_its_decorators_limits_are_in_force() {
    let project = Project::new(SOURCE);
    let plugin = project.start("score", RuntimeOverrides::default()).await;
    assert_eq!(plugin.kind(), PluginKind::SingleGrader);
    assert_eq!(plugin.limits().timeout, 30);
    assert_eq!(plugin.limits().concurrency, Concurrency::Process);
    let verdict = verdict(&plugin, call(&json!({"reward": 0.25}))).await;
    assert_eq!(verdict.outcome, Outcome::Success, "{verdict:?}");
    assert_eq!(verdict.rewards, [0.25]);
    assert_eq!(verdict.instance, "score-1");
    assert!(verdict.run_ms > 0.0 && verdict.queue_ms >= 0.0);
    assert!(
        verdict
            .peak_memory_bytes
            .is_some_and(|bytes| bytes > 1 << 20)
    );
    assert_eq!(plugin.in_flight(), 0);
    plugin.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_share_few_processes_and_none_is_mixed_up() {
    let project = Project::new(SOURCE);
    let plugin = project.start("score", RuntimeOverrides::default()).await;
    let verdicts = join_all((0..300).map(|n| {
        let plugin = plugin.clone();
        async move { (n, verdict(&plugin, call(&json!({"reward": n}))).await) }
    }))
    .await;
    let mut pids = BTreeSet::new();
    for (n, verdict) in verdicts {
        assert_eq!(verdict.rewards, [f64::from(n)], "{verdict:?}");
        pids.insert(verdict.metrics["pid"].to_string());
    }
    assert!(pids.len() <= 4, "four processes at most: {pids:?}");
    plugin.close().await;
}

#[tokio::test]
async fn a_group_grader_owes_a_reward_for_each_trajectory() {
    let project = Project::new(SOURCE);
    let plugin = project.start("group", RuntimeOverrides::default()).await;
    let both = verdict(&plugin, group_call(2, 2)).await;
    assert_eq!(both.rewards, [0.5, 0.5]);
    let verdict = verdict(&plugin, group_call(2, 3)).await;
    assert_eq!(verdict.sub_kind, Some(SubKind::AbnormalReward));
    assert_eq!(verdict.message, "2 rewards for 3 trajectories");
    plugin.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn async_calls_share_one_process() {
    let project = Project::new(SOURCE);
    let limits = RuntimeOverrides {
        max_concurrency: Some(100),
        ..RuntimeOverrides::default()
    };
    let plugin = project.start("roll", limits).await;
    let verdicts = join_all((0..100).map(|n| {
        let plugin = plugin.clone();
        async move { (n, verdict(&plugin, call(&json!({"n": n}))).await) }
    }))
    .await;
    let mut pids = BTreeSet::new();
    for (n, verdict) in verdicts {
        assert_eq!(verdict.extra["n"], json!(n), "{verdict:?}");
        pids.insert(verdict.extra["pid"].to_string());
    }
    assert_eq!(pids.len(), 1);
    plugin.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sync_rollouts_share_a_process_in_threads() {
    let project = Project::new(SOURCE);
    let plugin = project.start("roll_in_thread", timeout(60)).await;
    assert_eq!(plugin.limits().concurrency, Concurrency::Thread);
    // Five wait for each other: they run at once, in one process, or not at all.
    let verdicts = join_all((0..5).map(|n| {
        let plugin = plugin.clone();
        async move { verdict(&plugin, call(&json!({"n": n}))).await }
    }))
    .await;
    let pids: BTreeSet<String> = verdicts
        .iter()
        .map(|v| {
            assert_eq!(v.outcome, Outcome::Success, "{v:?}");
            v.extra["pid"].to_string()
        })
        .collect();
    assert_eq!(pids.len(), 1);
    plugin.close().await;
}

#[tokio::test]
async fn a_plugin_sees_the_variables_named_for_it_and_not_the_hosts() {
    let mut project = Project::new(SOURCE);
    project.envs.insert("OWN_KEY".into(), "1".into());
    let plugin = project.start("envs", RuntimeOverrides::default()).await;
    let verdict = verdict(&plugin, call(&json!({}))).await;
    let seen: BTreeSet<&str> = verdict.error.split(',').collect();
    assert!(seen.contains("OWN_KEY"), "{seen:?}");
    for (key, _) in std::env::vars() {
        let usual = ["PATH", "HOME", "LANG", "TMPDIR", "TZ", "PYTHONPATH"];
        let python = key.starts_with("PYTHON") || key.ends_with("_THREADS");
        assert!(
            usual.contains(&key.as_str()) || python || !seen.contains(key.as_str()),
            "{key} is the host's"
        );
    }
    plugin.close().await;
}

#[tokio::test]
async fn what_a_call_prints_and_logs_is_told_as_its_own() {
    let project = Project::new(SOURCE);
    let plugin = project.start("talks", RuntimeOverrides::default()).await;
    let request = call(&json!({"word": "hello"}));
    let id = request.id;
    verdict(&plugin, request).await;
    let lines = project.logs.lock().expect("no panic").clone();
    let find = |text: &str| {
        lines
            .iter()
            .find(|line| line.text.contains(text))
            .unwrap_or_else(|| panic!("no line \"{text}\" in {lines:?}"))
    };
    for text in [
        "said hello",
        "an error",
        "logged hello",
        "caf\u{fffd} without",
    ] {
        assert_eq!(find(text).call, Some(id), "{text}");
        assert_eq!(find(text).instance, "talks-1");
    }
    assert_eq!(find("logged hello").level, Level::Warning);
    assert_eq!(find("logged hello").logger, "mine");
    plugin.close().await;
}

#[tokio::test]
async fn a_flood_of_output_is_cut_with_a_word_and_holds_nothing_up() {
    let mut project = Project::new(SOURCE);
    project.options.log_bytes_per_call = 100_000;
    let plugin = project.start("talks", RuntimeOverrides::default()).await;
    let request = call(&json!({"word": "much", "flood": 3000}));
    let verdict = verdict(&plugin, request).await;
    assert_eq!(verdict.outcome, Outcome::Success);
    eventually("the cut is told", || {
        project
            .texts()
            .iter()
            .find(|text| text.contains("were cut"))
            .cloned()
    })
    .await;
    let kept: usize = project.texts().iter().map(String::len).sum();
    assert!(kept < 200_000, "{kept} bytes were kept");
    plugin.close().await;
}

#[tokio::test]
async fn metrics_that_are_no_numbers_are_left_out_with_a_word() {
    let project = Project::new(SOURCE);
    let plugin = project.start("metrics", RuntimeOverrides::default()).await;
    let verdict = verdict(&plugin, call(&json!({}))).await;
    assert_eq!(verdict.outcome, Outcome::Success);
    assert_eq!(verdict.metrics.len(), 1);
    let told = project
        .texts()
        .iter()
        .any(|t| t.contains("metric \"bad\" is nan"));
    assert!(told, "{:?}", project.texts());
    plugin.close().await;
}
