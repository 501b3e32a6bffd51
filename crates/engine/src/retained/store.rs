//! The retained messages that this shard keeps, and what it knows of their versions.

use super::Retained;
use super::removed::Removed;
use super::strays::Strays;
use crate::message::MessageRef;
use crate::settings::Settings;

/// The retained messages of a shard.
#[derive(Debug)]
pub(crate) struct RetainedStore {
    pub values: Retained<MessageRef>,
    /// Topics whose retained message was removed.
    pub removed: Removed,
    /// Retained messages that are kept here in place of other nodes.
    pub strays: Strays,
}

impl RetainedStore {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut values = Retained::new(settings.retained.max_messages, settings.retained.max_bytes);
        values.limit_tenants(settings);
        Self { values, removed: Removed::default(), strays: Strays::default() }
    }
}
