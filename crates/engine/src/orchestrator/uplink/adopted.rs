//! Connections of dead orchestrators that this one goes on with.

use super::Brokers;
use super::id::SeenIds;
use crate::ids::Partitions;

/// What is known of a dead orchestrator.
#[derive(Debug)]
pub(crate) struct Adopted {
    /// By which the broker knows it.
    pub(crate) client_id: String,
    /// By which its partitions were taken over.
    pub(crate) transfer: u64,
    /// These partitions, and the messages that had come here before they did.
    pub(crate) partitions: Partitions,
    pub(crate) before: SeenIds,
}

impl Brokers {
    /// The connections of an uplink are those of a dead orchestrator.
    pub(crate) fn note_adopted(
        &mut self,
        name: &str,
        client_id: String,
        transfer: u64,
        (partitions, before): (Partitions, SeenIds),
    ) {
        if let Some(uplink) = self.find(name).and_then(|key| self.all.get_mut(&key)) {
            uplink.adopted = Some(Box::new(Adopted { client_id, transfer, partitions, before }));
        }
    }
}
