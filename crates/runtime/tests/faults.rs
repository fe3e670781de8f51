//! Every way in which a call goes wrong, caused for real.

mod support;

use std::collections::BTreeMap;

use futures::future::join_all;
use paddock_types::plugin::{PluginKind, RuntimeOverrides};
use paddock_types::{Outcome, SubKind, Verdict};
use serde_json::{Value, json};
use support::{Project, call, eventually, timeout, verdict};

const SOURCE: &str = r#"
import asyncio, ctypes, os, re, signal, sys, time
from paddock import RolloutResult, SingleGraderResult, rollout, single_grader

def act(what):
    if what == "exit":
        print("last words", flush=True)
        os._exit(3)
    if what == "segv":
        ctypes.string_at(0)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "sleep":
        time.sleep(3600)
    if what == "c_loop":
        re.match(r"(a+)+$", "a" * 60 + "b")
    if what == "raise":
        return {}["answer"]

@single_grader
def grade(context, sample, trajectory):
    what = sample.extra["do"]
    act(what)
    if what == "none":
        return None
    if what == "failure":
        return {"status": "failure", "error": "no key"}
    if what == "retry":
        return {"status": "retry", "error": "busy"}
    if what == "discard":
        return {"status": "discard"}
    return SingleGraderResult(reward=sample.extra.get("reward", 1))

@single_grader
def abnormal(context, sample, trajectory):
    return {"reward": {"nan": float("nan"), "inf": float("-inf"), "none": None, "text": "x"}[sample.extra["do"]]}

@rollout
async def roll(context, proxy, sample):
    what = sample.extra["do"]
    if what == "swallow":
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass
    if what == "wait":
        await asyncio.sleep(3600)
    if what == "until":
        while not os.path.exists(sample.extra["file"]):
            await asyncio.sleep(0.01)
    else:
        await asyncio.sleep(0.2)
        act(what)
    return RolloutResult(extra={"pid": os.getpid()})

@rollout
def threads(context, proxy, sample):
    what = sample.extra["do"]
    if what == "until":
        while not os.path.exists(sample.extra["file"]):
            time.sleep(0.01)
    else:
        time.sleep(0.2)
        act(what)
    return RolloutResult(extra={"pid": os.getpid()})
"#;

async fn one(function: &str, what: &str, limits: RuntimeOverrides) -> Verdict {
    let project = Project::new(SOURCE);
    let plugin = project.start(function, limits).await;
    let verdict = verdict(&plugin, call(&json!({ "do": what }))).await;
    plugin.close().await;
    verdict
}

fn text<'a>(verdict: &'a Verdict, key: &str) -> &'a str {
    verdict
        .evidence
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no \"{key}\" in {verdict:#?}"))
}

#[tokio::test]
async fn an_exit_is_eof_with_its_code_and_last_words() {
    let verdict = one("grade", "exit", RuntimeOverrides::default()).await;
    assert_eq!(verdict.sub_kind, Some(SubKind::Eof));
    assert_eq!(
        verdict.message,
        "its process ended without an answer: exit code 3"
    );
    assert_eq!(verdict.evidence["exit_code"], json!(3));
    assert_eq!(verdict.evidence["logs"], json!(["last words"]));
    assert!(!verdict.platform);
}

#[tokio::test]
async fn a_crash_is_eof_with_its_signal() {
    let verdict = one("grade", "segv", RuntimeOverrides::default()).await;
    assert_eq!(verdict.sub_kind, Some(SubKind::Eof));
    assert_eq!(verdict.evidence["signal_name"], json!("SIGSEGV"));
    assert!(
        text(&verdict, "threads").contains("acts.py"),
        "{verdict:#?}"
    );
    assert!(
        verdict.message.contains("acts.py:10 in act"),
        "{}",
        verdict.message
    );
    let verdict = one("grade", "kill", RuntimeOverrides::default()).await;
    assert_eq!(verdict.sub_kind, Some(SubKind::Eof));
    assert_eq!(verdict.evidence["signal"], json!(9));
}

#[tokio::test]
async fn a_sleep_is_timed_out_with_the_place_it_sleeps_in() {
    let verdict = one("grade", "sleep", timeout(1)).await;
    assert_eq!(verdict.sub_kind, Some(SubKind::Timeout), "{verdict:#?}");
    assert_eq!(text(&verdict, "phase"), "run");
    assert!(
        text(&verdict, "stack").contains("time.sleep(3600)"),
        "{verdict:#?}"
    );
    assert!(
        verdict.message.contains("acts.py:14 in act"),
        "{}",
        verdict.message
    );
    assert!(verdict.run_ms >= 1000.0);
}

