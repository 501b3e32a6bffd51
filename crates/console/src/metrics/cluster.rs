//! Metrics of a node's place in its cluster. Where there is no cluster, none has a sample.

use super::Kind::{self, Counter, Gauge};
use super::{Metric, Reading, Samples};
use crate::status::ClusterNumbers;

/// Every metric of a cluster, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    one(
        "tidegate_cluster_member",
        Gauge,
        "Whether the node is a member of its cluster; otherwise it serves no client.",
        |it, out| {
            out.one(of(it, |cluster| cluster.member.into()));
        },
    ),
    one("tidegate_cluster_leader", Gauge, "Whether the node decides which node works what.", |it, out| {
        out.one(of(it, |cluster| cluster.leads.into()));
    }),
    one("tidegate_cluster_bus_connected", Gauge, "Whether the bus of the cluster is reached.", |it, out| {
        out.one(of(it, |cluster| cluster.bus_connected.into()));
    }),
    one("tidegate_cluster_epoch", Gauge, "Epoch of the newest table that the node knows.", |it, out| {
        out.one(of(it, |cluster| cluster.epoch));
    }),
    one("tidegate_cluster_nodes", Gauge, "Nodes of the cluster, as that table has them.", |it, out| {
        out.one(of(it, |cluster| cluster.nodes));
    }),
    one(
        "tidegate_cluster_weight",
        Gauge,
        "Size of the node's share of the partitions in relation to others: `cluster.weight` by the factor of \
         `cluster.balance`.",
        |it, out| out.one(of(it, |cluster| cluster.weight)),
    ),
    one("tidegate_cluster_partitions", Gauge, "Partitions that the node serves.", |it, out| {
        out.one(of(it, |cluster| cluster.served));
    }),
    one("tidegate_cluster_moved_out_total", Counter, "Partitions sent to other nodes.", |it, out| {
        out.one(of(it, |cluster| cluster.moved_out));
    }),
    one("tidegate_cluster_moved_in_total", Counter, "Partitions taken over from other nodes.", |it, out| {
        out.one(of(it, |cluster| cluster.moved_in));
    }),
    one("tidegate_cluster_moves_failed_total", Counter, "Moves that this node could not do its part of.", |it, out| {
        out.one(of(it, |cluster| cluster.failed));
    }),
    one(
        "tidegate_cluster_owed_mismatches_total",
        Counter,
        "Moves refused because other numbers were owed after them than before; an alarm should watch it.",
        |it, out| out.one(of(it, |cluster| cluster.mismatches)),
    ),
    one(
        "tidegate_cluster_taken_anew_total",
        Counter,
        "Partitions begun with nothing after the node that had them was lost.",
        |it, out| out.one(of(it, |cluster| cluster.taken_anew)),
    ),
    one(
        "tidegate_cluster_indirect_links",
        Gauge,
        "Links to other nodes that go through a third node, since there is no direct connection.",
        |it, out| {
            out.one(of(it, |cluster| cluster.indirect_links));
        },
    ),
    one(
        "tidegate_cluster_indirect_links_total",
        Counter,
        "Links to other nodes that were begun through a third node.",
        |it, out| {
            out.one(of(it, |cluster| cluster.indirect_links_begun));
        },
    ),
    one(
        "tidegate_cluster_carried_bytes_total",
        Counter,
        "Bytes that this node has carried between two others without a direct connection.",
        |it, out| {
            out.one(of(it, |cluster| cluster.carried_bytes));
        },
    ),
    one("tidegate_cluster_restoring", Gauge, "Partitions of dead nodes that are being fetched.", |it, out| {
        out.one(of(it, |cluster| cluster.restoring));
    }),
    one(
        "tidegate_cluster_restored_total",
        Counter,
        "Partitions of dead nodes served here with all that these had acknowledged.",
        |it, out| out.one(of(it, |cluster| cluster.restored)),
    ),
    one(
        "tidegate_cluster_failovers_total",
        Counter,
        "Times that this node has taken over its share of a dead node's partitions.",
        |it, out| out.one(of(it, |cluster| cluster.failovers)),
    ),
    one(
        "tidegate_cluster_failover_milliseconds",
        Gauge,
        "How long the last of them took, from the table that asked for it on, milliseconds; the lease of the dead node was before.",
        |it, out| out.one(of(it, |cluster| cluster.failover_ms)),
    ),
    one(
        "tidegate_cluster_memberships_lost_total",
        Counter,
        "Times that the node did not reach the bus for a lease, and served no client until it was back.",
        |it, out| out.one(of(it, |cluster| cluster.lapses)),
    ),
    one(
        "tidegate_cluster_astray_partitions",
        Gauge,
        "Partitions that the table gives this node and it does not serve, or that it serves and the table does not give it, for more than 2 s; \
         an alarm should watch it.",
        |it, out| out.one(of(it, |cluster| cluster.astray)),
    ),
];

const fn one(name: &'static str, kind: Kind, help: &'static str, read: fn(&Reading<'_>, &mut Samples<'_>)) -> Metric {
    Metric { name, kind, labels: &[], help, read }
}

fn of(it: &Reading<'_>, number: fn(&ClusterNumbers) -> u64) -> Option<u64> {
    it.status.cluster.as_ref().map(number)
}
