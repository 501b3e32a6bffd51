//! Why a request is not read.

/// A request that no broker carries out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRequest(String);

impl InvalidRequest {
    /// One with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// One with the path of the field.
    pub(crate) fn at(path: &str, problem: &str) -> Self {
        if path.is_empty() || path == "." { Self(problem.to_owned()) } else { Self(format!("`{path}`: {problem}")) }
    }
}
