//! Metrics of listeners for HTTP and CoAP. Without such a listener they have no samples.

use super::Kind::{Counter, Gauge};
use super::Metric;

/// Every metric of these listeners, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    Metric {
        name: "tidegate_http_requests_total",
        kind: Counter,
        labels: &["route", "outcome"],
        help: "Requests over HTTP, by the first part of the path and by outcome.",
        read: |it, out| {
            for (route, outcome, count) in it.status.http.iter().flat_map(|http| &http.requests) {
                out.add(&[route, outcome], *count);
            }
        },
    },
    Metric {
        name: "tidegate_http_body_bytes_total",
        kind: Counter,
        labels: &[],
        help: "Bytes of the bodies of requests over HTTP.",
        read: |it, out| {
            if let Some(http) = &it.status.http {
                out.add(&[], http.body_bytes);
            }
        },
    },
    Metric {
        name: "tidegate_http_messages_sent_total",
        kind: Counter,
        labels: &["way"],
        help: "Messages that HTTP clients were sent, by way. A message that is sent again counts again.",
        read: |it, out| {
            for (way, messages, _) in it.status.http.iter().flat_map(|http| &http.sent) {
                out.add(&[way], *messages);
            }
        },
    },
    Metric {
        name: "tidegate_http_message_bytes_sent_total",
        kind: Counter,
        labels: &["way"],
        help: "Bytes of these messages as JSON.",
        read: |it, out| {
            for (way, _, bytes) in it.status.http.iter().flat_map(|http| &http.sent) {
                out.add(&[way], *bytes);
            }
        },
    },
    Metric {
        name: "tidegate_http_connections_refused_total",
        kind: Counter,
        labels: &[],
        help: "HTTP connections that were closed at once, as the listener had `max_connections`.",
        read: |it, out| {
            if let Some(http) = &it.status.http {
                out.add(&[], http.connections_refused);
            }
        },
    },
    Metric {
        name: "tidegate_http_queues",
        kind: Gauge,
        labels: &[],
        help: "Queues of HTTP clients whose sessions are connected. Messages of other queues wait in sessions without a connection.",
        read: |it, out| {
            if let Some(http) = &it.status.http {
                out.add(&[], http.queues);
            }
        },
    },
    Metric {
        name: "tidegate_http_websockets",
        kind: Gauge,
        labels: &[],
        help: "WebSockets of `/subscribe` that are open.",
        read: |it, out| {
            if let Some(http) = &it.status.http {
                out.add(&[], http.websockets);
            }
        },
    },
    Metric {
        name: "tidegate_coap_requests_total",
        kind: Counter,
        labels: &["method", "outcome"],
        help: "Requests over CoAP that were answered, by method and by outcome.",
        read: |it, out| {
            for (method, outcome, count) in it.status.coap.iter().flat_map(|coap| &coap.requests) {
                out.add(&[method, outcome], *count);
            }
        },
    },
    Metric {
        name: "tidegate_coap_datagrams_total",
        kind: Counter,
        labels: &["direction"],
        help: "Datagrams of CoAP.",
        read: |it, out| {
            if let Some(coap) = &it.status.coap {
                out.directions(coap.received.0, coap.sent.0);
            }
        },
    },
    Metric {
        name: "tidegate_coap_bytes_total",
        kind: Counter,
        labels: &["direction"],
        help: "Bytes of these datagrams.",
        read: |it, out| {
            if let Some(coap) = &it.status.coap {
                out.directions(coap.received.1, coap.sent.1);
            }
        },
    },
    Metric {
        name: "tidegate_coap_dropped_total",
        kind: Counter,
        labels: &["cause"],
        help: "Datagrams and messages of CoAP that were left out, by cause.",
        read: |it, out| {
            for (cause, count) in it.status.coap.iter().flat_map(|coap| &coap.dropped) {
                out.add(&[cause], *count);
            }
        },
    },
    Metric {
        name: "tidegate_coap_notifications_total",
        kind: Counter,
        labels: &[],
        help: "Messages that observers over CoAP were sent.",
        read: |it, out| {
            if let Some(coap) = &it.status.coap {
                out.add(&[], coap.notifications);
            }
        },
    },
    Metric {
        name: "tidegate_coap_repeated_total",
        kind: Counter,
        labels: &[],
        help: "Confirmable messages of CoAP that were sent again, as no acknowledgement had come.",
        read: |it, out| {
            if let Some(coap) = &it.status.coap {
                out.add(&[], coap.repeated);
            }
        },
    },
    Metric {
        name: "tidegate_coap_clients",
        kind: Gauge,
        labels: &[],
        help: "Addresses of CoAP clients that are remembered.",
        read: |it, out| {
            if let Some(coap) = &it.status.coap {
                out.add(&[], coap.clients);
            }
        },
    },
    Metric {
        name: "tidegate_coap_sessions",
        kind: Gauge,
        labels: &[],
        help: "Sessions of CoAP clients.",
        read: |it, out| {
            if let Some(coap) = &it.status.coap {
                out.add(&[], coap.sessions);
            }
        },
    },
];
