//! The numbers of a node in its cluster. Each is declared once, with its metric.

/// Calls a macro with the list of the numbers: kind and name of the metric, field and type, and the meaning.
macro_rules! cluster_numbers {
    ($receiver:ident) => {
        $receiver! {
            Gauge "tidegate_cluster_member" member: bool,
                "Whether the node is a member of its cluster; otherwise it serves no client.";
            Gauge "tidegate_cluster_leader" leads: bool,
                "Whether the node decides which node works what.";
            Gauge "tidegate_cluster_bus_connected" bus_connected: bool,
                "Whether the bus of the cluster is reached.";
            Gauge "tidegate_cluster_epoch" epoch: u64,
                "Epoch of the newest table that the node knows.";
            Gauge "tidegate_cluster_nodes" nodes: u64,
                "Nodes of the cluster, as that table has them.";
            Gauge "tidegate_cluster_weight" weight: u64,
                "Size of the node's share of the partitions in relation to others: `cluster.weight` by the factor of `cluster.balance`.";
            Gauge "tidegate_cluster_partitions" served: u64,
                "Partitions that the node serves.";
            Counter "tidegate_cluster_moved_out_total" moved_out: u64,
                "Partitions sent to other nodes.";
            Counter "tidegate_cluster_moved_in_total" moved_in: u64,
                "Partitions taken over from other nodes.";
            Counter "tidegate_cluster_moves_failed_total" failed: u64,
                "Moves that this node could not do its part of.";
            Counter "tidegate_cluster_owed_mismatches_total" mismatches: u64,
                "Moves refused because other numbers were owed after them than before; an alarm should watch it.";
            Counter "tidegate_cluster_taken_anew_total" taken_anew: u64,
                "Partitions begun with nothing after the node that had them was lost.";
            Gauge "tidegate_cluster_indirect_links" indirect_links: u64,
                "Links to other nodes that go through a third node, since there is no direct connection.";
            Counter "tidegate_cluster_indirect_links_total" indirect_links_begun: u64,
                "Links to other nodes that were begun through a third node.";
            Counter "tidegate_cluster_carried_bytes_total" carried_bytes: u64,
                "Bytes that this node has carried between two others without a direct connection.";
            Gauge "tidegate_cluster_restoring" restoring: u64,
                "Partitions of dead nodes that are being fetched.";
            Counter "tidegate_cluster_restored_total" restored: u64,
                "Partitions of dead nodes served here with all that these had acknowledged.";
            Counter "tidegate_cluster_failovers_total" failovers: u64,
                "Times that this node has taken over its share of a dead node's partitions.";
            Gauge "tidegate_cluster_failover_milliseconds" failover_ms: u64,
                "How long the last of them took, from the table that asked for it on, milliseconds; the lease of the dead node was before.";
            Counter "tidegate_cluster_memberships_lost_total" lapses: u64,
                "Times that the node did not reach the bus for a lease, and served no client until it was back.";
            Gauge "tidegate_cluster_astray_partitions" astray: u64,
                "Partitions that the table gives this node and it does not serve, or that it serves and the table does not give it, for more than 2 s; an alarm should watch it.";
        }
    };
}

macro_rules! fields {
    ($($kind:ident $name:literal $field:ident: $type:ty, $help:literal;)*) => {
        /// The state of a node in its cluster.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ClusterNumbers {
            $(#[doc = $help] pub $field: $type,)*
        }
    };
}

cluster_numbers!(fields);
