//! Why a packet ends its connection.

use crate::events::reason::Reason;
use tidegate_mqtt::DecodeError;

/// Why a packet ends its connection.
#[derive(Debug)]
pub(crate) struct Refused {
    pub reason: Reason,
    pub detail: String,
}

impl From<DecodeError> for Refused {
    fn from(error: DecodeError) -> Self {
        Self { reason: Reason::of_code(error.reason_code()), detail: error.to_string() }
    }
}

impl Refused {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}
