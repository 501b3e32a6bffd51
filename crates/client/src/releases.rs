//! PUBREL packets of the present connection that the server has not answered.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tidegate_mqtt::PacketId;

/// The PUBREL packets that were sent and not answered, and until when the next answer has to come.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    unanswered: BTreeSet<PacketId>,
    deadline: Option<Instant>,
}

impl Releases {
    /// A PUBREL was sent. The server may take `timeout` for its next PUBCOMP.
    pub(crate) fn sent(&mut self, now: Instant, packet_id: PacketId, timeout: Duration) {
        self.unanswered.insert(packet_id);
        self.deadline.get_or_insert(now + timeout);
    }

    /// A PUBCOMP has arrived. The other ones may take as long again.
    pub(crate) fn answered(&mut self, now: Instant, packet_id: PacketId, timeout: Duration) {
        if self.unanswered.remove(&packet_id) {
            self.deadline = (!self.unanswered.is_empty()).then(|| now + timeout);
        }
    }

    /// The connection is over: no answer comes on it.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// When the next answer has to be there.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// A packet identifier whose PUBREL was not answered in time.
    pub(crate) fn overdue(&self, now: Instant) -> Option<PacketId> {
        self.deadline.filter(|deadline| *deadline <= now)?;
        self.unanswered.first().copied()
    }
}
