//! Which Packet Identifiers the client has in use.

use std::collections::BTreeSet;

use tidegate_mqtt::PacketId;

/// The Packet Identifiers of unsettled packets of the client: messages, SUBSCRIBE and UNSUBSCRIBE packets share them
/// ([MQTT-2.2.1-3]). At most 65,535.
#[derive(Debug)]
pub(crate) struct PacketIds {
    used: BTreeSet<PacketId>,
    /// Where the search for a free one starts, so that an identifier rests for as long as possible.
    next: PacketId,
}

impl PacketIds {
    pub(crate) fn new() -> Self {
        Self { used: BTreeSet::new(), next: PacketId::MIN }
    }

    /// Takes an identifier that is not in use; `None` when all are.
    pub(crate) fn allocate(&mut self) -> Option<PacketId> {
        if self.used.len() == usize::from(PacketId::MAX.get()) {
            return None;
        }
        let mut candidate = self.next;
        while !self.used.insert(candidate) {
            candidate = candidate.next();
        }
        self.next = candidate.next();
        Some(candidate)
    }

    /// The identifier that [`Self::allocate`] takes next; `None` when all are in use.
    pub(crate) fn peek(&self) -> Option<PacketId> {
        self.unused().next()
    }

    /// Identifiers that are not in use, in the order in which they are taken; each once.
    pub(crate) fn unused(&self) -> impl Iterator<Item = PacketId> {
        let all = std::iter::successors(Some(self.next), |id| Some(id.next())).take(usize::from(PacketId::MAX.get()));
        all.filter(|id| !self.used.contains(id))
    }

    /// Releases an identifier. An unused one stays unused.
    pub(crate) fn release(&mut self, packet_id: PacketId) {
        self.used.remove(&packet_id);
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
        let mut ids = PacketIds::new();
        assert_eq!(ids.allocate(), Some(id(1)));
        ids.release(id(1));
        assert_eq!(ids.allocate(), Some(id(2)));
    }

    #[test]
    fn used_identifiers_are_skipped_after_the_wrap() {
        let mut ids = PacketIds::new();
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
}
