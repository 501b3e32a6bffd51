//! A connection is suspended.

use crate::connection::Phase;
use crate::flows::contexts::Parking;
use crate::ids::{ConnectionKey, PartitionId, partition_of};
use crate::now::Now;
use crate::state::open_output;

impl Parking<'_> {
    /// Suspends a client; returns false if that is impossible. A blocked client cannot wait: its output in the shell
    /// may promise something.
    pub(crate) fn suspend(&mut self, now: Now, key: ConnectionKey) -> bool {
        let Some(connection) = self.state.connections.get(key) else { return false };
        if connection.phase != Phase::Open || connection.leaving || connection.blocked {
            return false;
        }
        if connection.is_suspended() {
            return true;
        }
        self.park(now, key);
        let Some(connection) = self.state.connections.get_mut(key) else { return false };
        connection.extra_mut().suspended = true;
        open_output(connection, key, &mut self.state.to_write, &mut self.state.pool).withhold();
        true
    }

    pub(crate) fn suspended(&self) -> Vec<(ConnectionKey, PartitionId)> {
        let waiting = self.state.connections.iter().filter(|(_, connection)| connection.is_suspended());
        let of = |key: ConnectionKey| {
            let session = self.state.sessions.get(self.state.connections.session_of(key)?.0)?;
            Some((key, partition_of(session.tenant, &session.client_id)))
        };
        waiting.filter_map(|(key, _)| of(key)).collect()
    }
}
