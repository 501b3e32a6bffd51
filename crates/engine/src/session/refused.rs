//! QoS 2 messages that were refused when others had got them already.
//!
//! A PUBREC with an error frees the packet identifier ([MQTT-4.3.3-9]). If that PUBREC is lost with its connection, the
//! client sends the message again. It must be recognised then, or those others get it twice.

use tidegate_mqtt::PacketId;

use crate::ids::SessionKey;
use crate::journal::Journal;
use crate::journal::keys::{Key, StoredSession};
use crate::session::table::Sessions;
use crate::telling::reason::Reason;
use crate::wire::{WireError, WireReader};

/// Tells messages under one packet identifier apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub u64);

/// A QoS 2 message that was refused after it was routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusedMessage {
    pub digest: Digest,
    pub reason: Reason,
}

impl RefusedMessage {
    /// As it is stored.
    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.digest.0.to_be_bytes());
        out.push(self.reason.number() as u8);
    }

    /// The same from a store.
    pub(crate) fn read(value: &[u8]) -> Result<Self, WireError> {
        let mut reader = WireReader::new(value);
        let digest = Digest(u64::from_be_bytes(reader.array("a digest")?));
        let number = usize::from(reader.u8("a reason")?);
        let reason = Reason::ALL.get(number).copied().ok_or(WireError { reading: "a reason of this version" })?;
        if reader.is_empty() { Ok(Self { digest, reason }) } else { Err(WireError { reading: "the end of a refusal" }) }
    }
}

impl Journal {
    fn put_refused(&mut self, stored: StoredSession, id: PacketId, message: RefusedMessage) {
        self.put(Key::Refused(stored, id), |out| message.write(out));
    }
}

impl Sessions {
    /// The refused message that a packet identifier stood for last.
    pub(crate) fn refused_message(&self, session: SessionKey, id: PacketId) -> Option<RefusedMessage> {
        let rare = self.get(session.0)?.rare.as_ref()?;
        rare.refused.iter().find(|(of, _)| *of == id).map(|(_, message)| *message)
    }

    /// Keeps a message that was refused after it was routed. The latest `most` are kept, the Receive Maximum of the client:
    /// it sends no further message before it has the answer to the first of so many.
    pub(crate) fn keep_refused(
        &mut self,
        journal: &mut Journal,
        session: SessionKey,
        id: PacketId,
        message: RefusedMessage,
        most: usize,
    ) {
        self.forget_refused(journal, session, id);
        let Some(session) = self.get_mut(session.0) else { return };
        let stored = session.stored;
        let refused = &mut session.rare_mut().refused;
        if refused.len() >= most
            && let Some((oldest, _)) = refused.pop_front()
            && let Some(stored) = stored
        {
            journal.delete(Key::Refused(stored, oldest));
        }
        refused.push_back((id, message));
        if let Some(stored) = stored {
            journal.put_refused(stored, id, message);
        }
    }

    /// The packet identifier stands for another message from now on.
    pub(crate) fn forget_refused(&mut self, journal: &mut Journal, session: SessionKey, id: PacketId) {
        let Some(session) = self.get_mut(session.0) else { return };
        let Some(rare) = session.rare.as_mut() else { return };
        let Some(place) = rare.refused.iter().position(|(of, _)| *of == id) else { return };
        rare.refused.remove(place);
        if let Some(stored) = session.stored {
            journal.delete(Key::Refused(stored, id));
        }
    }

    /// The next connection of the client begins anew.
    pub(crate) fn forget_all_refused(&mut self, journal: &mut Journal, session: SessionKey) {
        let Some(session) = self.get_mut(session.0) else { return };
        let Some(rare) = session.rare.as_mut() else { return };
        for (id, _) in std::mem::take(&mut rare.refused) {
            if let Some(stored) = session.stored {
                journal.delete(Key::Refused(stored, id));
            }
        }
    }
}
