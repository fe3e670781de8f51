//! Memory that runs out, for real: in control groups where the host gives them, by polling everywhere.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use futures::future::join_all;
use paddock_jail::cgroup::Host;
use paddock_runtime::{Plugin, Quota};
use paddock_types::plugin::{Concurrency, RuntimeOverrides};
use paddock_types::{Outcome, SubKind, Verdict};
use serde_json::{Value, json};
use support::{Project, call, eventually, verdict};

const SOURCE: &str = r#"
import asyncio, os, signal, time
from paddock import RolloutResult, SingleGraderResult, rollout, single_grader

kept = []

def eat(mib=1 << 20):
    for _ in range(mib):
        kept.append(bytearray(b"x") * (1 << 20))

def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)

@single_grader
def grade(context, sample, trajectory):
    what = sample.extra["do"]
    if what == "eat":
        print("hungry", flush=True)
        eat()
    if what == "eat in a child":
        pid = os.fork()
        if pid == 0:
            eat()
        os.waitpid(pid, 0)
        return SingleGraderResult(reward=0)
    if what == "some":
        open(sample.extra["begun"], "w").close()
        held = [bytearray(b"x") * (1 << 20) for _ in range(sample.extra["mib"])]
        wait_for(sample.extra["file"])
    if what == "until":
        open(sample.extra["begun"], "w").close()
        wait_for(sample.extra["file"])
    if what == "kill":
        eat(8)
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "fork":
        while True:
            if os.fork() == 0:
                time.sleep(3600)
    if what == "leak":
        eat(1)
    return SingleGraderResult(reward=1, metrics={"pid": os.getpid()})

@rollout
async def roll(context, proxy, sample):
    if sample.extra["do"] == "eat":
        while not os.path.exists(sample.extra["file"]):
            await asyncio.sleep(0.01)
        eat()
    open(sample.extra["begun"], "w").close()
    while not os.path.exists(sample.extra["file"]):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    return RolloutResult()
"#;

const MIB: u64 = 1 << 20;

fn small(poll: bool) -> Project {
    let mut project = Project::new(SOURCE);
    project.options.instance_memory = Some(64 * MIB);
    project.options.poll_memory = poll;
    project.options.quota = Quota::new(u64::MAX);
    project
}

/// True if this host gives control groups; says so if not.
fn groups() -> bool {
    let probe = paddock_jail::cgroup::probe();
    if !probe.memory {
        eprintln!("SKIPPED: no memory groups: {}", probe.problem);
    }
    probe.memory
}

/// The ways that this host has.
fn ways() -> Vec<bool> {
    match groups() {
        true => vec![false, true],
        false => vec![true],
    }
}

fn one_instance(calls: u32) -> RuntimeOverrides {
    RuntimeOverrides {
        max_concurrency: Some(calls),
        max_replicas: Some(1),
        ..RuntimeOverrides::default()
    }
}

async fn act(plugin: &Plugin, what: &str) -> Verdict {
    verdict(plugin, call(&json!({ "do": what }))).await
}

fn assert_oom(verdict: &Verdict, polled: bool) {
    assert_eq!(verdict.sub_kind, Some(SubKind::Oom), "{verdict:#?}");
    assert!(!verdict.platform);
    assert!(verdict.message.contains("64 MiB"), "{}", verdict.message);
    let evidence = &verdict.evidence;
    assert_eq!(evidence["memory_limit"], json!("64 MiB"));
    assert_eq!(evidence["calls_in_flight"], json!(1));
    let by = if polled { "paddock" } else { "kernel" };
    assert_eq!(evidence["ended_by"], json!(by));
    let curve = evidence["memory_curve"].as_array();
    assert!(curve.is_some_and(|points| !points.is_empty()));
    assert!(
        evidence["peak_memory_bytes"].as_u64() > Some(32 * MIB),
        "{verdict:#?}"
    );
    assert_eq!(
        verdict.peak_memory_bytes,
        evidence["peak_memory_bytes"].as_u64()
    );
}

#[tokio::test]
async fn a_call_that_eats_all_memory_is_faas_oom_and_the_next_one_is_well() {
    for polled in ways() {
        let project = small(polled);
        let plugin = project.start("grade", one_instance(2)).await;
        let eaten = act(&plugin, "eat").await;
        assert_oom(&eaten, polled);
        assert_eq!(eaten.evidence["logs"], json!(["hungry"]));
        let well = act(&plugin, "nothing").await;
        assert_eq!(well.outcome, Outcome::Success, "{well:#?}");
        plugin.close().await;
    }
}

