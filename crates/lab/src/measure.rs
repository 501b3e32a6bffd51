//! The names, units and directions of the numbers of a run. `results` computes them.

use serde::{Deserialize, Serialize};

/// Declares the measures: the name and the unit of each.
macro_rules! measures {
    ($($(#[$doc:meta])* $measure:ident: $name:literal, $unit:literal;)*) => {
        /// One number of a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Measure {
            $($(#[$doc])* $measure,)*
        }

        impl Measure {
            /// All of them, in the order in which tables show them.
            pub const ALL: &[Self] = &[$(Self::$measure,)*];

            /// Its name, and its unit.
            pub const fn name(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$measure => ($name, $unit),)*
                }
            }
        }
    };
}

measures! {
    /// Deliveries in a second, or acknowledged messages if there are no subscribers.
    Throughput: "Throughput", "messages/s";
    /// The share of the due deliveries that arrived.
    Delivered: "Delivered", "%";
    /// Due deliveries that never arrived.
    Lost: "Lost", "deliveries";
    /// Deliveries due that never came, for each five minutes of measuring (LAV-07).
    LostInFiveMinutes: "Lost in 5 minutes", "deliveries";
    /// The share of due messages that were late, lost, or never sent.
    DeadlineMisses: "Deadline missed", "%";
    /// Deliveries that arrived again.
    Duplicates: "Duplicates", "deliveries";
    /// Deliveries out of order.
    Reordered: "Out of order", "deliveries";
    /// The median latency from the scheduled time.
    LatencyP50: "Latency, median", "ms";
    /// The latency that 99 % do not exceed.
    LatencyP99: "Latency, p99", "ms";
    /// The latency that 99.9 % do not exceed.
    LatencyP999: "Latency, p99.9", "ms";
    /// The longest latency.
    LatencyMax: "Latency, longest", "ms";
    /// The mean latency.
    LatencyMean: "Latency, mean", "ms";
    /// The shortest latency.
    LatencyMin: "Latency, shortest", "ms";
    /// From the scheduled time to the acknowledgement: 99 % do not exceed it.
    AcknowledgedP99: "Acknowledged, p99", "ms";
    /// CPU time of the broker for a delivery (or for a sent message if there are no subscribers).
    CpuPerDelivery: "Broker CPU per delivery", "µs";
    /// CPU time of the broker in a second of measuring, in cores.
    CpuMean: "Broker CPU", "cores";
    /// The most memory of the broker at a time.
    MemoryPeak: "Broker memory, peak", "MiB";
    /// The growth of the broker's memory from before the first client to all of them, for each.
    MemoryPerClient: "Broker memory per client", "KiB";
    /// The broker's memory before the first client.
    MemoryIdle: "Broker memory, idle", "MiB";
    /// Connections accepted.
    Accepted: "Connections accepted", "clients";
    /// The share of the connections dialled that were accepted.
    AcceptedShare: "Connections accepted", "%";
    /// Connections that the broker ended.
    ConnectionsLost: "Connections ended by the broker", "clients";
    /// From dialling to CONNACK: 99 % do not exceed it.
    ConnectP99: "Connecting, p99", "ms";
    /// Connections accepted in a second while clients came.
    ConnectRate: "Connections", "clients/s";
    /// Bytes of payload that the broker was given in a second.
    BytesIn: "Payload in", "MB/s";
    /// Bytes of payload that the broker delivered in a second.
    BytesOut: "Payload out", "MB/s";
    /// From the start of the broker to its first answer.
    ReadyAfter: "Ready after", "s";
    /// The longest time without a delivery while publishers published.
    Silence: "Longest silence", "s";
    /// The share of the offered round trips that returned: the delivery rate TE of study CTX. A message that could not
    /// be sent has not returned; a late one has, and a duplicate counts once.
    Returned: "Round trips complete (TE)", "%";
    /// The share of the nodes whose round trips all returned.
    NodesComplete: "Nodes with every round trip", "%";
    /// The standard deviation of the latency.
    LatencyDeviation: "Latency, standard deviation", "ms";
    /// Clients sent to another gateway.
    HandedOver: "Handovers", "clients";
    /// How far the gateway that is farthest from an equal share of the clients is from it, at the end of publishing.
    Imbalance: "Gateway farthest from its share", "%";
}

/// The better direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less.
    Lower,
    /// More.
    Higher,
}

impl Measure {
    /// The better direction.
    pub const fn better(self) -> Better {
        match self {
            Self::Throughput
            | Self::Delivered
            | Self::Accepted
            | Self::AcceptedShare
            | Self::ConnectRate
            | Self::BytesIn
            | Self::Returned
            | Self::NodesComplete
            | Self::BytesOut => Better::Higher,
            _ => Better::Lower,
        }
    }
}
