//! Counters of a shard: numbers that only grow, and gauges read on demand.

use std::collections::BTreeMap;

use crate::ids::HUB_CLIENT_PREFIX;
use crate::summed;
use tidegate_mqtt::{PacketType, QoS};

use crate::events::reason::{REASONS, Reason};

summed! {
    /// Numbers of one shard that only grow. A reader adds up the numbers of all shards.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Counters {
        /// Packets received, by packet type number.
        pub packets_in: [u64; 16],
        /// Packets sent, by packet type number.
        pub packets_out: [u64; 16],
        /// Application messages received from publishers, by QoS.
        pub messages_in: [u64; 3],
        /// Application messages sent to subscribers, by the QoS of the delivery.
        pub messages_out: [u64; 3],
        /// Bytes received from clients.
        pub bytes_in: u64,
        /// Bytes handed to clients' transports.
        pub bytes_out: u64,
        /// Payload bytes received in PUBLISH packets.
        pub payload_bytes_in: u64,
        /// Payload bytes sent in PUBLISH packets.
        pub payload_bytes_out: u64,
        /// Messages that were not delivered, by reason.
        pub dropped: [u64; REASONS],
        /// Messages of clients that were accepted and then dropped, since no broker of the fleet takes them.
        pub given_up: u64,
        /// Connections that ended, by reason.
        pub disconnects: [u64; REASONS],
        /// CONNECT packets that were accepted.
        pub connects_accepted: u64,
        /// Connections refused before or by CONNACK, by reason.
        pub connects_refused: [u64; REASONS],
        /// Requests other than messages and connections that were refused, by reason.
        pub requests_refused: [u64; REASONS],
        /// Connections opened, with or without a CONNECT.
        pub sockets_opened: u64,
        /// Sessions that ended because their expiry passed.
        pub sessions_expired: u64,
        /// Messages above the receive maximum that a lenient listener tolerated.
        pub receive_maximum_tolerated: u64,
        /// Messages handed to other shards.
        pub shard_messages_out: u64,
        /// Messages taken from other shards.
        pub shard_messages_in: u64,
        /// Times that a publisher was parked by a full queue or link.
        pub publishers_parked: u64,
        /// Messages that shared groups have dealt to other nodes without keeping them, since too many were kept.
        pub deals_not_kept: u64,
        /// Times that a publisher was parked since it was faster than its listener allows.
        pub rate_limited: u64,
        /// Times that a publisher was parked since turns took too long and it gave the shard more to do than most.
        pub held_for_lag: u64,
        /// Dropped messages that were published once more as dead letters.
        pub dead_letters: u64,
        /// Dropped messages that were to be published once more, and were not: too many came at once.
        pub dead_letters_lost: u64,
        /// Unacknowledged messages sent again with DUP after a session was resumed.
        pub redelivered: u64,
        /// Messages that pipelines of the hub have not been given, by the name of the pipeline. The configuration bounds
        /// their number.
        pub pipeline_drops: BTreeMap<Box<str>, u64>,
    }
}

impl Counters {
    /// Counts one PUBLISH packet that was written.
    #[inline]
    pub(crate) fn count_sent(&mut self, qos: QoS, payload: usize) {
        self.packets_out[PacketType::Publish as usize] += 1;
        self.messages_out[qos as usize] += 1;
        self.payload_bytes_out += payload as u64;
    }

    /// Counts one message that was not delivered.
    #[inline]
    pub(crate) fn drop_message(&mut self, reason: Reason) {
        self.dropped[reason.number()] += 1;
    }

    /// Counts messages that a session has not been given, if it is that of a pipeline.
    #[cold]
    pub(crate) fn drop_for_pipeline(&mut self, client_id: &str, messages: u64) {
        let Some(name) = client_id.strip_prefix(HUB_CLIENT_PREFIX).filter(|_| messages > 0) else { return };
        match self.pipeline_drops.get_mut(name) {
            Some(count) => *count += messages,
            None => drop(self.pipeline_drops.insert(name.into(), messages)),
        }
    }

    /// All messages that were not delivered.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }
}

summed! {
    /// Gauges of one shard at this moment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Gauges {
        /// Open connections, including connections without a CONNECT so far.
        pub connections: u64,
        /// Sessions with a connection.
        pub sessions_connected: u64,
        /// Sessions of clients that are away.
        pub sessions_disconnected: u64,
        /// Ordinary subscriptions.
        pub subscriptions: u64,
        /// Memberships in shared groups.
        pub shared_subscriptions: u64,
        /// Retained messages whose home this shard is.
        pub retained_messages: u64,
        /// Bytes of the retained messages.
        pub retained_bytes: u64,
        /// Messages waiting in sessions' queues.
        pub queued_messages: u64,
        /// Bytes of those (a message that waits in several queues counts in each).
        pub queued_bytes: u64,
        /// Messages waiting in the store alone, after the messages that queues hold in memory.
        pub stored_messages: u64,
        /// Bytes of the stored messages, as their size in memory.
        pub stored_bytes: u64,
        /// Messages sent and not acknowledged.
        pub inflight_messages: u64,
        /// Of the queued, stored and unacknowledged messages, those in the store for clients that are away.
        pub absent_messages: u64,
        /// Bytes of unfinished packets and parked publishes.
        pub input_bytes: u64,
        /// Bytes in transit to other shards.
        pub link_bytes: u64,
        /// Messages that shared groups have given to other nodes and keep until those answer for them.
        pub kept_deals: u64,
    }
}
