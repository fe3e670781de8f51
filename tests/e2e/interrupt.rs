//! Ctrl-C ends a job in order: its record says so, and no process is left.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::paddock::{Project, processes_in, until, wait};

#[test]
fn an_interrupted_job_is_stopped() {
    let project = Project::new();
    project.edit(
        "plugins/reward.py",
        "    log.info",
        "    import time\n    print('here', flush=True)\n    time.sleep(600)\n    log.info",
    );
    let job = project
        .command(&["run", "project", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let pid = Pid::from_child(&job);
    until("a grader at work", || {
        let ended = project.paddock(&["logs", "--text", "here"]);
        match ended.code == 0 && ended.stdout.contains("here") {
            true => Ok(()),
            false => Err(format!("{ended:?}")),
        }
    });
    kill_process(pid, Signal::INT).expect("it is there");
    let ended = wait(job);
    assert_eq!(ended.code, 130, "{ended:#?}");
    assert_eq!(ended.last_json()["state"], "stopped");
    let record = project.paddock(&["jobs", "get", "--json"]).ok().json();
    assert_eq!(record["summary"]["state"], "stopped");
    let project_dir = project.data_dir().join("jobs");
    until("the end of every process of the job", || {
        let left = processes_in(&project_dir.to_string_lossy());
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    });
}
