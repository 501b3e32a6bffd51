//! QoS 2 messages that were refused when others had got them already.
//!
//! A PUBREC with an error frees the packet identifier ([MQTT-4.3.3-9]). If that PUBREC is lost with its connection, the
//! client sends the message again. It must be recognised then, or the other subscribers get it twice.

use std::collections::VecDeque;

use tidegate_mqtt::PacketId;

use crate::events::reason::Reason;
use crate::journal::Journal;
use crate::journal::keys::{Key, StoredSession};
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
    /// The form in the store and in an image.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.digest.0.to_be_bytes());
        out.push(self.reason.number() as u8);
    }

    /// The same from a store.
    pub(crate) fn read_stored(value: &[u8]) -> Result<Self, WireError> {
        let mut reader = WireReader::new(value);
        let message = Self::read(&mut reader)?;
        if reader.is_empty() { Ok(message) } else { Err(WireError { reading: "the end of a refusal" }) }
    }

    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let digest = Digest(u64::from_be_bytes(reader.array("a digest")?));
        let number = usize::from(reader.u8("a reason")?);
        let reason = Reason::ALL.get(number).copied().ok_or(WireError { reading: "a reason of this version" })?;
        Ok(Self { digest, reason })
    }
}

impl Journal {
    pub(crate) fn put_refused(&mut self, stored: StoredSession, id: PacketId, message: RefusedMessage) {
        self.put(Key::Refused(stored, id), |out| message.write(out));
    }
}

/// The refused messages of a session by their packet identifiers, the latest last.
#[derive(Debug, Default)]
pub(crate) struct RefusedMessages(VecDeque<(PacketId, RefusedMessage)>);

impl RefusedMessages {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The messages with their packet identifiers, the latest last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PacketId, RefusedMessage)> + '_ {
        self.0.iter().copied()
    }

    /// The message that was refused last under a packet identifier.
    pub(crate) fn get(&self, id: PacketId) -> Option<RefusedMessage> {
        self.0.iter().find(|(of, _)| *of == id).map(|(_, message)| *message)
    }

    /// Adds a message from a store or an image.
    pub(crate) fn restore(&mut self, id: PacketId, message: RefusedMessage) {
        self.0.push_back((id, message));
    }

    /// Keeps a message that was refused after it was routed. The latest `most` are kept, the Receive Maximum of the
    /// client: it sends no further message before it has the answer to the first one.
    pub(crate) fn keep(
        &mut self,
        journal: &mut Journal,
        stored: Option<StoredSession>,
        (id, message): (PacketId, RefusedMessage),
        most: usize,
    ) {
        self.forget(journal, stored, id);
        while self.0.len() >= most.max(1)
            && let Some((oldest, _)) = self.0.front().copied()
        {
            self.forget(journal, stored, oldest);
        }
        self.0.push_back((id, message));
        if let Some(stored) = stored {
            journal.put_refused(stored, id, message);
        }
    }

    /// The packet identifier belongs to another message from now on.
    pub(crate) fn forget(&mut self, journal: &mut Journal, stored: Option<StoredSession>, id: PacketId) {
        let Some(place) = self.0.iter().position(|(of, _)| *of == id) else { return };
        self.0.remove(place);
        if let Some(stored) = stored {
            journal.delete(Key::Refused(stored, id));
        }
    }

    /// The client begins with a new session.
    pub(crate) fn forget_all(&mut self, journal: &mut Journal, stored: Option<StoredSession>) {
        while let Some((id, _)) = self.0.front().copied() {
            self.forget(journal, stored, id);
        }
    }
}
