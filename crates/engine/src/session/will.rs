//! Wills of sessions.

use crate::message::MessageRef;
use crate::now::Millis;

/// The will of a connection that is on its way here, where its client has connected again. If it comes, the client had
/// lost or replaced it, and the will is published. If not, the client was asked to connect again.
#[derive(Debug)]
pub(crate) struct FormerWill {
    pub will: Will,
    /// Until when the connection is expected; also the key of its timer.
    pub expected_until: Millis,
}

/// Connections of one client that are awaited at the same time. The will of the oldest one beyond it is not published.
pub(crate) const FORMER_WILLS_MAX: usize = 4;

/// A will, published when its connection ends without a goodbye.
#[derive(Clone, Debug)]
pub(crate) struct Will {
    pub message: MessageRef,
    /// Will Delay Interval, seconds.
    pub delay_seconds: u32,
    /// Message Expiry Interval, seconds from publication.
    pub expiry_seconds: Option<u32>,
}

impl Will {
    /// Bytes that it holds in memory.
    pub(crate) fn cost(&self) -> u64 {
        self.message.cost() + size_of::<Self>() as u64
    }
}
