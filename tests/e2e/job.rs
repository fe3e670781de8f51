//! A small job from end to end, and what is kept of it.

use serde_json::Value;

use crate::paddock::Project;

const KEYS: [&str; 9] = [
    "job",
    "state",
    "fault",
    "reward",
    "validation",
    "samples",
    "calls",
    "seconds",
    "checkpoint",
];

#[test]
fn it_trains_and_everything_can_be_read_back() {
    let project = Project::new();
    let ended = project.job(&["--seed", "3"]).ok();
    let summary = ended.last_json();
    for key in KEYS {
        assert!(summary.get(key).is_some(), "{key} in {summary:#}");
    }
    assert_eq!(summary["state"], "completed");
    assert_eq!(summary["steps"], 2);
    assert!(summary["reward"]["first"].is_number() && summary["reward"]["last"].is_number());
    assert!(
        summary["validation"]["before"].is_number() && summary["validation"]["after"].is_number()
    );
    assert_eq!(summary["samples"]["drawn"], 4);
    // Two steps of two samples of two generations, and two validations of one.
    assert_eq!(summary["calls"]["made"], 10, "{summary:#}");
    let checkpoint = std::path::PathBuf::from(summary["checkpoint"].as_str().expect("a folder"));
    assert!(
        checkpoint.join("model.safetensors").is_file(),
        "{}",
        checkpoint.display()
    );
    let id = summary["job"].as_str().expect("an id");

    let jobs = project.paddock(&["jobs", "list", "--json"]).ok().json();
    assert_eq!(jobs[0]["summary"]["job"], id);
    let job = project
        .paddock(&["jobs", "get", &id[..12], "--json"])
        .ok()
        .json();
    assert_eq!(job["summary"], summary, "the record is what was printed");
    assert_eq!(job["config"]["hyperparameters"]["seed"], 3);
    assert!(project.paddock(&["jobs", "get"]).ok().stdout.contains(id));

    let steps = project.paddock(&["steps", "--json"]).ok().json();
    assert_eq!(steps["steps"].as_array().map(Vec::len), Some(2));
    assert_eq!(steps["validations"].as_array().map(Vec::len), Some(2));

    trajectories(&project, id);
    logs(&project, id);

    goes_on_from(&project, id);
}

/// A job that starts from the last checkpoint of another, named by its id.
fn goes_on_from(project: &Project, id: &str) {
    let model = "foundation_model: {name: paddock-base, model_version: \"1\"}";
    project.edit("job.yaml", model, &format!("custom_model_id: {id}"));
    project.edit("job.yaml", "batch_size: 2", "batch_size: 2\n  lora_rank: 8");
    let ended = project.job(&["--steps", "1"]).ok();
    assert_eq!(ended.last_json()["state"], "completed");
    let warning = "job.yaml:7: hyperparameters.lora_rank has no effect";
    assert!(ended.stderr.contains(warning), "{}", ended.stderr);
}

fn trajectories(project: &Project, id: &str) {
    let train = ["trajectories", "list", id, "--phase", "train", "--json"];
    let list = project.paddock(&train).ok().json();
    let list = list.as_array().expect("a list").clone();
    assert_eq!(list.len(), 8);
    assert!(list.iter().all(|t| t["status"] == "success"), "{list:#?}");
    let step = project.paddock(&[
        "trajectories",
        "list",
        id,
        "--phase",
        "train",
        "--step",
        "2",
        "--json",
    ]);
    assert_eq!(step.ok().json().as_array().map(Vec::len), Some(4));
    let one = list[0]["id"].as_str().expect("an id");
    let whole = project
        .paddock(&["trajectories", "show", one, "--json"])
        .ok()
        .json();
    let messages = whole["conversation"]["messages"]
        .as_array()
        .expect("messages")
        .clone();
    assert_eq!(messages[0]["role"], "user");
    assert_eq!(messages[1]["role"], "assistant");
    assert_eq!(whole["rewards"]["even"], whole["reward"]);
    let trained = whole["conversation"]["tokens"]["mask"]
        .as_array()
        .expect("a mask");
    assert!(trained.contains(&Value::Bool(true)) && trained.contains(&Value::Bool(false)));
    let calls = whole["calls"].as_array().expect("calls").clone();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["verdict"]["outcome"], "success");
    let lines = whole["logs"].as_array().expect("log lines").clone();
    assert!(lines.iter().any(|l| l["logger"] == "reward"), "{lines:?}");
    let shown = project.paddock(&["trajectories", "show", one]).ok().stdout;
    assert!(
        shown.contains("assistant: ") && shown.contains("even"),
        "{shown}"
    );
    let call = calls[0]["call"].as_str().expect("an id");
    let of_call = project
        .paddock(&["logs", id, "--call", call, "--json"])
        .ok()
        .stdout;
    assert_eq!(of_call.lines().count(), 1, "{of_call}");
}

