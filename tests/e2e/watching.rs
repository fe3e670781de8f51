//! A job can be read while it runs.

use std::process::Stdio;

use rustix::process::{Signal, kill_process};

use crate::paddock::{Project, at_work, processes_in, until, wait};

#[test]
fn a_running_job_is_seen_by_other_commands() {
    let project = Project::new();
    // The grader waits for a file, so that the job is still there to be looked at.
    let shared = project.data_dir().with_file_name("shared");
    std::fs::create_dir(&shared).expect("made");
    let gate = shared.join("gate");
    let wait_for = format!(
        "    import pathlib, time\n    while not pathlib.Path({:?}).exists():\n        time.sleep(0.02)\n    log.info",
        gate.to_string_lossy()
    );
    project.edit(
        "plugins/reward.py",
        "    log.info",
        "    log.info('waiting')\n    log.info",
    );
    project.edit(
        "plugins/reward.py",
        "    log.info('waiting')\n    log.info",
        &format!("    log.info('waiting')\n{wait_for}"),
    );
    let job = project
        .command(&["run", "project", "--json", "--steps", "1", "--share"])
        .arg(&shared)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let line = until("a waiting grader's log line", || {
        let ended = project.paddock(&["logs", "--text", "waiting", "--json"]);
        match ended.stdout.lines().next() {
            Some(line) if ended.code == 0 => Ok(line.to_owned()),
            _ => Err(format!("{ended:?}")),
        }
    });
    assert!(line.contains("\"plugin\":\"even\""), "{line}");
    let jobs = project
        .paddock(&["jobs", "list", "--state", "running", "--json"])
        .ok()
        .json();
    assert_eq!(jobs.as_array().map(Vec::len), Some(1), "{jobs:#}");
    std::fs::write(&gate, "").expect("the gate opens");
    let ended = wait(job).ok();
    assert_eq!(ended.last_json()["state"], "completed");
}

#[test]
fn a_job_whose_process_was_killed_is_seen_as_left_behind() {
    let (project, job, pid) = at_work();
    kill_process(pid, Signal::KILL).expect("it is there");
    wait(job);
    let followed = project.paddock(&["logs", "--follow"]).ok().stdout;
    assert!(followed.contains("here"), "{followed}");
    let shown = project.paddock(&["jobs", "list"]).ok().stdout;
    assert!(shown.contains("left behind"), "{shown}");
    let folder = project.data_dir().join("jobs");
    until("the end of every process of the job", || {
        let left = processes_in(&folder.to_string_lossy());
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    });
}
