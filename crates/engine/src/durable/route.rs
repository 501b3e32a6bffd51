//! The shard that takes in a pair of a store.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::restore::{RestoreError, malformed};
use super::session_record::client_of;
use crate::cluster::outgoing::client_of_outgoing;
use crate::hash::NameHasher;
use crate::ids::{PartitionId, ShardId, ShardPosition, group_partition, partition_of};
use crate::journal::keys::Key;
use crate::link::record::GroupName;

/// The shard for each pair: pairs are shown to it in the order of their keys.
#[derive(Debug)]
pub struct RestoreRoute {
    place: ShardPosition,
    homes: HashMap<u64, ShardId, BuildHasherDefault<NameHasher>>,
}

/// The receivers of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takers {
    /// One shard.
    One(ShardId),
    /// Every shard: a shard that does not need it ignores it.
    All,
    /// No shard: the entry does not belong to the engine.
    None,
}

impl RestoreRoute {
    /// A route for this number of shards.
    pub fn new(shards: u16) -> Self {
        Self { place: ShardPosition { shard: ShardId(0), shards: shards.max(1) }, homes: HashMap::default() }
    }

    /// The receivers of a pair.
    ///
    /// # Errors
    /// When the pair cannot be read, or is a part of a session that is not there.
    pub fn takers(&mut self, key: &[u8], value: &[u8]) -> Result<Takers, RestoreError> {
        let read = Key::read(key).map_err(|error| malformed(key, error))?;
        Ok(match read {
            Key::Session(session) => {
                let (tenant, client_id) = client_of(value).map_err(|error| malformed(key, error))?;
                let home = self.place.home_of(partition_of(tenant, client_id));
                self.homes.insert(session.0.get(), home);
                Takers::One(home)
            }
            Key::Will(_) => {
                let (tenant, client_id) = client_of(value).map_err(|error| malformed(key, error))?;
                Takers::One(self.place.home_of(partition_of(tenant, client_id)))
            }
            Key::Outgoing(_) => {
                let (tenant, client_id) = client_of_outgoing(value).map_err(|error| malformed(key, error))?;
                Takers::One(self.place.home_of(partition_of(tenant, &client_id)))
            }
            Key::Subscription(session, _)
            | Key::Received(session, _)
            | Key::Entry(session, _)
            | Key::Sent(session, _)
            | Key::Seen(session, _)
            | Key::Refused(session, _) => {
                let home = self.homes.get(&session.0.get()).copied();
                Takers::One(home.ok_or(RestoreError::NoSession { session: session.0.get() })?)
            }
            Key::Body(_) | Key::Numbers(_) | Key::Crossing(_) | Key::Crossed(..) | Key::Mark(..) => Takers::All,
            // The shard of the brokers.
            Key::Arrival(_) | Key::Passed(..) => Takers::One(self.place.home_of(PartitionId(0))),
            Key::Retained(tenant, topic) => Takers::One(self.place.home_of(partition_of(tenant, topic))),
            Key::Group(tenant, name) => {
                let group = GroupName::of_text(tenant, name).map_err(|error| malformed(key, error))?;
                Takers::One(self.place.home_of(group_partition(tenant, group.share, group.filter)))
            }
            Key::Foreign => Takers::None,
        })
    }
}