fn logs(project: &Project, id: &str) {
    let all = project
        .paddock(&["logs", id, "--plugin", "even", "--json"])
        .ok()
        .stdout;
    let lines: Vec<Value> = all
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"))
        .collect();
    let graded = lines
        .iter()
        .filter(|l| l["text"].as_str().is_some_and(|t| t.starts_with("graded ")));
    assert_eq!(graded.count(), 10, "{all}");
    let none = project
        .paddock(&["logs", id, "--text", "no such text"])
        .ok();
    assert_eq!(none.stdout, "");
    let people = project.paddock(&["logs", id, "--limit", "1"]).ok().stdout;
    assert_eq!(people.lines().count(), 1, "{people}");
}

#[test]
fn a_grader_that_raises_ends_the_job_with_its_traceback() {
    let project = Project::new();
    project.edit(
        "plugins/reward.py",
        "    log.info",
        "    print(sample['extra']['answer'])\n    log.info",
    );
    let ended = project.job(&["--steps", "1"]);
    assert_eq!(ended.code, 4, "{ended:#?}");
    let summary = ended.last_json();
    assert_eq!(summary["state"], "failed");
    let fault = &summary["fault"];
    assert_eq!(fault["kind"], "Call plugin error");
    assert_eq!(fault["sub_kind"], "500");
    assert_eq!(fault["owner"], "plugin");
    assert_eq!(fault["location"]["plugin"], "even");
    assert!(fault["location"]["call"].is_string(), "{fault:#}");
    assert!(
        fault.to_string().contains("sample['extra']['answer']"),
        "{fault:#}"
    );
    let job = project
        .paddock(&["jobs", "get", "latest", "--json"])
        .ok()
        .json();
    assert_eq!(job["plugins"]["even"], "failed");
    assert_eq!(job["summary"]["fault"], *fault);
    let shown = project.paddock(&["jobs", "get"]).ok().stdout;
    assert!(shown.contains("Call plugin error: 500"), "{shown}");
}

const TALK: &str = "\
from paddock import RolloutResult, rollout


@rollout
async def talk(context, proxy, sample):
    client = proxy.async_rollout_client()
    reply = await client.chat.completions.create(model=\"policy\", messages=sample.messages)
    print(\"the model said\", repr(reply.choices[0].message.content))
    return RolloutResult()
";

#[test]
fn without_a_network_a_rollout_still_reaches_the_model() {
    for network in [
        "network: none",
        "network: proxy\nnetwork_allow: [example.org]",
    ] {
        let project = Project::new();
        project.write("plugins/talk.py", TALK);
        project.edit(
            "job.yaml",
            "name: small\n",
            &format!("name: small\n{network}\n"),
        );
        project.edit(
            "job.yaml",
            "  graders:\n",
            "  rollout: {plugin: {name: talk, python_func: \"plugins.talk:talk\"}}\n  graders:\n",
        );
        let summary = project.job(&["--steps", "1"]).ok().last_json();
        assert_eq!(summary["state"], "completed", "{summary:#}");
        let said = project.paddock(&["logs", "--text", "the model said"]).ok();
        assert!(said.stdout.contains("the model said"), "{said:?}");
    }
}

#[test]
fn a_limited_network_without_the_fence_is_refused() {
    let project = Project::new();
    project.edit("job.yaml", "name: small\n", "name: small\nnetwork: none\n");
    let ended = project.job(&["--no-fence"]);
    assert_eq!(ended.code, 3, "{ended:#?}");
    let fault = &ended.last_json()["fault"];
    assert_eq!(fault["kind"], "Invalid value", "{fault:#}");
}
