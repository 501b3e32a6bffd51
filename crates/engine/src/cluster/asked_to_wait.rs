//! Publishers that shards of other nodes have asked to wait: for a queue, for memory, for shorter turns.
//!
//! The shard that has asked releases them later. A node that dies releases no publisher, so each publisher remembers
//! the shards that have asked: it continues without a dead one.

use crate::connection::Connection;
use crate::connection::table::Connections;
use crate::ids::{ConnectionKey, ShardId};

impl Connections {
    /// Takes the publishers that a lost shard has asked to wait, each as often as it has asked, and forgets these
    /// requests.
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
