//! The connections of a shard.

use std::ops::{Deref, DerefMut};

use crate::connection::Connection;
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
