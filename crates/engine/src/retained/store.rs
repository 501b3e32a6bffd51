//! The retained messages of a shard, with their versions.

use super::Retained;
use super::removed::Removed;
use super::strays::Strays;
use crate::events::reason::Reason;
use crate::journal::keys::{Key, STORED_NAME_MAX};
use crate::message::{MessageRef, Publication};
use crate::now::Now;
use crate::orchestrator::homes::HomesInForce;
use crate::roster::Roster;
use crate::settings::Settings;
use crate::state::ShardState;
use crate::topics::is_own_topic;

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

    /// Keeps or clears the retained message of a topic.
    pub(crate) fn keep_retained(
        &mut self,
        now: Now,
        roster: &Roster,
        state: &mut ShardState,
        homes: &HomesInForce,
        publication: &mut Publication<'_>,
    ) -> Option<Reason> {
        if homes.keep_versions(publication.topic) {
            return self.keep_newest(now, roster, state, publication);
        }
        let stored = state.journal.is_on() && !is_own_topic(publication.topic);
        if publication.payload.is_empty() {
            let known = self.values.clear(publication.tenant, publication.topic).is_some();
            if stored && known {
                state.journal.delete(Key::Retained(publication.tenant, publication.topic));
            }
            return None;
        }
        self.keep_value(now, state, publication)
    }

    /// Keeps a value that is not empty.
    pub(crate) fn keep_value(
        &mut self,
        now: Now,
        state: &mut ShardState,
        publication: &mut Publication<'_>,
    ) -> Option<Reason> {
        let stored = state.journal.is_on() && !is_own_topic(publication.topic);
        if stored && publication.topic.len() > STORED_NAME_MAX {
            state.counters.drop_message(Reason::InvalidTopicName);
            return Some(Reason::InvalidTopicName);
        }
        if state.journal.has_no_room_to_retain(publication) {
            state.counters.drop_message(Reason::StoreFull);
            return Some(Reason::StoreFull);
        }
        let message = publication.keep();
        let (tenant, topic, now) = (publication.tenant, publication.topic, now.monotonic);
        let refused = if publication.beyond_quota {
            self.values.set_beyond_quota(tenant, topic, message, now).err()
        } else {
            self.values.set(tenant, topic, message, now).err()
        };
        // Before the new value is put: the topic's own value may just have expired.
        self.forget_expired(state);
        if let Some(reason) = refused {
            state.counters.drop_message(reason);
        } else if stored {
            state.journal.put_retained(publication);
        }
        refused
    }

    /// Retained messages that have expired are forgotten by the store as well.
    pub(crate) fn forget_expired(&mut self, state: &mut ShardState) {
        let stored = state.journal.is_on();
        for (tenant, topic) in self.values.take_expired() {
            if stored && !is_own_topic(&topic) {
                state.journal.delete(Key::Retained(tenant, &topic));
            }
        }
    }
}
