//! Publishers that shards of other nodes have asked to wait: for a queue, for memory, for shorter turns.
//!
//! Whoever has asked says later that they may go on. A node that dies says nothing any more, so that it is remembered
//! whom each shard has asked: those go on without it.

use crate::connection::Connection;
use crate::connection::table::Connections;
use crate::ids::{ConnectionKey, ShardId};

impl Connections {
    /// Those whom a shard that is gone has asked to wait, each as often as it has. It is forgotten that it has.
    pub(crate) fn take_asked_by(&mut self, gone: ShardId) -> Vec<ConnectionKey> {
        let of = |connection: &Connection| {
            let parked = connection.extra.as_ref()?.parked.as_ref()?;
            Some(parked.askers.iter().filter(|asker| **asker == gone).count())
        };
        let connections = self.iter();
        let asked: Vec<_> = connections
            .flat_map(|(key, connection)| std::iter::repeat_n(key, of(connection).unwrap_or_default()))
            .collect();
        for key in &asked {
            if let Some(askers) = self.askers_of(*key) {
                askers.retain(|asker| *asker != gone);
            }
        }
        asked
    }

    pub(crate) fn askers_of(&mut self, key: ConnectionKey) -> Option<&mut Vec<ShardId>> {
        let parked = self.get_mut(key)?.extra.as_mut()?.parked.as_mut()?;
        Some(&mut parked.askers)
    }
}
