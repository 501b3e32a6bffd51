//! Reads a closed store for another node that takes it over.

use std::sync::Arc;

use tidegate_engine::{
    BrokerLinkImage, Engine, ImageError, Now, OrchestratorMoves, PartitionImage, Partitions, RestoreRoute,
    Settings as EngineSettings, ShardPosition, Snapshot, Sweep, Takers,
};
use tidegate_store::Store;

use crate::admission::Ban;
use crate::admission::stored_bans;
use crate::clock::Clock;
use crate::durable::DurableError;

/// Why a store could not be given on.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Its content cannot be read or is inconsistent.
    #[error(transparent)]
    Durable(#[from] DurableError),
    /// It cannot be made an image of.
    #[error("{0}")]
    Image(ImageError),
    /// Queues were left in the store.
    #[error("queues are too long to be loaded at once; start a node with this store")]
    TooLong,
}

/// The content of a closed store for the nodes that take it over.
#[derive(Clone, Debug)]
pub struct StoreImages {
    /// Its partitions.
    pub partitions: Vec<PartitionImage>,
    /// Its sessions at brokers, if it is that of an orchestrator.
    pub broker_links: Vec<BrokerLinkImage>,
    /// The messages of brokers that its sessions have, as far as it knows.
    pub had: Vec<u8>,
}

/// The bans that a store at rest has, with times of the clock of the node that is to take them over.
///
/// # Errors
/// When a ban cannot be read: it may exclude a client.
pub fn bans_of(store: &Store, now: Now) -> Result<Vec<Ban>, PlaceError> {
    let (mut bans, mut failure) = (Vec::new(), None);
    let visited = store.for_each(&mut |key, value| match stored_bans::read(now, key, value) {
        Some(Ok(ban)) => bans.push(ban),
        Some(Err(error)) => failure = Some(error),
        None => {}
    });
    visited.map_err(DurableError::from)?;
    match failure {
        Some(error) => Err(DurableError::from(error).into()),
        None => Ok(bans),
    }
}

/// The partitions of a closed store as images, for [`OrchestratorMoves::arrive`](crate::OrchestratorMoves::arrive) on
/// the node that takes them over. They equal the state after a restart with the store: clients count as disconnected from now on, and
/// due wills are published at the new node. All images are in memory at once. The store is not changed.
///
/// # Errors
/// When it cannot be read, or its content is inconsistent.
pub fn images_of(store: &Store, settings: EngineSettings, partitions: Partitions) -> Result<StoreImages, PlaceError> {
    let now = Clock::start().now();
    let mut settings = settings;
    // Queues come into memory as they are: they leave it again at once.
    settings.queue.memory_bytes = u64::MAX;
    settings.limits.memory_ceiling = 0;
    let mut engine = Engine::new(Arc::new(settings), ShardPosition::ALONE, 0, now);
    engine.store().restore_for_others();
    let (mut route, mut failure) = (RestoreRoute::new(1), None);
    // Remains of ended sessions are swept in a running store, not in a closed one.
    let mut sweep = Sweep::default();
    let visited = store.for_each(&mut |key, value| {
        if failure.is_none() && sweep.keep(key, value) {
            failure = match route.takers(key, value) {
                Ok(Takers::None) => None,
                Ok(_) => engine.store().restore(now, key, value).err(),
                Err(error) => Some(error),
            };
        }
    });
    visited.map_err(DurableError::from)?;
    if let Some(error) = failure {
        return Err(DurableError::from(error).into());
    }
    engine.store().finish_restore(now).map_err(DurableError::from)?;
    engine.moves().hold_partitions(now, partitions, None);
    let all = partitions;
    match engine.moves().snapshot_of_dead(now, partitions, u64::MAX).map_err(PlaceError::Image)? {
        Snapshot::Taken(partitions) => {
            let moves = OrchestratorMoves::of(&mut engine);
            let (broker_links, had) = (moves.broker_link_images(now), moves.messages_of(all));
            Ok(StoreImages { partitions, broker_links, had })
        }
        Snapshot::Loading => Err(PlaceError::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_engine::{PARTITIONS, PartitionId};
    use tidegate_store::{Settings, SimulatedDisk, keep_all, open};

    use super::*;

    /// The key of a subscription of session 64 to `x`; its value is five zeros.
    const LEFT_BEHIND: &[u8] = b"\x10\0\0\0\0\0\0\0\x40\x01x";

    fn opened(disk: &SimulatedDisk) -> Store {
        let settings = Settings { min_free_bytes: 0, ..Settings::default() };
        open(Arc::new(disk.clone()), settings, keep_all()).unwrap().store
    }

    #[test]
    fn remains_of_an_ended_session_do_not_break_a_takeover() {
        let disk = SimulatedDisk::new(1);
        let mut writing = opened(&disk).stepped(Box::new(|_: u16, _: u64| {}));
        let mut put = vec![1, LEFT_BEHIND.len() as u8, 0];
        put.extend_from_slice(LEFT_BEHIND);
        put.extend_from_slice(&[5, 0, 0, 0, 0, 0, 0, 0, 0]);
        writing.submit(0, 1, put).unwrap();
        while writing.step() {}
        writing.sync();
        writing.end();
        drop(writing);
        let all: Partitions = (0..PARTITIONS).map(PartitionId).collect();
        let mut pairs = 0;
        opened(&disk).for_each(&mut |_, _| pairs += 1).unwrap();
        assert_eq!(pairs, 1, "it is there");
        assert_eq!(
            images_of(&opened(&disk), EngineSettings::default(), all).unwrap().partitions.len(),
            usize::from(PARTITIONS)
        );
    }
}
