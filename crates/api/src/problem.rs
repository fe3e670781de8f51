//! Errors as problem details (RFC 9457), with codes that never change.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// What kind of error it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request is wrong: an id, a filter, a cursor.
    InvalidRequest,
    /// No token, or one that opens nothing.
    Unauthorized,
    /// There is no such thing.
    NotFound,
    /// The path is right, the method isn't.
    MethodNotAllowed,
    /// A fault in Paddock itself.
    Internal,
    /// It can't be answered now: ask again.
    Unavailable,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 6] = [
        Self::InvalidRequest,
        Self::Unauthorized,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The HTTP status that goes with it.
    pub const fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthorized => 401,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }

    /// Its name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
        }
    }

    /// What it means, in a few words.
    pub const fn title(self) -> &'static str {
        match self {
            Self::InvalidRequest => "the request is wrong",
            Self::Unauthorized => "a token is needed",
            Self::NotFound => "there is no such thing",
            Self::MethodNotAllowed => "the method isn't allowed here",
            Self::Internal => "a fault in paddock itself",
            Self::Unavailable => "it can't be answered now",
        }
    }
}

/// An error as the API answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:paddock:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the code means.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened here, and what to do.
    pub detail: String,
    /// The code: what programs look at.
    pub code: Code,
}

impl Problem {
    /// A problem of this kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:paddock:problem:{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_spelt_as_it_is_serialised() {
        for code in Code::ALL {
            let json = serde_json::to_value(code).expect("a code is JSON");
            assert_eq!(json, code.as_str());
        }
    }
}
