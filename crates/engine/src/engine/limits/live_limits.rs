//! Limits that change while clients are connected.

use crate::engine::facets::ControlCalls;
use crate::settings::overflow::OverflowRules;
use crate::settings::{Limits, ListenerSettings, Settings};
use crate::state::high_water;
use std::sync::Arc;

impl ControlCalls<'_> {
    /// Puts the limits of other settings in force: all of [`Limits`] but the length of links, the limits of retained
    /// messages and of queues, whether QoS 0 messages wait for offline clients, and the limits of listeners of the same
    /// name. Messages beyond a lower limit already stay; values that clients got in CONNACK do not change.
    pub fn set_limits(&mut self, new: &Settings) {
        let mut settings = (*self.engine.state.settings).clone();
        settings.limits = Limits { shard_link_bytes: settings.limits.shard_link_bytes, ..new.limits.clone() };
        settings.retained.max_messages = new.retained.max_messages;
        settings.retained.max_bytes = new.retained.max_bytes;
        settings.queue.max_messages = new.queue.max_messages;
        settings.queue.max_bytes = new.queue.max_bytes;
        settings.queue.stored_max_messages = new.queue.stored_max_messages;
        settings.queue.stored_max_bytes = new.queue.stored_max_bytes;
        settings.queue.keep_qos0_offline = new.queue.keep_qos0_offline;
        for listener in &mut settings.listeners {
            if let Some(new) = new.listeners.iter().find(|new| new.name == listener.name) {
                take_limits(listener, new);
            }
        }
        self.engine.retaining.store.values.set_limits(settings.retained.max_messages, settings.retained.max_bytes);
        let settings = Arc::new(settings);
        self.engine.state.overflow = OverflowRules::new(&settings);
        self.engine.state.high_water = high_water(&settings, self.engine.state.blocked_connections);
        self.engine.state.memory.set_ceiling(settings.limits.memory_ceiling);
        self.engine.state.settings = settings;
    }
}

fn take_limits(listener: &mut ListenerSettings, new: &ListenerSettings) {
    listener.max_connections = new.max_connections;
    listener.max_message_rate = new.max_message_rate;
    listener.message_burst = new.message_burst;
    listener.max_byte_rate = new.max_byte_rate;
    listener.byte_burst = new.byte_burst;
    listener.max_total_message_rate = new.max_total_message_rate;
    listener.max_total_byte_rate = new.max_total_byte_rate;
}
