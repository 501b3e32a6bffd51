//! The journal goes to the store, and promises leave after the commit.

use crate::engine::facets::StoreCalls;
use crate::flows::contexts::answering;
use crate::ids::TenantId;
use crate::journal::JournalBatch;
use crate::limits::usage::Usage;
use crate::now::Now;

impl StoreCalls<'_> {
    /// Takes the records for the store since the last call. The shell gives them to the store before it hands over
    /// batches for other shards, and before it writes outputs.
    #[inline]
    pub fn take_journal(&mut self) -> Option<JournalBatch> {
        self.engine.state.journal.take()
    }

    /// Whether the usage of a payer has changed since [`Self::take_changed_usage`].
    #[inline]
    pub fn has_changed_usage(&self) -> bool {
        self.engine.state.meters.has_changed()
    }

    /// Visits the usage since the start of each payer whose usage has changed since the last call, by tenant and user. The
    /// user name is empty for clients that are not metered by user. The shell writes it into a batch of the journal, so
    /// that no message is acknowledged whose usage is not stored. Only the counters are set.
    pub fn take_changed_usage(&mut self, now: Now, visit: &mut dyn FnMut(TenantId, &str, &Usage)) {
        self.engine.state.meters.take_changed(now.monotonic, visit);
    }

    /// All batches up to the one of this sequence are committed: packets that promise them may leave.
    pub fn handle_committed(&mut self, sequence: u64) {
        self.engine.state.journal.note_committed(sequence);
        self.engine.state.read_committed(sequence);
        let before = self.engine.state.to_write.begin_commit();
        while let Some(key) = self.engine.state.journal.pop_released(sequence) {
            let Some(connection) = self.engine.state.connections.get_mut(key) else { continue };
            let released = connection.output.as_mut().is_some_and(|output| output.release(sequence));
            if released {
                self.engine.state.to_write.note(connection, key);
            }
        }
        self.engine.state.to_write.end_input(before);
        self.engine.links.send_promised(sequence);
        answering!(self.engine).tell_committed(sequence);
    }

    /// Sets whether the store is nearly full. As long as it is, messages that would have to be stored are refused with
    /// [`Reason::StoreFull`](crate::Reason::StoreFull), so that acknowledgements still have room: they free space.
    pub fn set_store_full(&mut self, full: bool) {
        self.engine.state.journal.full = full;
    }
}
