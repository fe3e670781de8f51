//! Processes come and go, and nothing is left behind.

mod support;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use futures::future::join_all;
use paddock_types::Outcome;
use paddock_types::plugin::RuntimeOverrides;
use rustix::process::{Pid, Signal, getsid, kill_process};
use serde_json::json;
use support::{Project, call, eventually, gone, verdict};

const SOURCE: &str = r#"
import os, subprocess, sys, threading, time
from paddock import RolloutResult, SingleGraderResult, rollout, single_grader

def write(name, pid):
    with open(name + ".part", "w") as file:
        file.write(str(pid))
    os.rename(name + ".part", name)

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"

@single_grader
def grade(context, sample, trajectory):
    what = sample.extra["do"]
    if what == "leave":
        child = subprocess.Popen([sys.executable, "-c", STUBBORN], start_new_session=True)
        write("child", child.pid)
        write("reaper", os.getppid())
        write("slot", os.getpid())
    if what == "hang":
        time.sleep(3600)
    if what == "leave and hang":
        child = subprocess.Popen([sys.executable, "-c", STUBBORN], start_new_session=True)
        write("child", child.pid)
        write("reaper", os.getppid())
        write("slot", os.getpid())
        time.sleep(3600)
    if what == "thread":
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    if what == "until":
        while not os.path.exists(sample.extra["file"]):
            time.sleep(0.01)
    return SingleGraderResult(reward=1, metrics={"pid": os.getpid()})

@rollout
async def roll(context, proxy, sample):
    import asyncio
    if sample.extra["do"] == "hang":
        write("begun", 1)
        await asyncio.sleep(3600)
    return RolloutResult(extra={"pid": os.getpid()})
"#;

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("killed");
}

/// Every process of this test's plugins: they run in its own temporary folders.
fn children_of(pid: i32) -> Vec<i32> {
    paddock_jail::process::scan()
        .iter()
        .filter(|p| p.parent == pid && !p.ended)
        .map(|p| p.pid)
        .collect()
}

#[tokio::test]
async fn a_slot_is_used_again_and_replaced_when_a_call_left_something() {
    let project = Project::new(SOURCE);
    let plugin = project.start("grade", RuntimeOverrides::default()).await;
    let mut pids = Vec::new();
    for what in ["answer", "answer", "thread", "answer"] {
        let verdict = verdict(&plugin, call(&json!({ "do": what }))).await;
        assert_eq!(verdict.outcome, Outcome::Success, "{verdict:#?}");
        pids.push(verdict.metrics["pid"].to_string());
    }
    assert_eq!(pids[0], pids[1]);
    assert_eq!(pids[1], pids[2]);
    assert_ne!(pids[2], pids[3], "the thread's process is not used again");
    plugin.close().await;
}

#[tokio::test]
async fn a_slot_is_replaced_after_its_number_of_calls() {
    let mut project = Project::new(SOURCE);
    project.options.calls_per_slot = 3;
    let plugin = project.start("grade", RuntimeOverrides::default()).await;
    let mut pids = BTreeSet::new();
    for _ in 0..7 {
        let verdict = verdict(&plugin, call(&json!({"do": "answer"}))).await;
        pids.insert(verdict.metrics["pid"].to_string());
    }
    assert!(pids.len() >= 3, "{pids:?}");
    plugin.close().await;
}

