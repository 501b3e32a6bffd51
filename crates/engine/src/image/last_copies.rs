//! Messages for partitions that have left which no broker brings again: this process has delivered them without a broker.
//! They are in the store until the new homes have them.

use crate::durable::crossing::Way;
use crate::ids::Partitions;
use crate::journal::Journal;
use crate::message::MessageRef;
use crate::orchestrator::uplink::id::MessageId;

/// A last copy of an earlier life of this process, or of a dead one.
#[derive(Debug)]
pub(crate) struct LastCopy {
    /// The partitions that had left; none where it is from a dead process.
    pub(super) of: Partitions,
    pub(super) id: Option<MessageId>,
    pub(super) message: MessageRef,
    /// Its number in the store.
    pub(super) number: u64,
}

impl LastCopy {
    /// Stores a message that has its id at the end of its properties.
    pub(crate) fn store(journal: &mut Journal, of: Partitions, with_id: &MessageRef) -> Self {
        let publication = with_id.publication();
        let number = journal.put_crossing(&publication, &Way::ForLeft { partitions: of });
        let id = MessageId::at_end_of(publication.properties);
        let properties = MessageId::strip(publication.properties);
        Self { of, id, message: publication.clone().with_properties(properties).keep(), number }
    }

    /// Stores a message that a dead process had kept.
    pub(crate) fn of_dead(journal: &mut Journal, id: Option<&MessageId>, message: &MessageRef) -> Self {
        let number = put_with_id(journal, Partitions::NONE, id, message);
        Self { of: Partitions::NONE, id: id.copied(), message: message.clone(), number }
    }
}

/// Stores a message as a last copy for partitions, with its id at the end of its properties. Returns its number, 0 without
/// a store.
pub(super) fn put_with_id(journal: &mut Journal, of: Partitions, id: Option<&MessageId>, message: &MessageRef) -> u64 {
    if !journal.is_on() {
        return 0;
    }
    let mut properties = message.properties().to_vec();
    if let Some(id) = id {
        id.append(&mut properties);
    }
    journal.put_crossing(&message.publication().with_properties(&properties), &Way::ForLeft { partitions: of })
}
