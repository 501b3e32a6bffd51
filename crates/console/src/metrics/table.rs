//! The table of metrics.

use tidegate_engine::Reason;

use super::Kind::{Counter, Gauge};
use super::{Kind, Metric, Reading, Samples};

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

pub(super) const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Reading<'_>, &mut Samples<'_>),
) -> Metric {
    Metric { name, kind, help, labels, read }
}

/// Every metric, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    metric(
        "mqtt_packets_total",
        Counter,
        &["type", "direction"],
        "MQTT packets, by type and by direction as the broker sees it.",
        packets,
    ),
    metric(
        "mqtt_messages_total",
        Counter,
        &["direction", "qos"],
        "Application messages received from publishers, and sent to subscribers by the QoS of the delivery.",
        messages,
    ),
    metric(
        "mqtt_messages_dropped_total",
        Counter,
        &["reason"],
        "Deliveries that did not happen, by reason.",
        |it, out| out.reasons(&it.status.counters.dropped),
    ),
    metric(
        "mqtt_messages_redelivered_total",
        Counter,
        &[],
        "Unacknowledged messages sent again after their session was resumed.",
        |it, out| out.add(&[], it.status.counters.redelivered),
    ),
    metric("mqtt_bytes_total", Counter, &["direction"], "Bytes of MQTT packets.", |it, out| {
        out.directions(it.status.counters.bytes_in, it.status.counters.bytes_out);
    }),
    metric(
        "mqtt_payload_bytes_total",
        Counter,
        &["direction"],
        "Bytes of the payloads of PUBLISH packets.",
        |it, out| {
            let counters = &it.status.counters;
            out.directions(counters.payload_bytes_in, counters.payload_bytes_out);
        },
    ),
    metric(
        "mqtt_connect_total",
        Counter,
        &["result"],
        "Attempts to connect: accepted, or the reason of the refusal.",
        connects,
    ),
    metric("mqtt_disconnects_total", Counter, &["reason"], "Connections that ended, by reason.", |it, out| {
        out.reasons(&it.status.counters.disconnects);
    }),
    metric(
        "mqtt_requests_refused_total",
        Counter,
        &["reason"],
        "Requests other than connections and messages, such as subscriptions, that were refused, by reason.",
        |it, out| out.reasons(&it.status.counters.requests_refused),
    ),
    metric(
        "mqtt_sockets_opened_total",
        Counter,
        &[],
        "Connections that were opened, with or without a CONNECT.",
        |it, out| out.add(&[], it.status.counters.sockets_opened),
    ),
    metric(
        "mqtt_sessions_expired_total",
        Counter,
        &[],
        "Sessions that ended because their expiry interval passed.",
        |it, out| out.add(&[], it.status.counters.sessions_expired),
    ),
    metric(
        "mqtt_receive_maximum_tolerated_total",
        Counter,
        &[],
        "Messages above the Receive Maximum that a lenient listener took all the same.",
        |it, out| out.add(&[], it.status.counters.receive_maximum_tolerated),
    ),
    metric(
        "mqtt_connections",
        Gauge,
        &[],
        "Open connections, including connections that have not sent CONNECT.",
        |it, out| out.add(&[], it.status.gauges.connections),
    ),
    metric("mqtt_sessions", Gauge, &["state"], "Sessions, by whether their client is connected.", |it, out| {
        out.add(&["connected"], it.status.gauges.sessions_connected);
        out.add(&["disconnected"], it.status.gauges.sessions_disconnected);
    }),
    metric("mqtt_subscriptions", Gauge, &["kind"], "Subscriptions, plain and shared.", |it, out| {
        out.add(&["plain"], it.status.gauges.subscriptions);
        out.add(&["shared"], it.status.gauges.shared_subscriptions);
    }),
    metric("mqtt_retained_messages", Gauge, &[], "Retained messages.", |it, out| {
        out.add(&[], it.status.gauges.retained_messages);
    }),
    metric("mqtt_retained_bytes", Gauge, &[], "Bytes of retained messages.", |it, out| {
        out.add(&[], it.status.gauges.retained_bytes);
    }),
    metric("mqtt_queue_messages", Gauge, &[], "Messages that wait in the queues of sessions.", |it, out| {
        out.add(&[], it.status.gauges.queued_messages);
    }),
    metric(
        "mqtt_queue_bytes",
        Gauge,
        &[],
        "Bytes that wait in the queues of sessions; a message in several queues counts in each.",
        |it, out| out.add(&[], it.status.gauges.queued_bytes),
    ),
    metric("mqtt_inflight", Gauge, &[], "QoS 1 and 2 messages that were sent and are not acknowledged.", |it, out| {
        out.add(&[], it.status.gauges.inflight_messages);
    }),
    metric(
        "tidegate_slow_sessions",
        Gauge,
        &[],
        "Clients that acknowledge nothing for longer than `limits.slow_after` or whose queue is full; `tidegate why slow` names them.",
        |it, out| out.add(&[], it.status.slow_sessions),
    ),
    metric(
        "tidegate_publishers_parked_total",
        Counter,
        &[],
        "Times that a publisher had to wait for a full queue or for another shard.",
        |it, out| out.add(&[], it.status.counters.publishers_parked),
    ),
    metric(
        "tidegate_publishers_rate_limited_total",
        Counter,
        &[],
        "Times that a publisher had to wait since it was faster than its listener allows.",
        |it, out| out.add(&[], it.status.counters.rate_limited),
    ),
    metric(
        "tidegate_publishers_held_total",
        Counter,
        &[],
        "Times that a publisher had to wait since the turns of a shard took too long and it gave the shard more to do than most.",
        |it, out| out.add(&[], it.status.counters.held_for_lag),
    ),
    metric(
        "tidegate_dead_letters_total",
        Counter,
        &["result"],
        "Dropped messages that were to be published once more.",
        |it, out| {
            out.add(&["published"], it.status.counters.dead_letters);
            out.add(&["lost"], it.status.counters.dead_letters_lost);
        },
    ),
    metric(
        "tidegate_shard_messages_total",
        Counter,
        &["direction"],
        "Messages that crossed from one shard to another.",
        |it, out| {
            let counters = &it.status.counters;
            out.directions(counters.shard_messages_in, counters.shard_messages_out);
        },
    ),
    metric("tidegate_connections_accepted_total", Counter, &[], "Connections that listeners accepted.", |it, out| {
        out.add(&[], it.status.shell.accepted);
    }),
    metric(
        "tidegate_accept_failures_total",
        Counter,
        &["cause"],
        "Connections that were not taken in, and times that accepting one failed, by cause.",
        accept_failures,
    ),
    metric(
        "tidegate_connections_refused_total",
        Counter,
        &["reason"],
        "Connections closed as soon as they were accepted, by limits of addresses and listeners, bans, and overload.",
        |it, out| {
            for (reason, count) in &it.status.admission.refused {
                out.add(&[reason.label()], *count);
            }
        },
    ),
    metric("tidegate_bans", Gauge, &[], "Bans of addresses, client ids and user names that hold.", |it, out| {
        out.add(&[], it.status.admission.bans);
    }),
    metric("tidegate_bans_added_total", Counter, &["origin"], "Bans added, by who banned.", |it, out| {
        for (origin, count) in &it.status.admission.bans_added {
            out.add(&[origin], *count);
        }
    }),
    metric(
        "tidegate_addresses_tracked",
        Gauge,
        &[],
        "Addresses that are remembered for their limits, with or without connections.",
        |it, out| out.add(&[], it.status.admission.addresses),
    ),
    metric(
        "tidegate_addresses_forgotten_total",
        Counter,
        &[],
        "Addresses without connections that were forgotten to make room for others.",
        |it, out| out.add(&[], it.status.admission.addresses_forgotten),
    ),
    metric("tidegate_users_tracked", Gauge, &[], "User names whose connections are counted.", |it, out| {
        out.add(&[], it.status.admission.users);
    }),
    metric(
        "tidegate_loop_lag_seconds",
        Gauge,
        &[],
        "How long the turns of the slowest shard take, in the mean of the last seconds.",
        |it, out| out.add(&[], seconds(it.status.admission.loop_lag_ms)),
    ),
    metric(
        "tidegate_overloaded",
        Gauge,
        &[],
        "1 while new connections are refused because turns take too long, else 0.",
        |it, out| out.add(&[], u64::from(it.status.admission.overloaded)),
    ),
    metric(
        "tidegate_flight_events_total",
        Counter,
        &["result"],
        "Events for `tidegate why`: recorded, or only counted because there were too many of one client in a second.",
        |it, out| {
            out.add(&["recorded"], it.status.admission.events_recorded);
            out.add(&["counted"], it.status.admission.events_suppressed);
        },
    ),
    metric(
        "tidegate_connections_moved_total",
        Counter,
        &[],
        "Connections handed from the shard that accepted them to the home of their client.",
        |it, out| out.add(&[], it.status.shell.handed_over),
    ),
    metric(
        "tidegate_connections_cut_total",
        Counter,
        &[],
        "Connections closed with output unwritten, because the time for it was over.",
        |it, out| out.add(&[], it.status.shell.closed_unflushed),
    ),
    metric(
        "tidegate_tls_handshakes_total",
        Counter,
        &["kind"],
        "TLS handshakes completed: in full, or resumed with a ticket of an earlier one.",
        |it, out| {
            let shell = &it.status.shell;
            out.add(&["full"], shell.tls_handshakes.saturating_sub(shell.tls_resumed));
            out.add(&["resumed"], shell.tls_resumed);
        },
    ),
    metric(
        "tidegate_tls_failures_total",
        Counter,
        &["cause"],
        "Connections closed because TLS failed, or because too many handshakes were under way.",
        |it, out| {
            out.add(&["protocol"], it.status.shell.tls_failed);
            out.add(&["limit"], it.status.shell.tls_refused_full);
        },
    ),
    metric(
        "tidegate_proxy_protocol_failures_total",
        Counter,
        &[],
        "Connections closed because of their PROXY protocol header, or for want of one.",
        |it, out| out.add(&[], it.status.shell.proxy_refused),
    ),
    metric(
        "tidegate_logins_total",
        Counter,
        &["outcome"],
        "Clients that were asked who they are, by outcome; `unavailable` could not be found out in time.",
        |it, out| {
            out.add(&["allowed"], it.status.logins.allowed);
            out.add(&["refused"], it.status.logins.refused);
            out.add(&["unavailable"], it.status.logins.unavailable);
        },
    ),
    metric(
        "tidegate_logins_shared_total",
        Counter,
        &["how"],
        "Clients that were let in or refused without asking a provider again: from memory, or together with others that were the same.",
        |it, out| {
            out.add(&["memory"], it.status.logins.cache_hits);
            out.add(&["together"], it.status.logins.coalesced);
        },
    ),
    metric(
        "tidegate_logins_unanswered_total",
        Counter,
        &["cause"],
        "Clients without an answer of a provider: too many waited, or they waited too long.",
        |it, out| {
            out.add(&["queue_full"], it.status.logins.overflowed);
            out.add(&["late"], it.status.logins.late);
        },
    ),
    metric("tidegate_logins_waiting", Gauge, &[], "Clients that wait for a provider now.", |it, out| {
        out.add(&[], it.status.logins.waiting);
    }),
    metric("tidegate_logins_remembered", Gauge, &[], "Answers of providers that are remembered now.", |it, out| {
        out.add(&[], it.status.logins.remembered);
    }),
    metric(
        "tidegate_websocket_failures_total",
        Counter,
        &["cause"],
        "WebSocket handshakes refused, and connections closed because the client broke that protocol.",
        |it, out| {
            out.add(&["handshake"], it.status.shell.websocket_refused);
            out.add(&["protocol"], it.status.shell.websocket_violations);
        },
    ),
    metric(
        "tidegate_turns_total",
        Counter,
        &[],
        "Turns of the shards' event loops; none while nothing happens.",
        |it, out| out.add(&[], it.status.shell.turns),
    ),
    metric(
        "tidegate_socket_calls_total",
        Counter,
        &["call"],
        "Calls to read from and write to sockets of clients.",
        |it, out| {
            out.add(&["read"], it.status.shell.reads);
            out.add(&["write"], it.status.shell.writes);
        },
    ),
    metric(
        "tidegate_writes_blocked_total",
        Counter,
        &[],
        "Writes that a socket did not take completely, since its client reads slowly.",
        |it, out| out.add(&[], it.status.shell.writes_blocked),
    ),
    metric(
        "tidegate_memory_trims_total",
        Counter,
        &[],
        "Times that memory was given back to the system after a peak.",
        |it, out| out.add(&[], it.status.shell.memory_trims),
    ),
    metric(
        "tidegate_input_bytes",
        Gauge,
        &[],
        "Bytes of unfinished packets and of PUBLISH packets that wait for room.",
        |it, out| out.add(&[], it.status.gauges.input_bytes),
    ),
    metric("tidegate_shard_link_bytes", Gauge, &[], "Bytes under way from one shard to another.", |it, out| {
        out.add(&[], it.status.gauges.link_bytes);
    }),
    metric(
        "tidegate_group_messages_kept",
        Gauge,
        &[],
        "Messages of shared groups that are kept here until another node answers for them, or until a member comes for them.",
        |it, out| out.add(&[], it.status.gauges.kept_deals),
    ),
    metric(
        "tidegate_group_messages_not_kept_total",
        Counter,
        &[],
        "Messages of shared groups that there was no room to keep (limits.kept_deal_bytes): lost if the node of their member dies.",
        |it, out| out.add(&[], it.status.counters.deals_not_kept),
    ),
    metric("tidegate_shards", Gauge, &[], "Shards, the threads that work clients.", |it, out| {
        out.add(&[], u64::from(it.status.shards));
    }),
    metric("tidegate_build_info", Gauge, &["version"], "Always 1; the label says which version runs.", |it, out| {
        out.add(&[it.status.version], 1_u64);
    }),
];

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
