//! The image of a partition is written.

use crate::cluster::transfer::error::ImageError;
use crate::engine::facets::MoveCalls;
use crate::events::reason::Reason;
use crate::flows::contexts::imaging;
use crate::flows::contexts::moving;
use crate::ids::{PARTITIONS, PartitionId, Partitions, SessionKey};
use crate::image::{begin, seal};
use crate::now::Now;
use crate::retained::RetainedStore;
use crate::wire::WireWrite;

impl MoveCalls<'_> {
    /// Moves a partition out: its clients are asked to go elsewhere ([`Reason::UseAnotherServer`]), its lasting
    /// sessions and retained messages become one value and are forgotten here.
    ///
    /// The wills of lasting sessions go along: the new home publishes them unless the client returns in time. A
    /// session that ends with its connection ends as ever.
    ///
    /// Batches of other shards that this one has not taken yet would find the sessions gone: the caller has
    /// those batches worked off first. From then on it keeps the partition's clients away from this shard. All of it is
    /// one turn, however much the partition holds.
    ///
    /// # Errors
    ///
    /// When the partition is not at home here, and nothing has happened.
    pub fn export_partition(&mut self, now: Now, partition: PartitionId) -> Result<Vec<u8>, ImageError> {
        if partition.0 >= PARTITIONS || !self.engine.place.owns(partition) {
            return Err(ImageError::NotAtHome(partition));
        }
        let in_store = |key: &SessionKey| {
            let flow = self.engine.state.sessions.get(key.0).and_then(|session| session.flow.as_ref());
            flow.is_some_and(|flow| flow.tail.is_some())
        };
        let one = Partitions::of(partition);
        if self.engine.state.sessions.by_partition(one).all().any(in_store) {
            return Err(ImageError::InStore(partition));
        }
        self.close_partition(now, partition);
        let mut out = begin();
        out.put_u16(partition.0);
        self.engine.state.exchanges.put_marks(&mut out, one);
        let sessions: Vec<SessionKey> = self.engine.state.sessions.by_partition(one).all().copied().collect();
        out.put_u32(sessions.len() as u32);
        for key in &sessions {
            if let Some(session) = self.engine.state.sessions.get(key.0) {
                imaging!(self.engine).put_session(&mut out, now, (*key, session), None);
            }
        }
        self.engine.retaining.store.take_retained(&mut self.engine.state, &mut out, now, partition);
        self.engine.groups.put_kept(&self.engine.links.roster, &mut out, now, one);
        self.engine.state.exchanges.put_dealt_before(&mut out, Partitions::NONE);
        self.engine.peers.outgoing.put_outgoing(&mut out, now, partition);
        self.engine.peers.outgoing.forget_outgoing(&mut self.engine.state, one);
        RetainedStore::put_removed(&mut out, self.engine.retaining.store.removed_by_partition(one).of(partition));
        self.engine.retaining.store.forget_removed(&mut self.engine.state, one);
        for key in sessions {
            moving!(self.engine).forget_session(now, key);
        }
        self.engine.after_frame(now);
        Ok(seal(out))
    }

    /// Asks the clients of a partition to go elsewhere.
    fn close_partition(&mut self, now: Now, partition: PartitionId) {
        self.engine.handover.exporting = true;
        self.close_clients_of(now, Partitions::of(partition), Reason::UseAnotherServer, None);
        self.engine.handover.exporting = false;
    }
}
