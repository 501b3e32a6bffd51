//! Metrics of QUIC. Without a listener for it, they are 0.

metrics! { |it, out|
    /// Every metric of QUIC, in the order in which they are written.
    Counter "tidegate_quic_connections_total" ["event"] => {
        let shell = &it.status.shell;
        out.add(&["begun"], shell.quic_begun);
        out.add(&["failed"], shell.quic_failed);
        out.add(&["moved"], shell.quic_moved);
    }, "QUIC connections: begun; failed in the handshake or by breaking the protocol; gone on from another address or port.";
    Counter "tidegate_quic_put_off_total" ["cause"] => {
        out.add(&["proof"], it.status.shell.quic_retries);
        out.add(&["limit"], it.status.shell.quic_deferred);
    }, "Requests for a QUIC connection that clients had to repeat: to prove their address, or as too many handshakes were under way.";
    Counter "tidegate_quic_datagrams_received_total" [] => out.one(it.status.shell.quic_datagrams_in),
        "Datagrams received by QUIC sockets.";
    Counter "tidegate_quic_datagrams_passed_on_total" ["outcome"] => {
        let shell = &it.status.shell;
        out.add(&["handed-over"], shell.quic_passed_on.saturating_sub(shell.quic_dropped));
        out.add(&["dropped"], shell.quic_dropped);
    }, "Datagrams for connections on another shard than their socket's: handed over, or dropped because too many waited.";
    Counter "tidegate_quic_sends_total" ["outcome"] => {
        out.add(&["sent"], it.status.shell.quic_sends);
        out.add(&["blocked"], it.status.shell.quic_sends_blocked);
    }, "System calls that sent datagrams of QUIC connections, and times that the socket was full.";
}
