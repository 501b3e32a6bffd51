//! Messages from brokers, for the subscribers of this process (BRK-25).

use super::id::MessageId;
use crate::ids::SessionKey;
use crate::journal::Journal;
use crate::journal::keys::Key;
use crate::now::Now;
use crate::orchestrator::broker_link::{Brokers, Settlement};
use crate::publish::layouts::Layouts;
use crate::session::table::Sessions;
use crate::state::ShardState;
use tidegate_mqtt::PacketId;

impl Sessions {
    /// Handles a first delivery under a packet id that is not released: the broker has forgotten its earlier message.
    /// It cannot always say so, since the CONNACK of its new session may have been lost.
    #[inline]
    pub(crate) fn forget_receipt(&mut self, journal: &mut Journal, session: SessionKey, packet_id: PacketId) {
        let Some(session) = self.get_mut(session.0) else { return };
        let stored = session.stored;
        let Some(flow) = session.flow.as_mut() else { return };
        if flow.received.is_empty() || !flow.received.remove(packet_id) {
            return;
        }
        flow.received_before = flow.received_before.min(flow.received.len());
        if let Some(stored) = stored {
            journal.delete(Key::Received(stored, packet_id));
        }
    }
}

impl Settlement {
    /// If a message is one of this process, it has returned now.
    #[expect(clippy::inline_always, reason = "a separate call costs each message of a broker 20 instructions")]
    #[inline(always)]
    pub(crate) fn note_come(
        &mut self,
        now: Now,
        state: &mut ShardState,
        layouts: &mut Layouts,
        brokers: &mut Brokers,
        id: Option<&MessageId>,
    ) {
        if let Some(id) = id
            && (self.unreturned_bytes > 0 || self.awaits_resent())
        {
            self.note_returned(now, state, layouts, brokers, id);
        }
    }
}

impl MessageId {
    /// Decides between two values of a topic: the time at which the message entered, then its number.
    pub(crate) fn version(&self) -> u64 {
        self.entered << 16 | self.number & 0xffff
    }
}

/// The version of a value; 0 where it has no id.
pub(crate) fn version_of(properties: &[u8]) -> u64 {
    MessageId::at_end_of(properties).map_or(0, |id| id.version())
}