#[tokio::test]
async fn what_a_call_leaves_running_ends_with_its_slot() {
    let project = Project::new(SOURCE);
    let plugin = project.start("grade", RuntimeOverrides::default()).await;
    let verdict = verdict(&plugin, call(&json!({"do": "leave"}))).await;
    assert_eq!(verdict.outcome, Outcome::Success, "{verdict:#?}");
    project.gone("child").await;
    project.gone("slot").await;
    plugin.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_gets_processes_up_to_the_limit() {
    let project = Project::new(SOURCE);
    let limits = RuntimeOverrides {
        max_concurrency: Some(3),
        max_replicas: Some(2),
        ..RuntimeOverrides::default()
    };
    let plugin = project.start("grade", limits).await;
    let file = project.file("go");
    let calls: Vec<_> = (0..9)
        .map(|_| {
            let (plugin, file) = (plugin.clone(), file.clone());
            let request = call(&json!({"do": "until", "file": file}));
            tokio::spawn(async move { verdict(&plugin, request).await })
        })
        .collect();
    eventually("six run and three wait", || {
        (plugin.in_flight() == 9 && plugin.queued() == 3).then_some(())
    })
    .await;
    std::fs::write(&file, "").expect("written");
    let mut pids = BTreeSet::new();
    let mut instances = BTreeSet::new();
    for verdict in join_all(calls).await {
        let verdict = verdict.expect("no panic");
        assert_eq!(verdict.outcome, Outcome::Success, "{verdict:#?}");
        pids.insert(verdict.metrics["pid"].to_string());
        instances.insert(verdict.instance);
    }
    assert_eq!(pids.len(), 6);
    assert_eq!(
        instances,
        BTreeSet::from(["grade-1".into(), "grade-2".into()])
    );
    plugin.close().await;
}

#[tokio::test]
async fn a_closed_plugin_leaves_nothing() {
    let project = Project::new(SOURCE);
    let plugin = project.start("grade", RuntimeOverrides::default()).await;
    let hanging = {
        let plugin = plugin.clone();
        tokio::spawn(async move { plugin.call(call(&json!({"do": "leave and hang"}))).await })
    };
    let child = project.pid_in("child").await;
    let (reaper, slot) = (project.pid_in("reaper").await, project.pid_in("slot").await);
    let all = [vec![reaper, slot, child], children_of(reaper)].concat();
    assert!(all.len() >= 4, "the forkserver is among them");
    plugin.close().await;
    let verdict = hanging.await.expect("no panic");
    assert!(verdict.platform, "{verdict:#?}");
    for pid in all {
        gone(pid).await;
    }
}

#[tokio::test]
async fn a_plugin_that_nobody_holds_any_more_ends() {
    let project = Project::new(SOURCE);
    let plugin = project.start("grade", RuntimeOverrides::default()).await;
    verdict(&plugin, call(&json!({"do": "leave"}))).await;
    let reaper = project.pid_in("reaper").await;
    drop(plugin);
    gone(reaper).await;
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_ends() {
    let project = Project::new(SOURCE);
    let plugin = project.start("grade", RuntimeOverrides::default()).await;
    let given_up = {
        let plugin = plugin.clone();
        tokio::spawn(async move { plugin.call(call(&json!({"do": "leave and hang"}))).await })
    };
    let (slot, child) = (project.pid_in("slot").await, project.pid_in("child").await);
    given_up.abort();
    gone(slot).await;
    gone(child).await;
    assert_eq!(plugin.in_flight(), 0);
    let next = verdict(&plugin, call(&json!({"do": "answer"}))).await;
    assert_eq!(next.outcome, Outcome::Success);
    plugin.close().await;
}

#[tokio::test]
async fn a_coroutine_that_nobody_waits_for_any_more_is_cancelled_alone() {
    let project = Project::new(SOURCE);
    let plugin = project.start("roll", RuntimeOverrides::default()).await;
    let before = verdict(&plugin, call(&json!({"do": "answer"}))).await;
    let given_up = {
        let plugin = plugin.clone();
        tokio::spawn(async move { plugin.call(call(&json!({"do": "hang"}))).await })
    };
    project.written("begun").await;
    given_up.abort();
    let after = verdict(&plugin, call(&json!({"do": "answer"}))).await;
    assert_eq!(
        before.extra["pid"], after.extra["pid"],
        "the process goes on"
    );
    plugin.close().await;
}

#[tokio::test]
async fn a_forkserver_that_was_killed_is_replaced() {
    let project = Project::new(SOURCE);
    let plugin = project.start("grade", RuntimeOverrides::default()).await;
    verdict(&plugin, call(&json!({"do": "leave"}))).await;
    let reaper = project.pid_in("reaper").await;
    project.gone("slot").await;
    // Slots lead sessions of their own; the forkserver stays in the reaper's.
    let session = |pid| getsid(Pid::from_raw(pid)).ok();
    let forkservers = children_of(reaper).into_iter();
    for child in forkservers.filter(|&child| session(child) == session(reaper)) {
        kill_process(Pid::from_raw(child).expect("a process"), Signal::KILL).expect("it is there");
        gone(child).await;
    }
    let next = verdict(&plugin, call(&json!({"do": "answer"}))).await;
    assert_eq!(next.outcome, Outcome::Success, "{next:#?}");
    plugin.close().await;
}

#[tokio::test]
async fn a_reaper_that_was_killed_is_replaced_and_its_calls_are_not_charged() {
    let project = Project::new(SOURCE);
    let plugin = project.start("grade", RuntimeOverrides::default()).await;
    let hanging = {
        let plugin = plugin.clone();
        tokio::spawn(async move { plugin.call(call(&json!({"do": "leave and hang"}))).await })
    };
    let (reaper, slot) = (project.pid_in("reaper").await, project.pid_in("slot").await);
    let fenced = support::ids(reaper).len() > 1;
    kill(reaper);
    let verdict = hanging.await.expect("no panic");
    assert!(verdict.platform, "{verdict:#?}");
    gone(slot).await;
    let next = support::verdict(&plugin, call(&json!({"do": "answer"}))).await;
    assert_eq!(next.outcome, Outcome::Success, "{next:#?}");
    // Its own session, and nobody's child any more: only the fence can hold such a process.
    if fenced {
        project.gone("child").await;
    } else {
        kill(project.pid_in("child").await);
    }
    plugin.close().await;
}

#[tokio::test]
async fn when_paddock_is_killed_everything_ends() {
    let project = Project::new(SOURCE);
    let body = String::from_utf8(call(&json!({"do": "leave and hang"})).body.to_vec());
    let mut host = Command::new(env!("CARGO_BIN_EXE_paddock-reaper-test"))
        .arg("host")
        .arg(project.path())
        .arg("acts:grade")
        .arg(project.cache())
        .arg(body.expect("text"))
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let child = project.pid_in("child").await;
    let (reaper, slot) = (project.pid_in("reaper").await, project.pid_in("slot").await);
    let all = [vec![reaper, slot, child], children_of(reaper)].concat();
    host.kill().expect("killed");
    host.wait().expect("collected");
    for pid in all {
        gone(pid).await;
    }
}
