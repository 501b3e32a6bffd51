//! PUBREL packets of the present connection that the server has not answered.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tidegate_mqtt::PacketId;

/// The PUBREL packets that were sent and not answered, and until when the next answer has to come.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    unanswered: BTreeSet<PacketId>,
    wait: Wait,
}

/// How long the next answer may take.
#[derive(Clone, Copy, Debug, Default)]
enum Wait {
    /// No answer is awaited.
    #[default]
    Nothing,
    /// The time begins when the output is written up to this position.
    Unwritten(u64),
    Until(Instant),
}

impl Releases {
    /// A PUBREL was put into the output, which ends at `end`.
    pub(crate) fn sent(&mut self, packet_id: PacketId, end: u64) {
        self.unanswered.insert(packet_id);
        if matches!(self.wait, Wait::Nothing) {
            self.wait = Wait::Unwritten(end);
        }
    }

    /// A PUBCOMP has arrived. The time for the other ones begins again when the output is written up to its end `end`.
    pub(crate) fn answered(&mut self, packet_id: PacketId, end: u64) {
        if self.unanswered.remove(&packet_id) {
            self.wait = if self.unanswered.is_empty() { Wait::Nothing } else { Wait::Unwritten(end) };
        }
    }

    /// The output is written up to a position. From there on the server may take `timeout` for its next PUBCOMP.
    pub(crate) fn written(&mut self, now: Instant, position: u64, timeout: Duration) {
        if let Wait::Unwritten(end) = self.wait
            && end <= position
        {
            self.wait = Wait::Until(now + timeout);
        }
    }

    /// The connection is over: no answer comes on it.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// When the next answer has to be there.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.wait {
            Wait::Until(deadline) => Some(deadline),
            Wait::Nothing | Wait::Unwritten(_) => None,
        }
    }

    /// A packet identifier whose PUBREL was not answered in time.
    pub(crate) fn overdue(&self, now: Instant) -> Option<PacketId> {
        self.deadline().filter(|deadline| *deadline <= now)?;
        self.unanswered.first().copied()
    }
}
