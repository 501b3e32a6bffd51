//! How a node stopped.

use std::collections::BTreeMap;

use tidegate_engine::{ShardId, TenantId, Usage};
use tidegate_store::LockGuard;

/// The store of a node that has stopped. No other process opens it until this is dropped.
pub struct HeldStore(#[expect(dead_code, reason = "the lock ends with it")] pub(super) Option<LockGuard>);

impl std::fmt::Debug for HeldStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HeldStore")
    }
}

/// How a node stopped.
#[derive(Debug)]
pub struct Stopped {
    /// Whether every client was notified and all output was written in time.
    pub drained: bool,
    /// Shards whose thread had panicked.
    pub failed: Vec<ShardId>,
    /// Its store, for the last entries of others in the same directory: a successor reads them with the store.
    pub store: HeldStore,
    /// The usage of each tenant up to the end; empty if a shard did not answer any more.
    pub usage: BTreeMap<TenantId, Usage>,
    /// The usage of each user, where users are metered.
    pub users: BTreeMap<(TenantId, Box<str>), Usage>,
}
