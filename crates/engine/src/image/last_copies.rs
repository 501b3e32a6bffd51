//! Messages for partitions that have left which no broker brings again: this process has delivered them without a broker.
//! They are in the store until the new homes have them.

use crate::durable::crossing::Way;
use crate::ids::Partitions;
use crate::journal::Journal;
use crate::message::MessageRef;
use crate::orchestrator::broker_link::id::MessageId;

/// A last copy of an earlier life of this process, or of a dead orchestrator.
#[derive(Debug)]
pub(crate) struct LastCopy {
    /// The dead orchestrator that had kept it; `None` where this one had.
    pub(super) of: Option<Box<str>>,
    /// The partitions that had left; none where it is of a dead orchestrator.
    pub(super) partitions: Partitions,
    pub(super) id: Option<MessageId>,
    pub(super) message: MessageRef,
    /// Its number in the store.
    pub(super) number: u64,
}

impl LastCopy {
    /// Stores a message that has its id at the end of its properties.
    pub(crate) fn store(journal: &mut Journal, of: Option<&str>, partitions: Partitions, with_id: &MessageRef) -> Self {
        let publication = with_id.publication();
        let of = of.map(Box::from);
        let number = journal.put_crossing(&publication, &Way::ForLeft { of: of.clone(), partitions });
        let id = MessageId::at_end_of(publication.properties);
        let properties = MessageId::strip(publication.properties);
        let message = publication.clone().with_properties(properties).keep();
        Self { of, partitions, id, message, number }
    }

    /// Stores a message that the dead orchestrator `of` had kept.
    pub(crate) fn of_dead(journal: &mut Journal, of: &str, id: Option<&MessageId>, message: &MessageRef) -> Self {
        let (of, partitions) = (Some(Box::from(of)), Partitions::NONE);
        let number = put_with_id(journal, &Way::ForLeft { of: of.clone(), partitions }, id, message);
        Self { of, partitions, id: id.copied(), message: message.clone(), number }
    }
}

/// Stores a message as a last copy, with its id at the end of its properties. Returns its number, 0 without a store.
pub(super) fn put_with_id(journal: &mut Journal, way: &Way, id: Option<&MessageId>, message: &MessageRef) -> u64 {
    if !journal.is_on() {
        return 0;
    }
    let mut properties = message.properties().to_vec();
    if let Some(id) = id {
        id.append(&mut properties);
    }
    journal.put_crossing(&message.publication().with_properties(&properties), way)
}
