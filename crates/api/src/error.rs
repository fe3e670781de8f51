//! What can go wrong when the client asks.

use crate::Problem;

/// A request that got no answer, or an answer that is an error.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server's answer is an error.
    #[error("{}", .0.detail)]
    Problem(Problem),
    /// The server can't be reached.
    #[error("can't reach the paddock server at \"{base}\": see that it runs")]
    Unreachable {
        /// Where it should be.
        base: String,
        /// Why.
        source: reqwest::Error,
    },
    /// The answer is neither what was asked for nor a problem.
    #[error("the server at \"{base}\" answered {status} with something else than was asked for")]
    Unexpected {
        /// Where it is.
        base: String,
        /// The HTTP status.
        status: u16,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ClientError {
    /// The problem, if the server's answer is one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }
}
