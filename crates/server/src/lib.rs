//! The HTTP side: the API over the store, and the model proxy that rollouts talk to.
//!
//! It reads the store and asks the backend; it decides nothing about a job. Every request of the
//! API bears the owner's token, on loopback too: a plugin on the host's network is no
//! administrator. A request to the model bears its trajectory's token, which opens nothing else.

mod app;
mod auth;
mod error;
mod extract;
mod model_proxy;
mod routes;
mod serve;
mod token;

pub use serve::{ServeError, ServeOptions, ServerHandle, serve};
pub use token::{TokenError, owner_token};
