//! Paddock: engine.
