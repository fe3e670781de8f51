//! Paddock: api.