#[tokio::test]
async fn a_child_that_eats_all_memory_is_its_calls_whatever_that_answers() {
    for polled in ways() {
        let project = small(polled);
        let plugin = project.start("grade", one_instance(1)).await;
        assert_oom(&act(&plugin, "eat in a child").await, polled);
        let well = act(&plugin, "nothing").await;
        assert_eq!(well.outcome, Outcome::Success, "{well:#?}");
        plugin.close().await;
    }
}

#[tokio::test]
async fn a_neighbour_of_the_same_instance_goes_on() {
    for polled in ways() {
        let project = small(polled);
        let plugin = project.start("grade", one_instance(2)).await;
        let (file, begun) = (project.file("go"), project.file("begun"));
        let neighbour = {
            let plugin = plugin.clone();
            let extra = json!({"do": "until", "file": file, "begun": begun});
            tokio::spawn(async move { verdict(&plugin, call(&extra)).await })
        };
        eventually("the neighbour has begun", || begun.exists().then_some(())).await;
        assert_oom(&act(&plugin, "eat").await, polled);
        std::fs::write(&file, "").expect("written");
        let neighbour = neighbour.await.expect("no panic");
        assert_eq!(neighbour.outcome, Outcome::Success, "{neighbour:#?}");
        assert_eq!(neighbour.instance, "grade-1");
        plugin.close().await;
    }
}

#[tokio::test]
async fn a_kill_that_is_not_for_memory_stays_eof() {
    for polled in ways() {
        let project = small(polled);
        let plugin = project.start("grade", one_instance(1)).await;
        let killed = act(&plugin, "kill").await;
        assert_eq!(killed.sub_kind, Some(SubKind::Eof), "{killed:#?}");
        assert_eq!(killed.evidence["signal"], json!(9));
        if !polled {
            assert!(killed.peak_memory_bytes > Some(8 * MIB), "{killed:#?}");
        }
        plugin.close().await;
    }
}

#[tokio::test]
async fn what_several_calls_use_together_is_not_charged_at_once_and_not_let_in_again() {
    if !groups() {
        return;
    }
    let project = small(false);
    let plugin = project.start("grade", one_instance(3)).await;
    let file = project.file("go");
    let extra = |n: u32| json!({"do": "some", "mib": 22, "file": file, "begun": project.file(&format!("begun{n}"))});
    let calls: Vec<_> = (0..3).map(|n| call(&extra(n))).collect();
    let verdicts = {
        let plugin = plugin.clone();
        let calls = calls.clone();
        tokio::spawn(async move { join_all(calls.into_iter().map(|c| verdict(&plugin, c))).await })
    };
    eventually("all have begun", || {
        let mut files = (0..3).map(|n| project.file(&format!("begun{n}")));
        files.all(|file| file.exists()).then_some(())
    })
    .await;
    // There is no room for all three: the kernel ends one, or two before it sees that one was enough.
    eventually("one has gone", || (plugin.in_flight() <= 2).then_some(())).await;
    std::fs::write(&file, "").expect("written");
    let verdicts = verdicts.await.expect("no panic");
    let (well, gone): (Vec<_>, Vec<_>) =
        verdicts.iter().partition(|v| v.outcome == Outcome::Success);
    assert!(!well.is_empty() && !gone.is_empty(), "{verdicts:#?}");
    for gone in gone {
        assert!(gone.platform && gone.sub_kind.is_none(), "{gone:#?}");
        assert!(gone.message.contains("together"), "{}", gone.message);
    }
    // By now it is known that two fit and three don't: the third waits.
    let calls = (0..6).map(|n| verdict(&plugin, call(&extra(n))));
    for verdict in join_all(calls).await {
        assert_eq!(verdict.outcome, Outcome::Success, "{verdict:#?}");
    }
    plugin.close().await;
}

