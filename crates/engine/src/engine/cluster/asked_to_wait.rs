//! Publishers of other nodes continue.

use crate::engine::facets::ClusterCalls;
use crate::ids::{ConnectionKey, ShardId};
use crate::now::Now;

impl ClusterCalls<'_> {
    /// A shard lets a publisher of this one continue. A node's late release must not end another wait.
    pub(crate) fn unpark_for(&mut self, now: Now, key: ConnectionKey, asker: ShardId) {
        if self.engine.links.is_foreign(asker) {
            let Some(askers) = self.engine.state.connections.askers_of(key) else { return };
            let Some(at) = askers.iter().position(|other| *other == asker) else { return };
            askers.swap_remove(at);
        }
        self.engine.waiting().unpark(now, key);
    }
}
