//! Metrics of QUIC. Without a listener for it, they are 0.

use super::Kind::Counter;
use super::{Metric, Reading, Samples};

/// Every metric of QUIC, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    counter(
        "tidegate_quic_connections_total",
        &["event"],
        "QUIC connections: begun; failed in the handshake or by breaking the protocol; gone on from another address or port.",
        |it, out| {
            let quic = &it.status.shell.quic;
            out.add(&["begun"], quic.begun);
            out.add(&["failed"], quic.failed);
            out.add(&["moved"], quic.moved);
        },
    ),
    counter(
        "tidegate_quic_put_off_total",
        &["cause"],
        "Requests for a QUIC connection that clients had to repeat: to prove their address, or as too many handshakes were under way.",
        |it, out| {
            out.add(&["proof"], it.status.shell.quic.retries);
            out.add(&["limit"], it.status.shell.quic.deferred);
        },
    ),
    counter("tidegate_quic_datagrams_received_total", &[], "Datagrams received by QUIC sockets.", |it, out| {
        out.add(&[], it.status.shell.quic.datagrams_in);
    }),
    counter(
        "tidegate_quic_datagrams_passed_on_total",
        &["outcome"],
        "Datagrams for connections on another shard than their socket's: handed over, or dropped because too many waited.",
        |it, out| {
            let quic = &it.status.shell.quic;
            out.add(&["handed-over"], quic.passed_on.saturating_sub(quic.dropped));
            out.add(&["dropped"], quic.dropped);
        },
    ),
    counter(
        "tidegate_quic_sends_total",
        &["outcome"],
        "System calls that sent datagrams of QUIC connections, and times that the socket was full.",
        |it, out| {
            out.add(&["sent"], it.status.shell.quic.sends);
            out.add(&["blocked"], it.status.shell.quic.sends_blocked);
        },
    ),
];

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Reading<'_>, &mut Samples<'_>),
) -> Metric {
    Metric { name, kind: Counter, help, labels, read }
}
