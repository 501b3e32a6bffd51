//! The subscription index of a shard, and the routes found in it.

pub(crate) mod address_name;
mod cache;
mod entry;
mod index;
mod key_table;
pub(crate) mod observed;
pub(crate) mod origin;
mod own;
mod remote;
mod route;
pub(crate) mod stages;
mod subscriber;
mod trie;

#[cfg(test)]
mod tests;

pub(crate) use cache::{RouteCache, RouteSlot};
pub(crate) use index::SubscriptionIndex;
pub(crate) use own::is_own_topic;
pub(crate) use route::{Route, Target};
pub(crate) use subscriber::{Subscriber, SubscriberOptions};

use crate::settings::Settings;
use std::sync::Arc;

/// The way from a topic name to its receivers: the index of subscriptions, and the routes found in it.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) index: SubscriptionIndex,
    pub(crate) cache: RouteCache,
    /// Memory for a route that is not cached.
    pub(crate) scratch: Route,
}

impl Router {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { index: SubscriptionIndex::default(), cache: RouteCache::new(settings), scratch: Route::default() }
    }
}

/// A filter of a tenant in the index. Good as long as the holder's own subscription, group or interest is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilterKey(pub(crate) u32);

/// A shared group that this shard deals for, as numbered by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupKey(pub(crate) u32);
