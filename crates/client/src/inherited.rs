//! The session of an earlier client with the same Client Identifier.
//!
//! The server may still hold Packet Identifiers of QoS 2 messages that the earlier client sent and never released. It
//! takes a new message with such an identifier for the old one, acknowledges it and delivers nothing ([MQTT-4.3.3-10]).
//! So an identifier is released with a PUBREL before its first QoS 2 message, and used once the PUBCOMP has come.

use std::collections::BTreeSet;

use tidegate_mqtt::PacketId;

use crate::packet_ids::PacketIds;

/// Identifiers that are released ahead of their use, so that messages do not wait for each of them.
const RELEASED_AHEAD: usize = 64;

/// Which identifiers the server no longer holds.
#[derive(Debug)]
pub(crate) struct Inherited {
    /// The server has answered a PUBREL for these. At most 65,535.
    free: BTreeSet<PacketId>,
    /// A PUBREL was sent for these on the present connection. At most [`RELEASED_AHEAD`].
    asked: BTreeSet<PacketId>,
}

impl Inherited {
    /// The server resumes a session: `None` where it is this client's own. Identifiers without an answer are asked again.
    pub(crate) fn resumed(before: Option<Self>, is_own: bool) -> Option<Self> {
        match before {
            Some(before) => Some(Self { asked: BTreeSet::new(), ..before }),
            None if is_own => None,
            None => Some(Self { free: BTreeSet::new(), asked: BTreeSet::new() }),
        }
    }

    /// Whether a QoS 2 message may take the next identifier, and which ones are to be released now: the next ones.
    /// They are not in use, so no PUBREL meets a message of this client.
    pub(crate) fn prepare(&mut self, ids: &PacketIds) -> (bool, Vec<PacketId>) {
        let is_free = ids.peek().is_some_and(|next| self.free.contains(&next));
        if self.free.len() == usize::from(PacketId::MAX.get()) {
            return (is_free, Vec::new());
        }
        // Half of them at once, so that a message does not cost a packet more each time.
        if is_free && self.asked.len() > RELEASED_AHEAD / 2 {
            return (is_free, Vec::new());
        }
        let room = RELEASED_AHEAD.saturating_sub(self.asked.len());
        let ahead = ids.unused().take(RELEASED_AHEAD);
        let unknown = ahead.filter(|id| !self.free.contains(id) && !self.asked.contains(id));
        let chosen: Vec<PacketId> = unknown.take(room).collect();
        self.asked.extend(&chosen);
        (is_free, chosen)
    }

    /// A PUBCOMP has come. False when it answers no PUBREL of this kind.
    pub(crate) fn answered(&mut self, id: PacketId) -> bool {
        let was_asked = self.asked.remove(&id);
        if was_asked {
            self.free.insert(id);
        }
        was_asked
    }
}
