//! A settling of brokers begins and ends.

use crate::engine::Engine;
use crate::ids::UplinkKey;
use crate::now::Now;
use crate::orchestrator::uplink::Stage;
use crate::orchestrator::uplink::settled::Settling;

impl Engine {
    /// Begins to find out whether all has come that brokers gave out before now. Brokers that are away are left out:
    /// what they have comes, if at all, on another connection.
    pub fn begin_settling(&mut self, now: Now) -> Settling {
        self.state.journal.now = now;
        let open: Vec<UplinkKey> = self
            .uplinks
            .brokers
            .all
            .iter()
            .filter(|(_, uplink)| uplink.stage == Stage::Open)
            .map(|(key, _)| *key)
            .collect();
        let awaited =
            open.into_iter().filter_map(|key| self.uplinks.brokers.await_uplink(now, &mut self.state, key)).collect();
        self.after_frame(now);
        Settling { awaited }
    }

    /// Whether all of it has come. Brokers that have said all are not asked again.
    pub fn settle(&mut self, now: Now, settling: &mut Settling) -> bool {
        self.state.journal.now = now;
        let awaited = std::mem::take(&mut settling.awaited);
        settling.awaited = awaited
            .into_iter()
            .filter_map(|awaited| self.uplinks.brokers.still_awaited(now, &mut self.state, awaited))
            .collect();
        self.after_frame(now);
        settling.awaited.is_empty()
    }
}
