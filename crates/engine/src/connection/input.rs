//! From bytes to packets: finding frames, sending each to its handler, and holding back a publisher that has to wait.

use crate::ids::ShardId;
use crate::telling::reason::Reason;
use tidegate_mqtt::DecodeError;

/// Whether the next frame of the same connection may be taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Go on.
    Next,
    /// The frame stays where it is and with it all behind: it is not yet its turn.
    Hold,
    /// The client's home is another shard, where this frame and all behind it go.
    HandOver(ShardId),
}

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
