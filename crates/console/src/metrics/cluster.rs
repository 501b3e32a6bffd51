//! Metrics of a node's place in its cluster. Where there is no cluster, none has a sample.

use super::Reading;
use crate::status::ClusterNumbers;

metrics! { |it, out|
    /// Every metric of a cluster, in the order in which they are written.
    Gauge "tidegate_cluster_member" [] => out.any(of(it, |cluster| cluster.member.into())),
        "Whether the node is a member of its cluster; otherwise it serves no client.";
    Gauge "tidegate_cluster_leader" [] => out.any(of(it, |cluster| cluster.leads.into())),
        "Whether the node decides which node works what.";
    Gauge "tidegate_cluster_bus_connected" [] => out.any(of(it, |cluster| cluster.bus_connected.into())),
        "Whether the bus of the cluster is reached.";
    Gauge "tidegate_cluster_epoch" [] => out.any(of(it, |cluster| cluster.epoch)),
        "Epoch of the newest table that the node knows.";
    Gauge "tidegate_cluster_nodes" [] => out.any(of(it, |cluster| cluster.nodes)),
        "Nodes of the cluster, as that table has them.";
    Gauge "tidegate_cluster_weight" [] => out.any(of(it, |cluster| cluster.weight)),
        "Size of the node's share of the partitions in relation to others: `cluster.weight` by the factor of `cluster.balance`.";
    Gauge "tidegate_cluster_partitions" [] => out.any(of(it, |cluster| cluster.served)),
        "Partitions that the node serves.";
    Counter "tidegate_cluster_moved_out_total" [] => out.any(of(it, |cluster| cluster.moved_out)),
        "Partitions sent to other nodes.";
    Counter "tidegate_cluster_moved_in_total" [] => out.any(of(it, |cluster| cluster.moved_in)),
        "Partitions taken over from other nodes.";
    Counter "tidegate_cluster_moves_failed_total" [] => out.any(of(it, |cluster| cluster.failed)),
        "Moves that this node could not do its part of.";
    Counter "tidegate_cluster_owed_mismatches_total" [] => out.any(of(it, |cluster| cluster.mismatches)),
        "Moves refused because other numbers were owed after them than before; an alarm should watch it.";
    Counter "tidegate_cluster_taken_anew_total" [] => out.any(of(it, |cluster| cluster.taken_anew)),
        "Partitions begun with nothing after the node that had them was lost.";
    Gauge "tidegate_cluster_indirect_links" [] => out.any(of(it, |cluster| cluster.indirect_links)),
        "Links to other nodes that go through a third node, since there is no direct connection.";
    Counter "tidegate_cluster_indirect_links_total" [] => out.any(of(it, |cluster| cluster.indirect_links_begun)),
        "Links to other nodes that were begun through a third node.";
    Counter "tidegate_cluster_carried_bytes_total" [] => out.any(of(it, |cluster| cluster.carried_bytes)),
        "Bytes that this node has carried between two others without a direct connection.";
    Gauge "tidegate_cluster_restoring" [] => out.any(of(it, |cluster| cluster.restoring)),
        "Partitions of dead nodes that are being fetched.";
    Counter "tidegate_cluster_restored_total" [] => out.any(of(it, |cluster| cluster.restored)),
        "Partitions of dead nodes served here with all that these had acknowledged.";
    Counter "tidegate_cluster_failovers_total" [] => out.any(of(it, |cluster| cluster.failovers)),
        "Times that this node has taken over its share of a dead node's partitions.";
    Gauge "tidegate_cluster_failover_milliseconds" [] => out.any(of(it, |cluster| cluster.failover_ms)),
        "How long the last of them took, from the table that asked for it on, milliseconds; the lease of the dead node was before.";
    Counter "tidegate_cluster_memberships_lost_total" [] => out.any(of(it, |cluster| cluster.lapses)),
        "Times that the node did not reach the bus for a lease, and served no client until it was back.";
    Gauge "tidegate_cluster_astray_partitions" [] => out.any(of(it, |cluster| cluster.astray)),
        "Partitions that the table gives this node and it does not serve, or that it serves and the table does not give it, for more than 2 s; an alarm should watch it.";
}

fn of(it: &Reading<'_>, number: fn(&ClusterNumbers) -> u64) -> Option<u64> {
    it.status.cluster.as_ref().map(number)
}
