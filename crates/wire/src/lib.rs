//! Paddock: wire.
