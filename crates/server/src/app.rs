//! The routes, put together.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get};
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

/// The API's paths, and what answers them.
fn table() -> [(&'static str, MethodRouter<Shared>); 14] {
    [
        (path::HEALTH, get(meta::health)),
        (path::VERSION, get(meta::version)),
        (path::OPENAPI, get(meta::openapi)),
        (path::JOBS, get(jobs::list)),
        (path::JOB, get(jobs::detail)),
        (path::JOB_STEPS, get(steps::steps)),
        (path::JOB_VALIDATIONS, get(steps::validations)),
        (path::JOB_TRAJECTORIES, get(trajectories::list)),
        (path::JOB_CALLS, get(calls::list)),
        (path::JOB_LOGS, get(logs::list)),
        (path::JOB_METRICS, get(metrics::list)),
        (path::TRAJECTORY, get(trajectories::detail)),
        (path::TRAJECTORY_CALLS, get(trajectories::calls)),
        (path::CALL, get(calls::detail)),
    ]
}

fn api(store: Shared, token: OwnerToken) -> Router {
    let routes = table().into_iter();
    routes
        .fold(Router::new(), |router, (path, answers)| {
            router.route(path, answers)
        })
        .method_not_allowed_fallback(|| async {
            ApiError::new(Code::MethodNotAllowed, "this path only answers GET")
        })
        .route_layer(from_fn_with_state(token, require_owner))
        .with_state(store)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use paddock_api::ENDPOINTS;

    #[test]
    fn every_endpoint_has_a_route_and_every_route_an_endpoint() {
        let routed: BTreeSet<_> = super::table().iter().map(|(path, _)| *path).collect();
        let documented: BTreeSet<_> = ENDPOINTS.iter().map(|endpoint| endpoint.path).collect();
        assert_eq!(routed, documented);
    }
}
