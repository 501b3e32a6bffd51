//! The table of metrics.

use tidegate_engine::Reason;

use super::{Reading, Samples};

/// Packet types by their number on the wire, with the directions in which they travel.
const PACKET_TYPES: &[(usize, &str, Travels)] = &[
    (1, "connect", Travels::In),
    (2, "connack", Travels::Out),
    (3, "publish", Travels::Both),
    (4, "puback", Travels::Both),
    (5, "pubrec", Travels::Both),
    (6, "pubrel", Travels::Both),
    (7, "pubcomp", Travels::Both),
    (8, "subscribe", Travels::In),
    (9, "suback", Travels::Out),
    (10, "unsubscribe", Travels::In),
    (11, "unsuback", Travels::Out),
    (12, "pingreq", Travels::In),
    (13, "pingresp", Travels::Out),
    (14, "disconnect", Travels::Both),
    (15, "auth", Travels::Both),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Travels {
    In,
    Out,
    Both,
}

/// Values of the label `qos`.
const QOS: [&str; 3] = ["0", "1", "2"];

metrics! { |it, out|
    /// Every metric, in the order in which they are written.
    Counter "mqtt_packets_total" ["type", "direction"] => packets(it, out),
        "MQTT packets, by type and by direction as the broker sees it.";
    Counter "mqtt_messages_total" ["direction", "qos"] => messages(it, out),
        "Application messages received from publishers, and sent to subscribers by the QoS of the delivery.";
    Counter "mqtt_messages_dropped_total" ["reason"] => out.reasons(&it.status.counters.dropped),
        "Deliveries that did not happen, by reason.";
    Counter "mqtt_messages_redelivered_total" [] => out.one(it.status.counters.redelivered),
        "Unacknowledged messages sent again after their session was resumed.";
    Counter "mqtt_bytes_total" ["direction"] =>
        out.directions(it.status.counters.bytes_in, it.status.counters.bytes_out),
        "Bytes of MQTT packets.";
    Counter "mqtt_payload_bytes_total" ["direction"] => {
        let counters = &it.status.counters;
        out.directions(counters.payload_bytes_in, counters.payload_bytes_out);
    }, "Bytes of the payloads of PUBLISH packets.";
    Counter "mqtt_connect_total" ["result"] => connects(it, out),
        "Attempts to connect: accepted, or the reason of the refusal.";
    Counter "mqtt_disconnects_total" ["reason"] => out.reasons(&it.status.counters.disconnects),
        "Connections that ended, by reason.";
    Counter "mqtt_requests_refused_total" ["reason"] => out.reasons(&it.status.counters.requests_refused),
        "Requests other than connections and messages, such as subscriptions, that were refused, by reason.";
    Counter "mqtt_sockets_opened_total" [] => out.one(it.status.counters.sockets_opened),
        "Connections that were opened, with or without a CONNECT.";
    Counter "mqtt_sessions_expired_total" [] => out.one(it.status.counters.sessions_expired),
        "Sessions that ended because their expiry interval passed.";
    Counter "mqtt_receive_maximum_tolerated_total" [] => out.one(it.status.counters.receive_maximum_tolerated),
        "Messages above the Receive Maximum that a lenient listener took all the same.";
    Gauge "mqtt_connections" [] => out.one(it.status.gauges.connections),
        "Open connections, including connections that have not sent CONNECT.";
    Gauge "mqtt_sessions" ["state"] => {
        out.add(&["connected"], it.status.gauges.sessions_connected);
        out.add(&["disconnected"], it.status.gauges.sessions_disconnected);
    }, "Sessions, by whether their client is connected.";
    Gauge "mqtt_subscriptions" ["kind"] => {
        out.add(&["plain"], it.status.gauges.subscriptions);
        out.add(&["shared"], it.status.gauges.shared_subscriptions);
    }, "Subscriptions, plain and shared.";
    Gauge "mqtt_retained_messages" [] => out.one(it.status.gauges.retained_messages),
        "Retained messages.";
    Gauge "mqtt_retained_bytes" [] => out.one(it.status.gauges.retained_bytes),
        "Bytes of retained messages.";
    Gauge "mqtt_queue_messages" [] => out.one(it.status.gauges.queued_messages),
        "Messages that wait in the queues of sessions.";
    Gauge "mqtt_queue_bytes" [] => out.one(it.status.gauges.queued_bytes),
        "Bytes that wait in the queues of sessions; a message in several queues counts in each.";
    Gauge "mqtt_inflight" [] => out.one(it.status.gauges.inflight_messages),
        "QoS 1 and 2 messages that were sent and are not acknowledged.";
    Gauge "tidegate_slow_sessions" [] => out.one(it.status.slow_sessions),
        "Clients that acknowledge nothing for longer than `limits.slow_after` or whose queue is full; `tidegate why slow` names them.";
    Counter "tidegate_publishers_parked_total" [] => out.one(it.status.counters.publishers_parked),
        "Times that a publisher had to wait for a full queue or for another shard.";
    Counter "tidegate_publishers_rate_limited_total" [] => out.one(it.status.counters.rate_limited),
        "Times that a publisher had to wait since it was faster than its listener allows.";
    Counter "tidegate_publishers_held_total" [] => out.one(it.status.counters.held_for_lag),
        "Times that a publisher had to wait since the turns of a shard took too long and it gave the shard more to do than most.";
    Counter "tidegate_dead_letters_total" ["result"] => {
        out.add(&["published"], it.status.counters.dead_letters);
        out.add(&["lost"], it.status.counters.dead_letters_lost);
    }, "Dropped messages that were to be published once more.";
    Counter "tidegate_shard_messages_total" ["direction"] => {
        let counters = &it.status.counters;
        out.directions(counters.shard_messages_in, counters.shard_messages_out);
    }, "Messages that crossed from one shard to another.";
    Counter "tidegate_connections_accepted_total" [] => out.one(it.status.shell.accepted),
        "Connections that listeners accepted.";
    Counter "tidegate_accept_failures_total" ["cause"] => accept_failures(it, out),
        "Connections that were not taken in, and times that accepting one failed, by cause.";
    Counter "tidegate_connections_refused_total" ["reason"] => {
        for (reason, count) in &it.status.admission.refused {
            out.add(&[reason.label()], *count);
        }
    }, "Connections closed as soon as they were accepted, by limits of addresses and listeners, bans, and overload.";
    Gauge "tidegate_bans" [] => out.one(it.status.admission.bans),
        "Bans of addresses, client ids and user names that hold.";
    Counter "tidegate_bans_added_total" ["origin"] => {
        for (origin, count) in &it.status.admission.bans_added {
            out.add(&[origin], *count);
        }
    }, "Bans added, by who banned.";
    Gauge "tidegate_addresses_tracked" [] => out.one(it.status.admission.addresses),
        "Addresses that are remembered for their limits, with or without connections.";
    Counter "tidegate_addresses_forgotten_total" [] => out.one(it.status.admission.addresses_forgotten),
        "Addresses without connections that were forgotten to make room for others.";
    Gauge "tidegate_users_tracked" [] => out.one(it.status.admission.users),
        "User names whose connections are counted.";
    Gauge "tidegate_loop_lag_seconds" [] => out.one(seconds(it.status.admission.loop_lag_ms)),
        "How long the turns of the slowest shard take, in the mean of the last seconds.";
    Gauge "tidegate_overloaded" [] => out.one(u64::from(it.status.admission.overloaded)),
        "1 while new connections are refused because turns take too long, else 0.";
    Counter "tidegate_flight_events_total" ["result"] => {
        out.add(&["recorded"], it.status.admission.events_recorded);
        out.add(&["counted"], it.status.admission.events_suppressed);
    }, "Events for `tidegate why`: recorded, or only counted because there were too many of one client in a second.";
    Counter "tidegate_connections_moved_total" [] => out.one(it.status.shell.handed_over),
        "Connections handed from the shard that accepted them to the home of their client.";
    Counter "tidegate_connections_cut_total" [] => out.one(it.status.shell.closed_unflushed),
        "Connections closed with output unwritten, because the time for it was over.";
    Counter "tidegate_tls_handshakes_total" ["kind"] => {
        let shell = &it.status.shell;
        out.add(&["full"], shell.tls_handshakes.saturating_sub(shell.tls_resumed));
        out.add(&["resumed"], shell.tls_resumed);
    }, "TLS handshakes completed: in full, or resumed with a ticket of an earlier one.";
    Counter "tidegate_tls_failures_total" ["cause"] => {
        out.add(&["protocol"], it.status.shell.tls_failed);
        out.add(&["limit"], it.status.shell.tls_refused_full);
    }, "Connections closed because TLS failed, or because too many handshakes were under way.";
    Counter "tidegate_proxy_protocol_failures_total" [] => out.one(it.status.shell.proxy_refused),
        "Connections closed because of their PROXY protocol header, or for want of one.";
    Counter "tidegate_logins_total" ["outcome"] => {
        out.add(&["allowed"], it.status.logins.allowed);
        out.add(&["refused"], it.status.logins.refused);
        out.add(&["unavailable"], it.status.logins.unavailable);
    }, "Clients that were asked who they are, by outcome; `unavailable` could not be found out in time.";
    Counter "tidegate_logins_shared_total" ["how"] => {
        out.add(&["memory"], it.status.logins.cache_hits);
        out.add(&["together"], it.status.logins.coalesced);
    }, "Clients that were let in or refused without asking a provider again: from memory, or together with others that were the same.";
    Counter "tidegate_logins_unanswered_total" ["cause"] => {
        out.add(&["queue_full"], it.status.logins.overflowed);
        out.add(&["late"], it.status.logins.late);
    }, "Clients without an answer of a provider: too many waited, or they waited too long.";
    Gauge "tidegate_logins_waiting" [] => out.one(it.status.logins.waiting),
        "Clients that wait for a provider now.";
    Gauge "tidegate_logins_remembered" [] => out.one(it.status.logins.remembered),
        "Answers of providers that are remembered now.";
    Counter "tidegate_websocket_failures_total" ["cause"] => {
        out.add(&["handshake"], it.status.shell.websocket_refused);
        out.add(&["protocol"], it.status.shell.websocket_violations);
    }, "WebSocket handshakes refused, and connections closed because the client broke that protocol.";
    Counter "tidegate_turns_total" [] => out.one(it.status.shell.turns),
        "Turns of the shards' event loops; none while nothing happens.";
    Counter "tidegate_socket_calls_total" ["call"] => {
        out.add(&["read"], it.status.shell.reads);
        out.add(&["write"], it.status.shell.writes);
    }, "Calls to read from and write to sockets of clients.";
    Counter "tidegate_writes_blocked_total" [] => out.one(it.status.shell.writes_blocked),
        "Writes that a socket did not take completely, since its client reads slowly.";
    Counter "tidegate_memory_trims_total" [] => out.one(it.status.shell.memory_trims),
        "Times that memory was given back to the system after a peak.";
    Gauge "tidegate_input_bytes" [] => out.one(it.status.gauges.input_bytes),
        "Bytes of unfinished packets and of PUBLISH packets that wait for room.";
    Gauge "tidegate_shard_link_bytes" [] => out.one(it.status.gauges.link_bytes),
        "Bytes under way from one shard to another.";
    Gauge "tidegate_group_messages_kept" [] => out.one(it.status.gauges.kept_deals),
        "Messages of shared groups that are kept here until another node answers for them, or until a member comes for them.";
    Counter "tidegate_group_messages_not_kept_total" [] => out.one(it.status.counters.deals_not_kept),
        "Messages of shared groups that there was no room to keep (limits.kept_deal_bytes): lost if the node of their member dies.";
    Gauge "tidegate_shards" [] => out.one(u64::from(it.status.shards)),
        "Shards, the threads that work clients.";
    Gauge "tidegate_build_info" ["version"] => out.add(&[it.status.version], 1_u64),
        "Always 1; the label says which version runs.";
}

fn packets(it: &Reading<'_>, out: &mut Samples<'_>) {
    let counters = &it.status.counters;
    for &(number, name, travels) in PACKET_TYPES {
        if travels != Travels::Out {
            out.add(&[name, "received"], counters.packets_in[number]);
        }
        if travels != Travels::In {
            out.add(&[name, "sent"], counters.packets_out[number]);
        }
    }
}

fn messages(it: &Reading<'_>, out: &mut Samples<'_>) {
    let counters = &it.status.counters;
    let directions = [("received", counters.messages_in), ("sent", counters.messages_out)];
    for (direction, counts) in directions {
        for (qos, count) in QOS.into_iter().zip(counts) {
            out.add(&[direction, qos], count);
        }
    }
}

fn accept_failures(it: &Reading<'_>, out: &mut Samples<'_>) {
    let shell = &it.status.shell;
    out.add(&["limit"], shell.refused_full);
    out.add(&["engine"], shell.refused_by_engine);
    out.add(&["resources"], shell.accept_exhausted);
    out.add(&["connection"], shell.accept_failed);
}

fn connects(it: &Reading<'_>, out: &mut Samples<'_>) {
    out.add(&["accepted"], it.status.counters.connects_accepted);
    // Reasons that are no fault at all refuse no client; they have no series here.
    let refused = it.status.counters.connects_refused;
    for reason in Reason::ALL.iter().filter(|reason| **reason != Reason::NormalDisconnect) {
        out.add(&[reason.label()], refused[reason.number()]);
    }
}

/// Milliseconds as seconds; seven weeks at most.
fn seconds(milliseconds: u64) -> f64 {
    f64::from(u32::try_from(milliseconds).unwrap_or(u32::MAX)) / 1000.0
}
