//! The API through the typed client: every endpoint, and its errors.

use paddock_api::{
    CallQuery, Client, Code, JobQuery, LogOrder, LogQuery, MetricQuery, Page, TrajectoryQuery, path,
};
use paddock_store::Store;
use paddock_types::id::Phase;
use paddock_types::log::Level;
use paddock_types::{CallId, JobId, Outcome, SubKind};

use crate::fixture::{OWNER, Running, job_record};

#[tokio::test]
async fn the_server_says_that_it_is_well_and_which_it_is() {
    let running = Running::start().await;
    let health = running.client.health().await.expect("an answer");
    assert_eq!(health.status, "ok");
    let version = running.client.version().await.expect("an answer");
    assert_eq!(version.api, "v1");
    let document = running.client.openapi().await.expect("an answer");
    let made = serde_json::to_value(paddock_api::openapi()).expect("JSON");
    assert_eq!(document, made);
}

#[tokio::test]
async fn a_job_is_shown_without_the_values_of_its_envs() {
    let running = Running::start().await;
    let mut expected = job_record(running.job);
    let rollout = expected.config.rollout.as_mut().expect("a rollout");
    rollout.envs.insert("KEY".to_owned(), "***".to_owned());
    let grader = &mut expected.config.graders[0].plugin;
    grader.envs.insert("OTHER".to_owned(), "***".to_owned());
    let job = running.client.job(running.job).await.expect("an answer");
    assert_eq!(job, expected);
    let list = running.client.jobs(&JobQuery::default()).await;
    assert_eq!(list.expect("an answer").items, [expected]);
}

#[tokio::test]
async fn jobs_come_in_pages_newest_first() {
    let running = Running::start().await;
    let newer = job_record(JobId::new());
    running.store.put_job(&newer).await.expect("recorded");
    let mut query = JobQuery {
        limit: Some(1),
        ..JobQuery::default()
    };
    let first = running.client.jobs(&query).await.expect("an answer");
    assert_eq!(first.items[0].summary.job, newer.summary.job);
    query.after = first.next;
    let second = running.client.jobs(&query).await.expect("an answer");
    assert_eq!(second.items[0].summary.job, running.job);
    assert_eq!(second.next, None);
}

#[tokio::test]
async fn steps_and_validations_of_a_job() {
    let running = Running::start().await;
    let steps = running.client.steps(running.job).await.expect("an answer");
    let numbers: Vec<_> = steps.iter().map(|step| step.step).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let validations = running.client.validations(running.job).await;
    assert_eq!(validations.expect("an answer")[0].trajectories, 4);
}