#[tokio::test]
async fn a_loop_in_c_that_holds_the_interpreter_is_timed_out_all_the_same() {
    let verdict = one("grade", "c_loop", timeout(1)).await;
    assert_eq!(verdict.sub_kind, Some(SubKind::Timeout), "{verdict:#?}");
    // Nobody in the process could answer; the signal's handler needs nobody.
    assert!(
        text(&verdict, "threads").contains("acts.py"),
        "{verdict:#?}"
    );
}

#[tokio::test]
async fn an_exception_is_500_with_its_place() {
    let verdict = one("grade", "raise", RuntimeOverrides::default()).await;
    assert_eq!(verdict.sub_kind, Some(SubKind::Raised));
    assert_eq!(verdict.message, "KeyError: 'answer' (acts.py:18 in act)");
    assert!(
        verdict.error.contains("KeyError: 'answer'"),
        "{}",
        verdict.error
    );
}

#[tokio::test]
async fn what_is_no_result_is_500() {
    let verdict = one("grade", "none", RuntimeOverrides::default()).await;
    assert_eq!(verdict.sub_kind, Some(SubKind::Raised));
    assert!(
        verdict.message.contains("SingleGraderResult"),
        "{}",
        verdict.message
    );
    assert!(verdict.message.contains("None"), "{}", verdict.message);
}

#[tokio::test]
async fn statuses_are_told_apart() {
    let project = Project::new(SOURCE);
    let plugin = project.start("grade", RuntimeOverrides::default()).await;
    let failure = verdict(&plugin, call(&json!({"do": "failure"}))).await;
    assert_eq!(failure.sub_kind, Some(SubKind::ReturnedFailure));
    assert_eq!(failure.message, "no key");
    let retry = verdict(&plugin, call(&json!({"do": "retry"}))).await;
    assert_eq!((retry.outcome, retry.sub_kind), (Outcome::Retry, None));
    let discard = verdict(&plugin, call(&json!({"do": "discard"}))).await;
    assert_eq!(discard.outcome, Outcome::Discard);
    plugin.close().await;
}

#[tokio::test]
async fn an_abnormal_reward_is_named_and_never_a_number() {
    let project = Project::new(SOURCE);
    let plugin = project.start("abnormal", RuntimeOverrides::default()).await;
    let cases = BTreeMap::from([
        ("nan", "the reward is nan"),
        ("inf", "the reward is -inf"),
        ("none", "the reward is None"),
        ("text", "the reward is 'x' (str)"),
    ]);
    for (what, message) in cases {
        let verdict = verdict(&plugin, call(&json!({ "do": what }))).await;
        assert_eq!(
            verdict.sub_kind,
            Some(SubKind::AbnormalReward),
            "{verdict:#?}"
        );
        assert_eq!(verdict.message, message);
        assert!(verdict.rewards.is_empty());
    }
    plugin.close().await;
}

#[tokio::test]
async fn a_coroutine_that_waits_too_long_is_cancelled_and_its_neighbours_go_on() {
    let project = Project::new(SOURCE);
    let plugin = project.start("roll", timeout(1)).await;
    let file = project.file("go");
    let neighbour = {
        let plugin = plugin.clone();
        let extra = json!({"do": "until", "file": file});
        tokio::spawn(async move { verdict(&plugin, call(&extra)).await })
    };
    let slow = verdict(&plugin, call(&json!({"do": "wait"}))).await;
    assert_eq!(slow.sub_kind, Some(SubKind::Timeout), "{slow:#?}");
    assert!(text(&slow, "stack").contains("acts.py"), "{slow:#?}");
    assert_eq!(slow.evidence["blocked_loop"], json!(false));
    let neighbour = neighbour.await.expect("no panic");
    // It passes its own deadline by itself: it isn't harmed, and isn't saved either.
    assert_eq!(neighbour.sub_kind, Some(SubKind::Timeout), "{neighbour:#?}");
    let next = verdict(&plugin, call(&json!({"do": "answer"}))).await;
    assert_eq!(next.outcome, Outcome::Success);
    plugin.close().await;
}

