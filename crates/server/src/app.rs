//! The routes, put together.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use paddock_api::model::ModelBackend;
use paddock_api::{Code, path};
use paddock_store::Store;

use crate::auth::{OwnerToken, require_owner};
use crate::error::ApiError;
use crate::model_proxy;
use crate::routes::{calls, jobs, logs, meta, metrics, steps, trajectories};

/// The store, as routes get at it.
pub(crate) type Shared = Arc<dyn Store>;

/// All routes.
pub(crate) fn app(
    store: Shared,
    backend: Arc<dyn ModelBackend>,
    token: OwnerToken,
    body_limit: usize,
) -> Router {
    api(store, token)
        .merge(model_proxy::routes(backend, body_limit))
        .fallback(|| async {
            ApiError::new(Code::NotFound, "no such path: see /api/v1/openapi.json")
        })
}

fn api(store: Shared, token: OwnerToken) -> Router {
    Router::new()
        .route(path::HEALTH, get(meta::health))
        .route(path::VERSION, get(meta::version))
        .route(path::OPENAPI, get(meta::openapi))
        .route(path::JOBS, get(jobs::list))
        .route(path::JOB, get(jobs::detail))
        .route(path::JOB_STEPS, get(steps::steps))
        .route(path::JOB_VALIDATIONS, get(steps::validations))
        .route(path::JOB_TRAJECTORIES, get(trajectories::list))
        .route(path::JOB_CALLS, get(calls::list))
        .route(path::JOB_LOGS, get(logs::list))
        .route(path::JOB_METRICS, get(metrics::list))
        .route(path::TRAJECTORY, get(trajectories::detail))
        .route(path::TRAJECTORY_CALLS, get(trajectories::calls))
        .route(path::CALL, get(calls::detail))
        .method_not_allowed_fallback(|| async {
            ApiError::new(Code::MethodNotAllowed, "this path only answers GET")
        })
        .route_layer(from_fn_with_state(token, require_owner))
        .with_state(store)
}
