//! Wills at the end of a process.

use crate::engine::facets::ControlCalls;
use crate::events::reason::Reason;
use crate::flows::contexts::ending;
use crate::ids::SessionKey;
use crate::now::Now;
use std::sync::Arc;

impl ControlCalls<'_> {
    /// Another process has taken this one's place and knows the wills of its clients: they are that one's to publish.
    pub fn leave_wills_to_another(&mut self) {
        Arc::make_mut(&mut self.engine.state.settings).wills_on_shutdown = false;
    }

    /// Takes no more connections, because the server is about to stop, and publishes the wills of all clients if that
    /// is wanted. Call it on every shard, and hand the batches over, before
    /// [`ControlCalls::begin_shutdown`](crate::ControlCalls::begin_shutdown) on any: the receivers of the wills are then still connected.
    pub fn publish_last_wills(&mut self, now: Now) {
        self.engine.stopping = true;
        self.engine.broker_links.brokers.stopping = true;
        if !self.engine.state.settings.wills_on_shutdown {
            return;
        }
        let sessions: Vec<SessionKey> =
            self.engine.state.connections.iter().filter_map(|(_, connection)| connection.session).collect();
        for key in sessions {
            ending!(self.engine).schedule_will(now, key, Reason::ServerShuttingDown);
        }
        self.engine.after_frame(now);
    }
}
