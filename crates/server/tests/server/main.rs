//! The server over a real port, with the typed client and with plain requests.

mod api;
mod authorisation;
mod backend;
mod chat;
mod fixture;
mod lifecycle;
