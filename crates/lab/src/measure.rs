//! The names, units and directions of the numbers of a run. `results` computes them.

use serde::{Deserialize, Serialize};

/// One number of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Deliveries in a second, or acknowledged messages if there are no subscribers.
    Throughput,
    /// The share of the due deliveries that arrived.
    Delivered,
    /// Due deliveries that never arrived.
    Lost,
    /// Deliveries due that never came, for each five minutes of measuring (LAV-07).
    LostInFiveMinutes,
    /// The share of due messages that were late, lost, or never sent.
    DeadlineMisses,
    /// Deliveries that arrived again.
    Duplicates,
    /// Deliveries out of order.
    Reordered,
    /// The median latency from the scheduled time.
    LatencyP50,
    /// The latency that 99 % do not exceed.
    LatencyP99,
    /// The latency that 99.9 % do not exceed.
    LatencyP999,
    /// The longest latency.
    LatencyMax,
    /// The mean latency.
    LatencyMean,
    /// The shortest latency.
    LatencyMin,
    /// From the scheduled time to the acknowledgement: 99 % do not exceed it.
    AcknowledgedP99,
    /// CPU time of the broker for a delivery (or for a sent message if there are no subscribers).
    CpuPerDelivery,
    /// CPU time of the broker in a second of measuring, in cores.
    CpuMean,
    /// The most memory of the broker at a time.
    MemoryPeak,
    /// The growth of the broker's memory from before the first client to all of them, for each.
    MemoryPerClient,
    /// The broker's memory before the first client.
    MemoryIdle,
    /// Connections accepted.
    Accepted,
    /// The share of the connections dialled that were accepted.
    AcceptedShare,
    /// Connections that the broker ended.
    ConnectionsLost,
    /// From dialling to CONNACK: 99 % do not exceed it.
    ConnectP99,
    /// Connections accepted in a second while clients came.
    ConnectRate,
    /// Bytes of payload that the broker was given in a second.
    BytesIn,
    /// Bytes of payload that the broker delivered in a second.
    BytesOut,
    /// From the start of the broker to its first answer.
    ReadyAfter,
    /// The longest time without a delivery while publishers published.
    Silence,
    /// The share of the offered round trips that returned: the delivery rate TE of study CTX. A message that could not
    /// be sent has not returned; a late one has, and a duplicate counts once.
    Returned,
    /// The share of the nodes whose round trips all returned.
    NodesComplete,
    /// The standard deviation of the latency.
    LatencyDeviation,
    /// Clients sent to another gateway.
    HandedOver,
    /// How far the gateway that is farthest from an equal share of the clients is from it, at the end of publishing.
    Imbalance,
}

/// Which direction is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less.
    Lower,
    /// More.
    Higher,
}

impl Measure {
    /// All of them, in the order in which tables show them.
    pub const ALL: &[Self] = &[
        Self::Throughput,
        Self::Delivered,
        Self::Lost,
        Self::LostInFiveMinutes,
        Self::DeadlineMisses,
        Self::Duplicates,
        Self::Reordered,
        Self::LatencyP50,
        Self::LatencyP99,
        Self::LatencyP999,
        Self::LatencyMax,
        Self::LatencyMean,
        Self::LatencyMin,
        Self::AcknowledgedP99,
        Self::CpuPerDelivery,
        Self::CpuMean,
        Self::MemoryPeak,
        Self::MemoryPerClient,
        Self::MemoryIdle,
        Self::Accepted,
        Self::AcceptedShare,
        Self::ConnectionsLost,
        Self::ConnectP99,
        Self::ConnectRate,
        Self::BytesIn,
        Self::BytesOut,
        Self::ReadyAfter,
        Self::Silence,
        Self::Returned,
        Self::NodesComplete,
        Self::LatencyDeviation,
        Self::HandedOver,
        Self::Imbalance,
    ];

    /// Its name, and its unit.
    pub const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Throughput => ("Throughput", "messages/s"),
            Self::Delivered => ("Delivered", "%"),
            Self::Lost => ("Lost", "deliveries"),
            Self::LostInFiveMinutes => ("Lost in 5 minutes", "deliveries"),
            Self::DeadlineMisses => ("Deadline missed", "%"),
            Self::Duplicates => ("Duplicates", "deliveries"),
            Self::Reordered => ("Out of order", "deliveries"),
            Self::LatencyP50 => ("Latency, median", "ms"),
            Self::LatencyP99 => ("Latency, p99", "ms"),
            Self::LatencyP999 => ("Latency, p99.9", "ms"),
            Self::LatencyMax => ("Latency, longest", "ms"),
            Self::LatencyMean => ("Latency, mean", "ms"),
            Self::LatencyMin => ("Latency, shortest", "ms"),
            Self::AcknowledgedP99 => ("Acknowledged, p99", "ms"),
            Self::CpuPerDelivery => ("Broker CPU per delivery", "µs"),
            Self::CpuMean => ("Broker CPU", "cores"),
            Self::MemoryPeak => ("Broker memory, peak", "MiB"),
            Self::MemoryPerClient => ("Broker memory per client", "KiB"),
            Self::MemoryIdle => ("Broker memory, idle", "MiB"),
            Self::Accepted => ("Connections accepted", "clients"),
            Self::AcceptedShare => ("Connections accepted", "%"),
            Self::ConnectionsLost => ("Connections ended by the broker", "clients"),
            Self::ConnectP99 => ("Connecting, p99", "ms"),
            Self::ConnectRate => ("Connections", "clients/s"),
            Self::BytesIn => ("Payload in", "MB/s"),
            Self::BytesOut => ("Payload out", "MB/s"),
            Self::ReadyAfter => ("Ready after", "s"),
            Self::Silence => ("Longest silence", "s"),
            Self::Returned => ("Round trips complete (TE)", "%"),
            Self::NodesComplete => ("Nodes with every round trip", "%"),
            Self::LatencyDeviation => ("Latency, standard deviation", "ms"),
            Self::HandedOver => ("Handovers", "clients"),
            Self::Imbalance => ("Gateway farthest from its share", "%"),
        }
    }

    /// Which direction is good.
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