/// One call of these goes wrong while others run beside it in the same process. The others wait
/// for a file, which is written once one of them has been called again.
async fn beside(function: &str, what: &str, limits: RuntimeOverrides) -> (Verdict, Vec<Verdict>) {
    let project = Project::new(SOURCE);
    let limits = RuntimeOverrides {
        max_concurrency: Some(8),
        max_replicas: Some(8),
        ..limits
    };
    let plugin = project.start(function, limits).await;
    let file = project.file("go");
    let until = json!({"do": "until", "file": file});
    let neighbours: Vec<_> = (0..3)
        .map(|_| {
            let (plugin, request, file) = (plugin.clone(), call(&until), file.clone());
            let go = move || std::fs::write(&file, "").expect("written");
            tokio::spawn(async move { charged(&plugin, request, go).await })
        })
        .collect();
    eventually("the neighbours run", || {
        (plugin.in_flight() == 3 && plugin.queued() == 0).then_some(())
    })
    .await;
    let guilty = charged(&plugin, call(&json!({ "do": what })), || ()).await;
    let neighbours = join_all(neighbours).await;
    plugin.close().await;
    let neighbours = neighbours.into_iter().map(|n| n.expect("no panic"));
    (guilty, neighbours.collect())
}

/// Calls again, as the engine does, as long as the attempt isn't charged.
async fn charged(
    plugin: &paddock_runtime::Plugin,
    mut request: paddock_runtime::Call,
    again: impl Fn(),
) -> Verdict {
    for _ in 0..10 {
        let verdict = verdict(plugin, request.clone()).await;
        if !verdict.platform {
            return verdict;
        }
        again();
        request.attempt += 1;
    }
    panic!("no attempt was charged")
}

fn all_well(neighbours: &[Verdict]) {
    for neighbour in neighbours {
        assert_eq!(neighbour.outcome, Outcome::Success, "{neighbour:#?}");
    }
}

