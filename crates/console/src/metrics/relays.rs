//! Metrics of clients that are relayed to the member that serves them.

metrics! { |it, out|
    /// Every metric of relays, in the order in which they are written.
    Gauge "tidegate_relays" [] => out.one(it.status.shell.relayed.saturating_sub(it.status.shell.relays_ended)),
        "Clients relayed now to the node that serves them.";
    Counter "tidegate_relays_total" [] => out.one(it.status.shell.relayed),
        "Clients relayed to the node that serves them.";
    Counter "tidegate_relays_failed_total" [] => out.one(it.status.shell.relays_failed),
        "Clients refused because the node that serves them could not be reached.";
    Counter "tidegate_connections_departed_total" [] => out.one(it.status.shell.moved),
        "Connections that have left this node for the new home of their client.";
    Counter "tidegate_connections_continued_total" [] => out.one(it.status.shell.continued),
        "Connections that have come from another node and continue here.";
    Counter "tidegate_connections_not_continued_total" [] => out.one(it.status.shell.not_continued),
        "Connections that have come from another node and were refused: their session, credential or terms do not hold here.";
}
