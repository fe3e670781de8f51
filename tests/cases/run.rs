//! Runs a list of cases, a few at once, and tells all that don't hold together.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::caller::{self, PATIENCE, paddock};
use crate::case::{self, Case};
use crate::holds::complaints;
use crate::peer::Peer;
use crate::processes;
use crate::project::Project;

/// How long something of an attempt or of a runtime may be left after its end.
pub(crate) const GONE_WITHIN: Duration = Duration::from_secs(1);

static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// Runs the cases of a file, whose plugins are in a folder.
pub(crate) fn all(list: &Path, plugins: &Path) {
    let mut cases = case::read(list);
    for evidence in cases.iter_mut().flat_map(|case| &mut case.evidence) {
        *evidence = case::placed(evidence, plugins);
    }
    if let Ok(wanted) = std::env::var("PADDOCK_CASE") {
        cases.retain(|case| case.function.contains(&wanted));
    }
    if cases.iter().any(Case::needs_memory_limit) && !has_memory_limit() {
        cases.retain(|case| {
            let needs = case.needs_memory_limit();
            if needs {
                let function = &case.function;
                eprintln!("skipped: {function}: `paddock doctor` names no memory limit");
            }
            !needs
        });
    }
    warm_up(&cases, plugins);
    // What takes longest comes first, beside the others.
    cases.sort_by(|a, b| b.within_s.total_cmp(&a.within_s));
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    let at_once = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = one(case, plugins);
                    if !found.is_empty() {
                        let told = format!("{}:\n    {}", case.function, found.join("\n    "));
                        failed.lock().expect("no panic").push(told);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic");
    let (bad, of) = (failed.len(), cases.len());
    assert!(
        failed.is_empty(),
        "{bad} of {of} cases don't hold\n{}",
        failed.join("\n")
    );
}

/// Runs one case, and tells what doesn't hold.
fn one(case: &Case, plugins: &Path) -> Vec<String> {
    let project = Project::of(plugins);
    let peer = Peer::start();
    let mark = mark();
    let mut args = vec![
        "--json".to_owned(),
        "--request".to_owned(),
        case.requests().to_string(),
        "--calls".to_owned(),
        case.calls.to_string(),
        "--env".to_owned(),
        format!("PADDOCK_CASE_PEER={}", peer.address),
    ];
    for (key, value) in &case.envs {
        args.extend(["--env".to_owned(), format!("{key}={value}")]);
    }
    if !case.is_import() {
        let module = case.function.split(':').next().unwrap_or_default();
        project.hold_open(module, case.rollout);
        args.extend(["--then", "healthy", "--then", "holds_open"].map(str::to_owned));
    }
    let mut calls = caller::start(&project, &mark, &case.function, &args);
    let mut extra = Vec::new();
    if !case.is_import() {
        let until = std::time::Instant::now() + PATIENCE;
        while !peer.wait_for_hold(Duration::from_millis(50)) && !calls.is_over() {
            if std::time::Instant::now() > until {
                break;
            }
        }
        // The verdicts are out: what is looked for was the attempts'.
        extra = processes::extras_after(calls.pid, GONE_WITHIN);
        peer.let_go();
    }
    let ended = calls.wait();
    let mut out = complaints(case, &ended);
    if !extra.is_empty() {
        out.push(format!("left a second after the verdict: {extra:?}"));
    }
    let left = processes::left_of(&mark, project.root(), GONE_WITHIN);
    if !left.is_empty() {
        out.push(format!("left a second after the runtime closed: {left:?}"));
    }
    if let Some(line) = &case.leaves_no
        && left.iter().chain(&extra).any(|p| p.contains(line))
    {
        out.push(format!("\"{line}\" is among them"));
    }
    let files = std::fs::read_dir(project.temporary()).expect("the folder");
    let files: Vec<_> = files.flatten().map(|f| f.file_name()).collect();
    if !files.is_empty() {
        out.push(format!("temporary files are left: {files:?}"));
    }
    out
}

/// Makes the environment, so that no case's time has it in it.
fn warm_up(cases: &[Case], plugins: &Path) {
    let Some(case) = cases.iter().find(|case| !case.is_import()) else {
        return;
    };
    let project = Project::of(plugins);
    let module = case.function.split(':').next().unwrap_or_default();
    let args = ["--request", "{\"trajectories\": []}"].map(str::to_owned);
    let call = caller::start(&project, &mark(), &format!("{module}:healthy"), &args);
    let ended = call.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
}

/// A word that no other run has in its environment.
pub(crate) fn mark() -> String {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

/// What the executable itself says of this machine.
fn has_memory_limit() -> bool {
    let told = paddock().args(["doctor", "--json"]).output();
    let told = told.expect("the executable starts").stdout;
    let found: Value = serde_json::from_slice(&told).expect("JSON");
    found.get("memory_limit").is_some_and(|by| !by.is_null())
}
