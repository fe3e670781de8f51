//! Paddock: server.
