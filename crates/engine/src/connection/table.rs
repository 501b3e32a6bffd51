//! The connections of a shard.

use std::ops::{Deref, DerefMut};

use crate::connection::Connection;
use crate::ids::{ConnectionKey, TenantId};
use crate::slab::GenSlab;

/// All connections of a shard, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    table: GenSlab<Connection>,
}

impl Deref for Connections {
    type Target = GenSlab<Connection>;

    #[inline]
    fn deref(&self) -> &GenSlab<Connection> {
        &self.table
    }
}

impl DerefMut for Connections {
    #[inline]
    fn deref_mut(&mut self) -> &mut GenSlab<Connection> {
        &mut self.table
    }
}

impl Connections {
    /// The tenant that pays for a connection.
    #[inline]
    pub(crate) fn payer_of(&self, key: ConnectionKey) -> TenantId {
        self.get(key).map_or(TenantId::UPLINK, |connection| connection.payer)
    }
}
