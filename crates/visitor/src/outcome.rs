//! Credentials of a client, and the broker's answers to it.

use tidegate_client::{Disconnected, Dismissal, PublishError, ReasonCode};

/// The credentials of a client.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The user name.
    pub user_name: Option<String>,
    /// The password, or a token.
    pub password: Option<Vec<u8>>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user_name", &self.user_name).finish_non_exhaustive()
    }
}

/// The broker's answer to a message or a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The reason.
    pub code: ReasonCode,
    /// The reason in the broker's words.
    pub why: Option<String>,
}

/// Why the broker does not carry a request out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It has refused CONNECT with a reason.
    Refused(Outcome),
    /// It has ended the connection with a reason.
    Ended(Outcome),
    /// It has closed the connection without a reason.
    Closed,
    /// The request cannot be sent to this broker.
    Invalid(String),
    /// The listener has as many sessions as it may have.
    TooMany,
}

impl Outcome {
    /// The tenant has as many connections as it may have: the broker's refusal of a CONNECT, in the same words.
    pub fn of_quota() -> Self {
        Self { code: ReasonCode::QuotaExceeded, why: Some("the tenant's limit of connections is reached".to_owned()) }
    }
}

impl From<Dismissal> for Outcome {
    fn from(dismissal: Dismissal) -> Self {
        Self { code: dismissal.reason_code, why: dismissal.reason_string }
    }
}

impl From<Disconnected> for Failure {
    fn from(why: Disconnected) -> Self {
        match why {
            Disconnected::Refused(dismissal) => Self::Refused((*dismissal).into()),
            Disconnected::ByServer(dismissal) => Self::Ended((*dismissal).into()),
            _ => Self::Closed,
        }
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        Self::Invalid(error.to_string())
    }
}
