//! Paddock: jail.
