//! Access rules for the engines: each shard gets its own, made on its own thread.

use std::fmt;
use std::sync::Arc;

use tidegate_engine::{Access, ShardId};

type Make = dyn Fn(ShardId) -> Box<dyn Access> + Send + Sync;

/// Makes the access rules of a shard, on its thread. The result need not be `Send`.
#[derive(Clone)]
pub struct AccessFactory(Arc<Make>);

impl AccessFactory {
    /// Rules are made by this function, once for each shard.
    pub fn new(make: impl Fn(ShardId) -> Box<dyn Access> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    pub(crate) fn make(&self, shard: ShardId) -> Box<dyn Access> {
        (self.0)(shard)
    }
}

impl fmt::Debug for AccessFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessFactory")
    }
}
