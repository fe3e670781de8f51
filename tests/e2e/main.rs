//! The real binary, as users run it: its exit codes, what it prints, what it leaves behind.

mod bad_input;
mod explain;
mod grade;
mod help;
mod interrupt;
mod job;
mod models;
mod paddock;
mod watching;
