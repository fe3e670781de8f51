//! Ctrl-C ends a job in order: its record says so, and no process is left.

use rustix::process::{Signal, kill_process};

use crate::paddock::{at_work, processes_in, until, wait};

#[test]
fn an_interrupted_job_is_stopped() {
    let (project, job, pid) = at_work();
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
