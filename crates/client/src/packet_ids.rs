//! The Packet Identifiers that the client has in use.

use std::collections::BTreeSet;

use tidegate_mqtt::PacketId;

/// The Packet Identifiers of unsettled packets of the client: messages, SUBSCRIBE and UNSUBSCRIBE packets share them
/// ([MQTT-2.2.1-3]). At most 65,535.
///
/// Messages take identifiers of a small range. Some servers deliver a QoS 2 message only when its identifier is used again;
/// with a small range that is soon.
#[derive(Debug)]
pub(crate) struct PacketIds {
    used: BTreeSet<PacketId>,
    /// The start of the search for a free one, so that an identifier rests for as long as possible.
    next: PacketId,
    /// The largest identifier of a message.
    last: PacketId,
    /// The start of the search for one beyond the range.
    next_beyond: PacketId,
}

impl PacketIds {
    /// Messages take identifiers up to `last`.
    pub(crate) fn new(last: PacketId) -> Self {
        Self { used: BTreeSet::new(), next: PacketId::MIN, last, next_beyond: last.next() }
    }

    /// Takes an identifier for a message; `None` when all of its range are in use.
    pub(crate) fn allocate(&mut self) -> Option<PacketId> {
        let id = self.peek()?;
        self.used.insert(id);
        self.next = self.following(id);
        Some(id)
    }

    /// Takes an identifier for another packet; `None` when all are in use.
    pub(crate) fn allocate_for_request(&mut self) -> Option<PacketId> {
        if let Some(id) = self.allocate() {
            return Some(id);
        }
        if self.used.len() == usize::from(PacketId::MAX.get()) {
            return None;
        }
        let mut id = self.next_beyond;
        while !self.used.insert(id) {
            id = id.next();
        }
        self.next_beyond = id.next();
        Some(id)
    }

    /// The identifier that [`Self::allocate`] takes next; `None` when all of its range are in use.
    pub(crate) fn peek(&self) -> Option<PacketId> {
        let all = std::iter::successors(Some(self.next), |id| Some(self.following(*id)));
        all.take(usize::from(self.last.get())).find(|id| !self.used.contains(id))
    }

    /// Releases an identifier. An unused one stays unused.
    pub(crate) fn release(&mut self, packet_id: PacketId) {
        self.used.remove(&packet_id);
    }

    fn following(&self, id: PacketId) -> PacketId {
        if id < self.last { id.next() } else { PacketId::MIN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u16) -> PacketId {
        PacketId::new(number).unwrap()
    }

    #[test]
    fn identifiers_rest_before_they_are_used_again() {
        let mut ids = PacketIds::new(PacketId::MAX);
        assert_eq!(ids.allocate(), Some(id(1)));
        ids.release(id(1));
        assert_eq!(ids.allocate(), Some(id(2)));
    }

    #[test]
    fn used_identifiers_are_skipped_after_the_wrap() {
        let mut ids = PacketIds::new(PacketId::MAX);
        for number in 1..=u16::MAX {
            assert_eq!(ids.allocate(), Some(id(number)));
        }
        assert_eq!(ids.allocate(), None);
        ids.release(id(7));
        ids.release(id(9));
        assert_eq!(ids.allocate(), Some(id(7)));
        assert_eq!(ids.allocate(), Some(id(9)));
        assert_eq!(ids.allocate(), None);
    }

    #[test]
    fn messages_take_identifiers_of_a_small_range() {
        let mut ids = PacketIds::new(id(2));
        assert_eq!([ids.allocate(), ids.allocate(), ids.allocate()], [Some(id(1)), Some(id(2)), None]);
        assert_eq!(ids.allocate_for_request(), Some(id(3)));
        ids.release(id(1));
        assert_eq!(ids.allocate_for_request(), Some(id(1)));
        assert_eq!(ids.allocate_for_request(), Some(id(4)));
    }
}
