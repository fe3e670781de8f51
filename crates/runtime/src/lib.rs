//! Paddock: runtime.
