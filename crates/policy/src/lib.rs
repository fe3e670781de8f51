//! Paddock: policy.