#[tokio::test]
async fn calls_that_share_a_process_are_called_again_and_the_one_that_eats_is_found() {
    for polled in ways() {
        let project = small(polled);
        let plugin = project.start("roll", one_instance(4)).await;
        let file = project.file("go");
        let extra = |what: &str| json!({"do": what, "file": file, "begun": project.file(what)});
        let mut calls = vec![call(&extra("wait")), call(&extra("eat"))];
        let all = |calls: Vec<_>| {
            let plugin = plugin.clone();
            tokio::spawn(
                async move { join_all(calls.into_iter().map(|c| verdict(&plugin, c))).await },
            )
        };
        let first = all(calls.clone());
        eventually("the innocent one has begun", || {
            project.file("wait").exists().then_some(())
        })
        .await;
        std::fs::write(&file, "").expect("written");
        let first = first.await.expect("no panic");
        assert!(
            first.iter().all(|v| v.platform && v.sub_kind.is_none()),
            "{first:#?}"
        );
        assert!(first[0].message.contains("64 MiB"), "{}", first[0].message);
        for call in &mut calls {
            call.attempt = 2;
        }
        let second = all(calls).await.expect("no panic");
        assert_eq!(second[0].outcome, Outcome::Success, "{second:#?}");
        assert_oom(&second[1], polled);
        plugin.close().await;
    }
}

#[tokio::test]
async fn in_a_mix_of_all_each_call_gets_its_own_verdict() {
    for polled in ways() {
        let project = small(polled);
        let limits = RuntimeOverrides {
            max_replicas: Some(2),
            ..one_instance(4)
        };
        let plugin = project.start("grade", limits).await;
        let calls = (0..48).map(|n| {
            let (what, expected) = match n % 8 {
                0 => ("eat", Some(SubKind::Oom)),
                3 => ("eat in a child", Some(SubKind::Oom)),
                5 => ("kill", Some(SubKind::Eof)),
                _ => ("nothing", None),
            };
            let plugin = &plugin;
            async move {
                let mut call = call(&json!({ "do": what }));
                loop {
                    let verdict = verdict(plugin, call.clone()).await;
                    // Two that eat at once may each have used less than half.
                    if verdict.platform && call.attempt < 10 {
                        call.attempt += 1;
                        continue;
                    }
                    assert_eq!(verdict.sub_kind, expected, "{what}: {verdict:#?}");
                    break;
                }
            }
        });
        join_all(calls).await;
        plugin.close().await;
    }
}

#[tokio::test]
async fn forks_without_end_are_bounded_and_none_is_left() {
    let probe = paddock_jail::cgroup::probe();
    if !probe.pids {
        eprintln!("SKIPPED: no limit of processes: {}", probe.problem);
        return;
    }
    let mut project = small(false);
    // Enough memory: it is the number that ends it.
    project.options.instance_memory = Some(512 * MIB);
    project.options.pids_per_slot = 30;
    let plugin = project.start("grade", one_instance(2)).await;
    let bomb = act(&plugin, "fork").await;
    assert_eq!(bomb.sub_kind, Some(SubKind::Raised), "{bomb:#?}");
    assert!(bomb.message.contains("BlockingIOError"), "{}", bomb.message);
    let well = act(&plugin, "nothing").await;
    assert_eq!(well.outcome, Outcome::Success, "{well:#?}");
    plugin.close().await;
    eventually("none of them is left", || {
        members_at(project.path()).is_empty().then_some(())
    })
    .await;
}

/// The processes whose working directory this is.
fn members_at(folder: &Path) -> Vec<i32> {
    let processes = paddock_jail::process::scan();
    let pids = processes.iter().filter(|p| !p.ended).map(|p| p.pid);
    pids.filter(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at == folder))
        .collect()
}

/// Where control groups are mounted.
fn mounts() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("read");
    let fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    fields
        .filter(|fields| fields[2].starts_with("cgroup"))
        .map(|fields| fields[1].into())
        .collect()
}

/// The groups of the processes that work in this folder.
fn groups_of(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for pid in members_at(folder) {
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        for own in groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)) {
            let places = mounts()
                .into_iter()
                .map(|root| root.join(own.trim_start_matches('/')));
            found.extend(
                places.filter(|at| at.is_dir() && at.to_string_lossy().contains("/paddock-")),
            );
        }
    }
    found
}

