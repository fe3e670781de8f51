//! The HTTP API as types: what is asked, what is answered, which errors there are, the OpenAPI
//! document, and a client. The server, the command line and the console agree through this crate.
//!
//! It holds no server: the routes are in `crates/server`. [`model`] is the seam between the model
//! proxy and whatever samples, so that the engine needs no web framework.

mod client;
mod endpoint;
mod error;
pub mod model;
mod openapi;
pub mod path;
mod problem;
mod query;
mod resource;

pub use client::Client;
pub use endpoint::{ENDPOINTS, Endpoint};
pub use error::ClientError;
pub use openapi::openapi;
pub use problem::{Code, PROBLEM_JSON, Problem};
pub use query::{
    CallQuery, JobQuery, LogOrder, LogQuery, MetricQuery, TrajectoryOptions, TrajectoryQuery,
};
pub use resource::{Health, LogEntry, MetricSeries, Page, TrajectoryDetail, Version};
