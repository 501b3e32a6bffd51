//! The register of topics (`CTX-62`): their names, contents and retention.
//!
//! The names are the study's, after the prefix of the bus (`PREFIX.NAME` on Kafka).

use std::time::Duration;

use tidegate_bus::{LogName, LogSpec, NameError};

/// A log of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// A gateway has come. Key: gateway.
    HelloPoA,
    /// The load of a gateway. Key: gateway.
    LoadReport,
    /// The nodes connected to a gateway. Key: `gateway/part`.
    ConnectionReport,
    /// How a gateway is to ping. Key: gateway.
    PingConfig,
    /// The active gateways. Key: `GWList`.
    GWList,
    /// Nodes that are to go elsewhere. Key: node.
    Handover,
    /// Contexts of nodes. Key: node.
    ContextReport,
    /// Groups of nodes. Key: `definer/node`, or the definer for whole reports.
    GroupAdvertisement,
    /// Messages of nodes for applications. Key: node.
    AppModel,
    /// Messages of applications to a node. Key: node.
    PrivateMessageTopic,
    /// Messages of applications to a group. Key: group.
    GroupMessageTopic,
    /// Messages of applications to all nodes.
    BroadcastMessageTopic,
    /// Records of the three before that are no messages.
    RejectedRecords,
    /// How far those are delivered. Key: `consumer/topic/partition`.
    DeliveryPositions,
}

/// Most records of a partition in which the latest of each key is kept; older ones than the latest go first.
const MAX_KEYED_RECORDS: u64 = 4_000_000;

/// How the logs of [`Topic::APPLICATIONS`] are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// How long a record is kept.
    pub keep_for: Duration,
    /// Bytes of a partition.
    pub max_bytes: u64,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self { keep_for: Duration::from_secs(7 * 86_400), max_bytes: 64 * 1024 * 1024 }
    }
}

impl Topic {
    /// Topics with states.
    pub const ALL: [Self; 8] = [
        Self::HelloPoA,
        Self::LoadReport,
        Self::ConnectionReport,
        Self::PingConfig,
        Self::GWList,
        Self::Handover,
        Self::ContextReport,
        Self::GroupAdvertisement,
    ];

    /// Those between nodes and applications.
    pub const APPLICATIONS: [Self; 6] = [
        Self::AppModel,
        Self::PrivateMessageTopic,
        Self::GroupMessageTopic,
        Self::BroadcastMessageTopic,
        Self::RejectedRecords,
        Self::DeliveryPositions,
    ];
    /// Topics from applications to nodes.
    pub const TO_NODES: [Self; 3] = [Self::PrivateMessageTopic, Self::GroupMessageTopic, Self::BroadcastMessageTopic];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::HelloPoA => "HelloPoA",
            Self::LoadReport => "LoadReport",
            Self::ConnectionReport => "ConnectionReport",
            Self::PingConfig => "PingConfig",
            Self::GWList => "GWList",
            Self::Handover => "handover",
            Self::ContextReport => "ContextReport",
            Self::GroupAdvertisement => "GroupAdvertisement",
            Self::AppModel => "AppModel",
            Self::PrivateMessageTopic => "PrivateMessageTopic",
            Self::GroupMessageTopic => "GroupMessageTopic",
            Self::BroadcastMessageTopic => "BroadcastMessageTopic",
            Self::RejectedRecords => "RejectedRecords",
            Self::DeliveryPositions => "DeliveryPositions",
        }
    }

    /// Whether all records are kept for a while, rather than the latest of each key.
    fn is_stream(self) -> bool {
        self == Self::AppModel || self == Self::RejectedRecords || Self::TO_NODES.contains(&self)
    }

    /// Whether it has the partitions of nodes, rather than one.
    pub fn is_partitioned(self) -> bool {
        matches!(self, Self::ContextReport | Self::GroupAdvertisement | Self::AppModel)
            || Self::TO_NODES.contains(&self)
    }

    /// The number of its partitions, from the number for nodes.
    pub fn partitions(self, of_nodes: u32) -> u32 {
        if self.is_partitioned() { of_nodes } else { 1 }
    }

    /// Its log. All clients of the bus may append. The latest record of each key is kept, so that a later reader gets
    /// the current state, or all records for as long as `limits` say.
    ///
    /// # Errors
    /// Never, as far as names of logs go.
    pub fn spec(self, of_nodes: u32, limits: RecordLimits) -> Result<LogSpec, NameError> {
        let spec = LogSpec::shared(LogName::new(self.name())?, self.partitions(of_nodes));
        if self.is_stream() {
            return Ok(LogSpec { keep_for: Some(limits.keep_for), max_bytes: limits.max_bytes, ..spec });
        }
        Ok(LogSpec { max_records: MAX_KEYED_RECORDS, ..spec }.latest_of_key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_topics_have_names_of_their_own() {
        let all: Vec<Topic> = Topic::ALL.into_iter().chain(Topic::APPLICATIONS).collect();
        let spec = |topic: Topic| topic.spec(8, RecordLimits::default()).unwrap();
        let mut names: Vec<String> = all.iter().map(|topic| spec(*topic).name.to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert_eq!((spec(Topic::ContextReport).partitions, spec(Topic::AppModel).partitions), (8, 8));
        assert_eq!((spec(Topic::LoadReport).partitions, spec(Topic::RejectedRecords).partitions), (1, 1));
        assert_eq!(spec(Topic::DeliveryPositions).keep_for, None, "a position is of use until the next one");
    }
}
