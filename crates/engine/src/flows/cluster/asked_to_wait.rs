//! Publishers of other shards wait.

use crate::flows::contexts::Parking;
use crate::ids::{ConnectionKey, ShardId};
use crate::now::Now;

impl Parking<'_> {
    /// A shard has a publisher of this one wait.
    pub(crate) fn park_for(&mut self, now: Now, key: ConnectionKey, asker: ShardId) {
        self.park(now, key);
        if self.links.is_foreign(asker)
            && let Some(askers) = self.state.connections.askers_of(key)
        {
            askers.push(asker);
        }
    }
}
