//! The register of topics (`CTX-62`): under which name what is told on the bus, and how it is kept.
//!
//! The names are those of the study. What stands before them is the prefix of the bus (`PREFIX.NAME` on Kafka).

use tidegate_bus::{LogName, LogSpec, NameError};

/// A log of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// A gateway has come. Key: gateway.
    HelloPoA,
    /// What a gateway carries. Key: gateway.
    LoadReport,
    /// Who is connected to a gateway. Key: `gateway/part`.
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
}

/// Most records of a partition in which the latest of each key is kept; older ones than the latest go first.
const MAX_KEYED_RECORDS: u64 = 4_000_000;

impl Topic {
    /// All of them.
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
        }
    }

    /// Whether it has the partitions of nodes, rather than one.
    pub fn is_partitioned(self) -> bool {
        matches!(self, Self::ContextReport | Self::GroupAdvertisement)
    }

    /// How many partitions it has where nodes have so many.
    pub fn partitions(self, of_nodes: u32) -> u32 {
        if self.is_partitioned() { of_nodes } else { 1 }
    }

    /// Its log. Everybody may append, and the latest record of each key is kept, so that whoever comes later knows how things
    /// stand.
    ///
    /// # Errors
    /// Never, as far as names of logs go.
    pub fn spec(self, of_nodes: u32) -> Result<LogSpec, NameError> {
        let spec = LogSpec::shared(LogName::new(self.name())?, self.partitions(of_nodes));
        Ok(LogSpec { max_records: MAX_KEYED_RECORDS, ..spec }.latest_of_key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_topics_have_names_of_their_own() {
        let mut names: Vec<String> = Topic::ALL.iter().map(|topic| topic.spec(8).unwrap().name.to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Topic::ALL.len());
        assert_eq!(Topic::ContextReport.spec(8).unwrap().partitions, 8);
        assert_eq!(Topic::LoadReport.spec(8).unwrap().partitions, 1);
    }
}
