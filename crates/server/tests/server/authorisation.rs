//! No endpoint answers without the right token.

use std::collections::BTreeSet;

use paddock_api::{ENDPOINTS, path};
use paddock_types::CallId;
use reqwest::{Method, RequestBuilder, StatusCode};

use crate::backend::TRAJECTORY;
use crate::fixture::{OWNER, Running};

/// Endpoints that [`cases`] leaves out. It is to stay empty.
const UNTESTED: &str = include_str!("endpoints_without_authorisation_test.txt");

struct Case {
    /// As the router has it.
    path: &'static str,
    /// With real ids.
    url: String,
    method: Method,
    /// Tokens that are good elsewhere, but not here.
    wrong: &'static [&'static str],
}

fn cases(running: &Running) -> Vec<Case> {
    let ids = [
        ("{job}", running.job.to_string()),
        ("{trajectory}", running.trajectory(0, 0).to_string()),
        ("{call}", CallId::new().to_string()),
    ];
    let api = ENDPOINTS.iter().map(|endpoint| Case {
        path: endpoint.path,
        url: ids.iter().fold(
            format!("{}{}", running.server.url(), endpoint.path),
            |url, (name, id)| url.replace(name, id),
        ),
        method: Method::GET,
        wrong: &["nonsense", TRAJECTORY],
    });
    let model = [
        (path::CHAT_COMPLETIONS, Method::POST),
        (path::MODELS, Method::GET),
    ];
    let model = model.map(|(path, method)| Case {
        path,
        url: format!("{}{path}", running.server.url()),
        method,
        wrong: &["nonsense", OWNER],
    });
    api.chain(model).collect()
}

fn request(http: &reqwest::Client, case: &Case) -> RequestBuilder {
    let request = http.request(case.method.clone(), &case.url);
    match case.method {
        Method::POST => request.body(r#"{"messages":[{"role":"user","content":"hi"}]}"#),
        _ => request,
    }
}

#[tokio::test]
async fn every_endpoint_refuses_who_bears_no_token_or_another() {
    let running = Running::start().await;
    let http = reqwest::Client::new();
    for case in cases(&running) {
        let bare = request(&http, &case).send().await.expect("an answer");
        assert_eq!(bare.status(), StatusCode::UNAUTHORIZED, "{}", case.path);
        for wrong in case.wrong {
            let answer = request(&http, &case)
                .bearer_auth(wrong)
                .send()
                .await
                .expect("an answer");
            assert_eq!(
                answer.status(),
                StatusCode::UNAUTHORIZED,
                "{} with {wrong}",
                case.path
            );
            let text = answer.text().await.expect("a body");
            assert!(
                !text.contains(OWNER) && !text.contains(TRAJECTORY),
                "{text}"
            );
        }
    }
    assert!(running.backend.asked.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn the_list_of_endpoints_without_a_test_is_empty() {
    let running = Running::start().await;
    let tested: BTreeSet<_> = cases(&running).iter().map(|case| case.path).collect();
    let document = paddock_api::openapi();
    let model = [path::CHAT_COMPLETIONS, path::MODELS];
    let all = document.paths.paths.keys().map(String::as_str).chain(model);
    let untested: Vec<_> = all.filter(|path| !tested.contains(path)).collect();
    assert_eq!(untested, UNTESTED.lines().collect::<Vec<_>>());
}

#[tokio::test]
async fn only_a_bearer_token_counts() {
    let running = Running::start().await;
    let http = reqwest::Client::new();
    let url = format!("{}{}", running.server.url(), path::JOBS);
    for (name, value) in [
        ("authorization", format!("Basic {OWNER}")),
        ("authorization", OWNER.to_owned()),
        ("x-api-key", OWNER.to_owned()),
        ("cookie", format!("token={OWNER}")),
    ] {
        let answer = http.get(&url).header(name, &value).send().await;
        let status = answer.expect("an answer").status();
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{name}: {value}");
    }
    let query = http.get(format!("{url}?token={OWNER}")).send().await;
    assert_eq!(
        query.expect("an answer").status(),
        StatusCode::UNAUTHORIZED,
        "a token in an address ends up in logs"
    );
}