/// The guilty call is overdue before its neighbours are, and can't be ended without its process.
async fn overdue_first(function: &str, what: &str) {
    let project = Project::new(SOURCE);
    let mut limits = timeout(3);
    limits.max_concurrency = Some(8);
    let plugin = project.start(function, limits).await;
    let begun = std::time::Instant::now();
    let guilty = {
        let (plugin, request) = (plugin.clone(), call(&json!({ "do": what })));
        tokio::spawn(async move { verdict(&plugin, request).await })
    };
    eventually("a good part of its time is over", || {
        (begun.elapsed().as_secs_f64() > 1.5).then_some(())
    })
    .await;
    let file = project.file("go");
    let request = call(&json!({"do": "until", "file": file}));
    let go = || std::fs::write(&file, "").expect("written");
    let neighbour = charged(&plugin, request, go).await;
    let guilty = guilty.await.expect("no panic");
    assert_eq!(guilty.sub_kind, Some(SubKind::Timeout), "{guilty:#?}");
    assert!(text(&guilty, "stack").contains("acts.py"), "{guilty:#?}");
    assert_eq!(neighbour.outcome, Outcome::Success, "{neighbour:#?}");
    plugin.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swallowed_cancellation_costs_the_process_and_not_the_neighbour() {
    overdue_first("roll", "swallow").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_hangs_costs_its_process_and_not_its_neighbour() {
    overdue_first("threads", "sleep").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_loop_is_the_blockers_fault() {
    let (guilty, neighbours) = beside("roll", "sleep", timeout(2)).await;
    assert_eq!(guilty.sub_kind, Some(SubKind::Timeout), "{guilty:#?}");
    assert!(
        text(&guilty, "stack").contains("time.sleep(3600)"),
        "{guilty:#?}"
    );
    assert_eq!(guilty.evidence["blocked_loop"], json!(true));
    all_well(&neighbours);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_held_in_c_is_found_by_calling_everyone_again_alone() {
    let (guilty, neighbours) = beside("roll", "c_loop", timeout(2)).await;
    assert_eq!(guilty.sub_kind, Some(SubKind::Timeout), "{guilty:#?}");
    all_well(&neighbours);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_in_a_shared_process_is_charged_to_the_one_that_crashes_again() {
    for function in ["roll", "threads"] {
        let (guilty, neighbours) = beside(function, "exit", timeout(60)).await;
        assert_eq!(guilty.sub_kind, Some(SubKind::Eof), "{guilty:#?}");
        assert_eq!(guilty.evidence["exit_code"], json!(3));
        all_well(&neighbours);
    }
}

#[tokio::test]
async fn time_spent_waiting_for_the_model_is_not_the_calls() {
    let project = Project::new(SOURCE);
    let plugin = project.start("roll", timeout(1)).await;
    let file = project.file("go");
    let request = call(&json!({"do": "until", "file": file}));
    let guard = request.clock.pause();
    let running = {
        let (plugin, request) = (plugin.clone(), request.clone());
        tokio::spawn(async move { verdict(&plugin, request).await })
    };
    // Longer than the timeout, by the call's own account.
    let clock = request.clock.clone();
    eventually("the model takes its time", || {
        (clock.paused(std::time::Instant::now()).as_secs() >= 2).then_some(())
    })
    .await;
    assert!(!running.is_finished(), "it has not been timed out");
    std::fs::write(&file, "").expect("written");
    let verdict = running.await.expect("no panic");
    drop(guard);
    assert_eq!(verdict.outcome, Outcome::Success, "{verdict:#?}");
    assert!(verdict.model_ms >= 2000.0 && verdict.run_ms >= verdict.model_ms - 2000.0);
    plugin.close().await;
}

#[tokio::test]
async fn waiting_for_a_slot_has_its_own_limit() {
    let project = Project::new(SOURCE);
    let limits = RuntimeOverrides {
        max_concurrency: Some(1),
        max_replicas: Some(1),
        queue_timeout: Some(1),
        timeout: Some(60),
        ..RuntimeOverrides::default()
    };
    let plugin = project.start("grade", limits).await;
    let busy = {
        let plugin = plugin.clone();
        tokio::spawn(async move { plugin.call(call(&json!({"do": "sleep"}))).await })
    };
    eventually("the only slot is taken", || {
        (plugin.in_flight() == 1 && plugin.queued() == 0).then_some(())
    })
    .await;
    let waited = verdict(&plugin, call(&json!({"do": "answer"}))).await;
    assert_eq!(waited.sub_kind, Some(SubKind::Timeout));
    assert_eq!(text(&waited, "phase"), "queue");
    assert!(waited.queue_ms >= 1000.0 && waited.run_ms == 0.0);
    busy.abort();
    plugin.close().await;
}

#[tokio::test]
async fn what_cannot_be_imported_is_a_create_fault() {
    let project = Project::new("import nothing_like_this\n");
    let fault = project
        .try_start("grade", RuntimeOverrides::default())
        .await
        .expect_err("it can't start");
    assert_eq!(fault.sub_kind, Some(SubKind::Create));
    assert!(fault.message.contains("nothing_like_this"), "{fault:#?}");
    assert_eq!(fault.evidence["stage"], json!("import"));
    assert_eq!(fault.location.plugin.as_deref(), Some("grade"));
    let project = Project::new(SOURCE);
    let fault = project
        .try_start("grad", RuntimeOverrides::default())
        .await
        .expect_err("it can't start");
    assert!(
        fault.message.contains("did you mean \"grade\""),
        "{fault:#?}"
    );
}

#[tokio::test]
async fn an_import_that_ends_the_process_or_never_ends_is_a_create_fault() {
    let project = Project::new("import os\nprint('bye', flush=True)\nos._exit(9)\n");
    let fault = project
        .try_start("grade", RuntimeOverrides::default())
        .await
        .expect_err("it can't start");
    assert_eq!(fault.sub_kind, Some(SubKind::Create), "{fault:#?}");
    assert!(fault.message.ends_with("exit code 9"), "{fault:#?}");
    assert_eq!(fault.evidence["exit_code"], json!(9));
    assert_eq!(fault.evidence["logs"], json!(["bye"]));
    let mut project = Project::new("import time\ntime.sleep(3600)\n");
    project.options.import_timeout = std::time::Duration::from_millis(300);
    let fault = project
        .try_start("grade", RuntimeOverrides::default())
        .await
        .expect_err("it can't start");
    assert!(fault.message.contains("took longer"), "{fault:#?}");
}

#[tokio::test]
async fn a_wrong_kind_is_said() {
    let project = Project::new(SOURCE);
    let plugin = project.start("grade", RuntimeOverrides::default()).await;
    assert_eq!(plugin.kind(), PluginKind::SingleGrader);
    plugin.close().await;
    let limits = RuntimeOverrides {
        max_replicas: Some(0),
        ..RuntimeOverrides::default()
    };
    let fault = project
        .try_start("grade", limits)
        .await
        .expect_err("no instance");
    assert!(fault.message.contains("max_replicas"), "{fault:#?}");
}
