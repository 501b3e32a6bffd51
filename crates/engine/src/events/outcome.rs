//! The outcome of a message.

use crate::events::reason::Reason;

/// The outcome of a message to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    /// The node has acknowledged it, or it was written to its connection, at QoS 0.
    Delivered,
    /// The node is away, and it is kept.
    Stored,
    /// It is not delivered.
    Dropped(Reason),
}

impl DeliveryOutcome {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Stored => "stored",
            Self::Dropped(Reason::MessageExpired) => "expired",
            Self::Dropped(_) => "dropped",
        }
    }
}
