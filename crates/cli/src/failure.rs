//! How a command ends: its exit code, and what is said about it.

use std::io;
use std::process::ExitCode;

use paddock_store::StoreError;
use paddock_types::Fault;

use crate::fault;

/// What a command comes back with.
pub(crate) type Done = Result<ExitCode, Failure>;

/// The exit code of a command that was interrupted.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong, or names what isn't there.
    Usage(String),
    /// A fault with its kind.
    Fault(Box<Fault>),
    /// Whoever reads our output has gone: nothing more is to be said.
    Gone,
}

impl Failure {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoStore { .. } | StoreError::BadCursor { .. } => {
                Self::Usage(error.to_string())
            }
            other => other.to_fault().into(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Gone,
            _ => Fault::internal(format!("the output can't be written: {error}")).into(),
        }
    }
}

/// An error with all its sources.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push_str(": ");
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

/// Says why a command ended, and turns it into the exit code.
pub(crate) fn exit(done: Done) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(Failure::Gone) => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            eprintln!("error: {text}");
            ExitCode::from(2)
        }
        Err(Failure::Fault(fault)) => {
            eprint!("{}", fault::report(&fault));
            ExitCode::from(fault.kind.exit_code())
        }
    }
}
