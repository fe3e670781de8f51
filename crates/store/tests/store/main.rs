//! The store: the suite for its backends, and what SQLite does between processes.

mod conformance;
mod processes;
mod sqlite;