#[tokio::test]
async fn nothing_is_left_of_a_plugins_groups() {
    if !groups() {
        return;
    }
    let project = small(false);
    let path = project.path().canonicalize().expect("a path");
    let plugin = project.start("grade", one_instance(2)).await;
    assert_oom(&act(&plugin, "eat").await, false);
    act(&plugin, "nothing").await;
    let made = groups_of(&path);
    let has = |name: &str| made.iter().any(|at| at.to_string_lossy().contains(name));
    assert!(has("/base") && has("/i1-"), "{made:?}");
    plugin.close().await;
    for group in made {
        assert!(!group.exists(), "{group:?}");
        let top = group.ancestors().find(|at| {
            at.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("paddock-"))
        });
        assert!(top.is_some_and(|top| !top.exists()), "{top:?}");
    }
}

#[tokio::test]
async fn what_a_killed_paddock_left_is_removed_by_the_next_one() {
    if !groups() {
        return;
    }
    let project = small(false);
    let path = project.path().canonicalize().expect("a path");
    let begun = project.file("begun");
    let extra = json!({"do": "until", "begun": begun, "file": project.file("never")});
    let body = String::from_utf8(call(&extra).body.to_vec()).expect("text");
    let mut host = Command::new(env!("CARGO_BIN_EXE_paddock-reaper-test"))
        .arg("host")
        .arg(&path)
        .arg("acts:grade")
        .arg(project.cache())
        .arg(body)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    eventually("its call has begun", || begun.exists().then_some(())).await;
    let made = groups_of(&path);
    assert!(!made.is_empty());
    host.kill().expect("killed");
    host.wait().expect("collected");
    eventually("all of it is gone", || {
        // As every start does; the living groups of this test's neighbours are left alone.
        Host::find().expect("found before");
        made.iter().all(|group| !group.exists()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_import_that_eats_all_memory_makes_no_instance() {
    if !groups() {
        return;
    }
    let source = "kept = []\nwhile True:\n    kept.append(bytearray(b'x') * (1 << 20))\n";
    let mut project = Project::new(source);
    project.options.instance_memory = Some(64 * MIB);
    let fault = project
        .try_start("grade", RuntimeOverrides::default())
        .await
        .expect_err("it can't be imported");
    assert_eq!(fault.sub_kind, Some(SubKind::Create), "{fault:?}");
    assert!(
        fault.message.contains("memory size of 64 MiB"),
        "{}",
        fault.message
    );
}

#[tokio::test]
async fn memory_is_admitted_and_a_shortage_says_who_holds_it() {
    let mut project = small(true);
    project.options.quota = Quota::new(100 * MIB);
    let limits = RuntimeOverrides {
        max_concurrency: Some(1),
        max_replicas: Some(3),
        ..RuntimeOverrides::default()
    };
    let plugin = project.start("grade", limits).await;
    // No memory for a second instance: the calls wait for the first.
    let calls = (0..3).map(|_| act(&plugin, "nothing"));
    let instances: BTreeSet<String> = join_all(calls)
        .await
        .into_iter()
        .map(|v| {
            assert_eq!(v.outcome, Outcome::Success, "{v:#?}");
            v.instance
        })
        .collect();
    assert_eq!(instances, BTreeSet::from(["grade-1".to_owned()]));
    let fault = project
        .try_start("roll", limits)
        .await
        .expect_err("its one instance can't be had");
    assert_eq!(fault.sub_kind, Some(SubKind::Create));
    let expected = "no memory for an instance of 64 MiB: the quota is 100 MiB, of which 64 MiB are held (\"grade\": 1 \
                    instance, 64 MiB)";
    assert_eq!(fault.message, expected);
    assert_eq!(fault.evidence["held"][0]["plugin"], json!("grade"));
    plugin.close().await;
    project.start("roll", limits).await.close().await;
}

#[tokio::test]
async fn a_process_that_grows_from_call_to_call_is_replaced_before_it_is_too_large() {
    for polled in ways() {
        let mut project = small(polled);
        project.options.instance_memory = Some(256 * MIB);
        let limits = RuntimeOverrides {
            concurrency: Some(Concurrency::Process),
            ..one_instance(1)
        };
        let plugin = project.start("grade", limits).await;
        let mut pids = BTreeSet::new();
        for _ in 0..400 {
            let verdict = act(&plugin, "leak").await;
            assert_eq!(verdict.outcome, Outcome::Success, "{verdict:#?}");
            pids.insert(verdict.metrics.get("pid").map(Value::to_string));
        }
        assert!(pids.len() > 1, "{pids:?}");
        plugin.close().await;
    }
}
