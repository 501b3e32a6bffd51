//! Messages for other members that no broker brings again: this process has delivered them without a broker. They are in
//! the store until the other members have them.

use std::collections::BTreeMap;

use crate::durable::crossing::Way;
use crate::ids::Partitions;
use crate::journal::Journal;
use crate::journal::keys::Key;
use crate::message::MessageRef;
use crate::orchestrator::broker_link::id::MessageId;
use tidegate_mqtt::QoS;

/// Bytes of all last copies in the store of a process. Beyond it further messages are forwarded from memory only, so a
/// restart loses them.
const LAST_COPIES_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A last copy of an earlier life of this process, or of a dead orchestrator.
#[derive(Debug)]
pub(crate) struct LastCopy {
    /// The dead orchestrator that had kept it; `None` where this one had.
    pub(crate) of: Option<Box<str>>,
    /// The partitions that had left; none where it is of a dead orchestrator.
    pub(crate) partitions: Partitions,
    pub(crate) id: Option<MessageId>,
    pub(crate) message: MessageRef,
    /// Its number in the store; `None` where it is in memory only.
    pub(crate) number: Option<u64>,
}

/// The last copies in the store.
#[derive(Debug, Default)]
pub(crate) struct StoredCopies {
    /// The bytes of each, by its number.
    costs: BTreeMap<u64, u64>,
    bytes: u64,
}

impl StoredCopies {
    /// Stores a message above QoS 0 with its id at the end of its properties. Returns its number; `None` without a store
    /// or beyond the limit.
    pub(crate) fn put(
        &mut self,
        journal: &mut Journal,
        way: &Way,
        id: Option<&MessageId>,
        message: &MessageRef,
    ) -> Option<u64> {
        let cost = message.cost();
        let is_full = self.bytes.saturating_add(cost) > LAST_COPIES_MAX_BYTES;
        if !journal.is_on() || message.qos == QoS::AtMostOnce || is_full {
            return None;
        }
        let mut properties = message.properties().to_vec();
        if let Some(id) = id {
            id.append(&mut properties);
        }
        let number = journal.put_crossing(&message.publication().with_properties(&properties), way);
        self.costs.insert(number, cost);
        self.bytes += cost;
        Some(number)
    }

    /// Stores a message that the dead orchestrator `of` had kept.
    pub(crate) fn put_of_dead(
        &mut self,
        journal: &mut Journal,
        of: &str,
        id: Option<&MessageId>,
        message: &MessageRef,
    ) -> LastCopy {
        let (of, partitions) = (Some(Box::from(of)), Partitions::NONE);
        let number = self.put(journal, &Way::ForLeft { of: of.clone(), partitions }, id, message);
        LastCopy { of, partitions, id: id.copied(), message: message.clone(), number }
    }

    /// Stores a last copy of an earlier process again; its message has its id at the end of its properties.
    pub(crate) fn put_again(
        &mut self,
        journal: &mut Journal,
        of: Option<&str>,
        partitions: Partitions,
        with_id: &MessageRef,
    ) -> LastCopy {
        let publication = with_id.publication();
        let id = MessageId::at_end_of(publication.properties);
        let properties = MessageId::strip(publication.properties);
        let message = publication.clone().with_properties(properties).keep();
        let of = of.map(Box::from);
        let number = self.put(journal, &Way::ForLeft { of: of.clone(), partitions }, id.as_ref(), &message);
        LastCopy { of, partitions, id, message, number }
    }

    /// The other members have a message.
    pub(crate) fn end(&mut self, journal: &mut Journal, number: u64) {
        if let Some(cost) = self.costs.remove(&number) {
            self.bytes -= cost;
            journal.delete(Key::Crossing(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ShardId, TenantId};
    use crate::message::Publication;
    use crate::now::{Millis, Now};
    use crate::settings::Durability;

    const WAY: Way = Way::ForLeft { of: None, partitions: Partitions::ALL };

    fn journal() -> Journal {
        Journal::new(Durability::Commit, ShardId(0), Now::default())
    }

    fn message(payload: &[u8]) -> MessageRef {
        let (tenant, qos) = (TenantId::DEFAULT, QoS::AtLeastOnce);
        Publication::new(tenant, "t", qos, false, &[], Millis::NEVER, payload, 0).keep()
    }

    #[test]
    fn last_copies_in_the_store_have_one_limit() {
        let (mut copies, mut journal) = (StoredCopies::default(), journal());
        let large = message(&vec![0; 30 * 1024 * 1024]);
        let first = copies.put(&mut journal, &WAY, None, &large).expect("room");
        assert!(copies.put(&mut journal, &WAY, None, &large).is_some());
        assert_eq!(copies.put(&mut journal, &WAY, None, &large), None, "beyond the limit");
        assert!(copies.put(&mut journal, &WAY, None, &message(b"small")).is_some());
        copies.end(&mut journal, first);
        copies.end(&mut journal, first);
        assert!(copies.put(&mut journal, &WAY, None, &large).is_some(), "the first one has made room");
    }
}
