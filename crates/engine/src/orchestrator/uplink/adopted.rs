//! Connections of dead orchestrators that this one goes on with.

use std::collections::VecDeque;

use super::Brokers;
use crate::ids::ConnectionKey;
use crate::link::envelope::Ticket;

/// Bytes noted for other members and not taken. Beyond it the connection ends, and the broker keeps the messages
/// that are not acknowledged.
const NOTED_MAX_BYTES: usize = 64 * 1024 * 1024;

/// What is known of a dead orchestrator.
#[derive(Debug)]
pub(crate) struct Adopted {
    /// By which the broker knows it.
    pub(crate) client_id: String,
    /// By which its partitions were taken over.
    pub(crate) transfer: u64,
    /// Messages that the broker has brought, for the members that have taken over the other partitions.
    pub(crate) for_members: Vec<u8>,
    /// Messages that had come before, for sessions of other shards that were taken over.
    pub(crate) for_shards: Vec<u8>,
    /// Answers that wait until other members have the messages, in the order of the messages.
    pub(crate) unanswered: VecDeque<Ticket>,
}

impl Brokers {
    /// The connections of an uplink are those of a dead orchestrator.
    pub(crate) fn note_adopted(&mut self, name: &str, client_id: String, transfer: u64) {
        if let Some(uplink) = self.adopted_named(name) {
            let (for_members, for_shards, unanswered) = (Vec::new(), Vec::new(), VecDeque::new());
            *uplink = Some(Box::new(Adopted { client_id, transfer, for_members, for_shards, unanswered }));
        }
    }

    /// Whether a connection is that of a dead orchestrator, and so much waits for other members that the broker has to
    /// keep its messages.
    pub(crate) fn is_full_of_brought(&self, connection: ConnectionKey) -> bool {
        let uplink = self.of_connection(connection).and_then(|key| self.all.get(&key));
        let adopted = uplink.and_then(|uplink| uplink.adopted.as_ref());
        adopted.is_some_and(|adopted| adopted.for_members.len() > NOTED_MAX_BYTES)
    }

    /// What is known of the dead orchestrator whose connection this name is for.
    pub(crate) fn adopted_named(&mut self, name: &str) -> Option<&mut Option<Box<Adopted>>> {
        let key = self.find(name)?;
        self.all.get_mut(&key).map(|uplink| &mut uplink.adopted)
    }
}