#[tokio::test]
async fn trajectories_are_filtered_and_paged() {
    let running = Running::start().await;
    let mut query = TrajectoryQuery {
        step: Some(1),
        phase: Some(Phase::Train),
        min_reward: Some(1.0),
        max_reward: Some(2.0),
        limit: Some(3),
        ..TrajectoryQuery::default()
    };
    let mut seen = Vec::new();
    loop {
        let page = running.client.trajectories(running.job, &query).await;
        let page = page.expect("an answer");
        seen.extend(page.items.iter().map(|t| t.id));
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let wanted = [(0, 1), (0, 2), (1, 1), (1, 2)];
    assert_eq!(seen, wanted.map(|(i, g)| running.trajectory(i, g)));
}

#[tokio::test]
async fn a_trajectory_has_its_tokens_only_on_request() {
    let running = Running::start().await;
    let id = running.trajectory(1, 3);
    let plain = running.client.trajectory(id, false).await.expect("answer");
    assert_eq!(plain.tokens, None);
    assert_eq!(plain.summary.reward, Some(3.0));
    assert_eq!(plain.messages[1].content(), "2");
    let whole = running.client.trajectory(id, true).await.expect("answer");
    let tokens = whole.tokens.expect("they were asked for");
    assert_eq!(tokens.logprobs, [0.0, -0.5, -0.25]);
}

#[tokio::test]
async fn calls_of_a_job_of_a_trajectory_and_by_id() {
    let running = Running::start().await;
    let query = CallQuery {
        outcome: Some(Outcome::Failure),
        sub_kind: Some(SubKind::Timeout),
        ..CallQuery::default()
    };
    let failed = running.client.calls(running.job, &query).await;
    let failed = failed.expect("an answer").items;
    assert_eq!(failed.len(), 2, "both attempts");
    let attempts = running.client.call(failed[0].call).await;
    assert_eq!(attempts.expect("an answer"), failed);
    let id = running.trajectory(0, 2);
    let calls = running.client.trajectory_calls(id).await;
    assert_eq!(calls.expect("an answer"), failed);
    let query = CallQuery {
        trajectory: Some(id),
        plugin: Some("reward".to_owned()),
        ..CallQuery::default()
    };
    let calls = running.client.calls(running.job, &query).await;
    assert_eq!(calls.expect("an answer").items, failed);
}

#[tokio::test]
async fn log_lines_are_filtered_and_can_be_followed() {
    let running = Running::start().await;
    let query = LogQuery {
        level: Some(Level::Warning),
        trajectory: Some(running.trajectory(0, 0)),
        text: Some("LINE".to_owned()),
        ..LogQuery::default()
    };
    let page = running.client.logs(running.job, &query).await;
    let texts: Vec<_> = page.expect("an answer").items;
    assert_eq!(texts.len(), 1);
    assert_eq!(texts[0].line.text, "line 3");
    let mut follow = LogQuery {
        order: Some(LogOrder::Arrival),
        ..LogQuery::default()
    };
    let page = running.client.logs(running.job, &follow).await;
    let last = page.expect("an answer").items.pop().expect("a line");
    follow.after = Some(last.cursor);
    let nothing = running.client.logs(running.job, &follow).await;
    assert!(nothing.expect("an answer").items.is_empty());
    running
        .store
        .put_logs(running.job, std::slice::from_ref(&last.line))
        .await
        .expect("recorded");
    let more = running.client.logs(running.job, &follow).await;
    assert_eq!(more.expect("an answer").items[0].line, last.line);
}

#[tokio::test]
async fn metrics_come_by_series() {
    let running = Running::start().await;
    let query = MetricQuery {
        plugin: Some("reward".to_owned()),
        since: Some(15),
        ..MetricQuery::default()
    };
    let series = running.client.metrics(running.job, &query).await;
    let series = series.expect("an answer");
    assert_eq!(series[0].times_ms, [20]);
    assert_eq!(series[0].values, [2.5]);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let running = Running::start().await;
    let client = &running.client;
    let nobody = JobId::new();
    let elsewhere = running.trajectory(9, 9);
    let problems = [
        client.job(nobody).await.err(),
        client.steps(nobody).await.err(),
        client.validations(nobody).await.err(),
        client
            .trajectories(nobody, &TrajectoryQuery::default())
            .await
            .err(),
        client.calls(nobody, &CallQuery::default()).await.err(),
        client.logs(nobody, &LogQuery::default()).await.err(),
        client.metrics(nobody, &MetricQuery::default()).await.err(),
        client.trajectory(elsewhere, false).await.err(),
        client.trajectory_calls(elsewhere).await.err(),
        client.call(CallId::new()).await.err(),
    ];
    for problem in problems {
        let error = problem.expect("there is no such thing");
        let problem = error.problem().expect("it is a problem");
        assert_eq!((problem.code, problem.status), (Code::NotFound, 404));
    }
}

/// Asks as a plain client, and gives status, content type and body.
async fn plain(running: &Running, path: &str) -> (u16, String, serde_json::Value) {
    let answer = reqwest::Client::new()
        .get(format!("{}{path}", running.server.url()))
        .bearer_auth(OWNER)
        .send()
        .await
        .expect("an answer");
    let status = answer.status().as_u16();
    let kind = answer.headers()["content-type"].to_str().expect("text");
    let kind = kind.to_owned();
    (status, kind, answer.json().await.expect("JSON"))
}

#[tokio::test]
async fn errors_are_problem_details() {
    let running = Running::start().await;
    let (status, kind, mut problem) = plain(&running, "/api/v1/jobs/job_x").await;
    assert_eq!((status, kind.as_str()), (400, "application/problem+json"));
    insta::assert_json_snapshot!(problem, @r#"
    {
      "type": "urn:paddock:problem:invalid_request",
      "title": "the request is wrong",
      "status": 400,
      "detail": "\"job_x\" is not a job id (they look like \"job_01k2m3n4p5q6r\")",
      "code": "invalid_request"
    }
    "#);
    problem = plain(&running, "/nowhere").await.2;
    assert_eq!(problem["code"], "not_found");
}

#[tokio::test]
async fn a_wrong_filter_is_said_not_ignored() {
    let running = Running::start().await;
    let job = path::JOB_LOGS.replace("{job}", &running.job.to_string());
    let cases = [
        (format!("{}?limit=0", path::JOBS), "1 to 1000"),
        (format!("{}?limit=1001", path::JOBS), "1 to 1000"),
        (format!("{}?state=runing", path::JOBS), "runing"),
        (format!("{}?stat=running", path::JOBS), "stat"),
        (format!("{}?after=zz", path::JOBS), "zz"),
        (format!("{}?after=1-2-3-4", path::JOBS), "1-2-3-4"),
        (format!("{job}?level=loud"), "loud"),
        (format!("{job}?trajectory=trj_1"), "trj_1"),
        (format!("{job}?since=yesterday"), "since"),
    ];
    for (path, named) in cases {
        let (status, _, problem) = plain(&running, &path).await;
        assert_eq!(status, 400, "{path}: {problem}");
        let detail = problem["detail"].as_str().expect("text");
        assert!(detail.contains(named), "{path}: {detail}");
    }
}

#[tokio::test]
async fn another_method_is_not_allowed() {
    let running = Running::start().await;
    let answer = reqwest::Client::new()
        .post(format!("{}{}", running.server.url(), path::JOBS))
        .bearer_auth(OWNER)
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status().as_u16(), 405);
    let problem: paddock_api::Problem = answer.json().await.expect("a problem");
    assert_eq!(problem.code, Code::MethodNotAllowed);
}

#[tokio::test]
async fn a_store_that_fails_is_unavailable_and_told_plainly() {
    let running = Running::start().await;
    running.store.close().await;
    let error = running.client.health().await.expect_err("it is closed");
    let problem = error.problem().expect("a problem");
    assert_eq!(problem.code, Code::Unavailable);
    let error = running.client.job(running.job).await.expect_err("closed");
    let problem = error.problem().expect("a problem");
    assert_eq!((problem.code, problem.status), (Code::Internal, 500));
}

#[tokio::test]
async fn a_client_without_a_server_says_where_it_looked() {
    let client = Client::new("http://127.0.0.1:1/", "x");
    let asked: Result<Page<_>, _> = client.jobs(&JobQuery::default()).await;
    let text = asked.expect_err("nobody is there").to_string();
    assert!(text.contains("\"http://127.0.0.1:1\""), "{text}");
}
