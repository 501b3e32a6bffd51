//! The session of an earlier client with the same Client Identifier.
//!
//! The server may still hold Packet Identifiers of QoS 2 messages that the earlier client sent and never released. It
//! takes a new message with such an identifier for the old one, acknowledges it and delivers nothing ([MQTT-4.3.3-10]).
//! So an identifier is released with a PUBREL before its first QoS 2 message, and used once the PUBCOMP has come.
//!
//! All identifiers are released before the first QoS 2 message, also identifiers beyond the range of this client: the
//! earlier client may have been of another version or may have had other settings. Some servers deliver a message when
//! its PUBREL comes, such as Mosquitto 2.0. If the identifiers were released one after the other, such an old message
//! would come behind many new ones.

use std::collections::BTreeSet;

use tidegate_mqtt::PacketId;

use crate::packet_ids::PacketIds;

/// The identifiers that the server may hold for an earlier client.
#[derive(Debug)]
pub(crate) struct Inherited {
    /// The identifiers without an answer to a PUBREL, at most 65,535. `None` before the first QoS 2 message: all of them, so
    /// that a client without QoS 2 messages needs no memory for them.
    held: Option<BTreeSet<PacketId>>,
    /// Whether a PUBREL was sent for them on the present connection.
    asked: bool,
}

impl Inherited {
    /// The server resumes a session: `None` where it is this client's own. Identifiers without an answer are asked again.
    pub(crate) fn resumed(before: Option<Self>, is_own: bool) -> Option<Self> {
        match before {
            Some(before) => Some(Self { asked: false, ..before }),
            None if is_own => None,
            None => Some(Self { held: None, asked: false }),
        }
    }

    /// Whether a QoS 2 message may take the next identifier, and which ones are to be released now. No QoS 2 message of
    /// this client has one of them, so no PUBREL meets it.
    pub(crate) fn prepare(&mut self, ids: &PacketIds) -> (bool, Vec<PacketId>) {
        let held = self.held.get_or_insert_with(|| (1..=u16::MAX).filter_map(PacketId::new).collect());
        let is_free = ids.peek().is_some_and(|next| !held.contains(&next));
        if std::mem::replace(&mut self.asked, true) {
            return (is_free, Vec::new());
        }
        (is_free, held.iter().copied().collect())
    }

    /// A PUBCOMP has come. False when it answers no PUBREL of this kind.
    pub(crate) fn answered(&mut self, id: PacketId) -> bool {
        self.held.as_mut().is_some_and(|held| held.remove(&id))
    }

    /// Whether the server holds none any more.
    pub(crate) fn is_over(&self) -> bool {
        self.held.as_ref().is_some_and(BTreeSet::is_empty)
    }
}
