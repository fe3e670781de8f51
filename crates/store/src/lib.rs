//! Paddock: store.
