//! The record in which a node describes itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{RecordError, Table};

/// The addresses of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// By the other nodes, for their links: `ADDRESS:PORT`.
    pub cluster: String,
    /// By the other nodes, for clients that they relay: `ADDRESS:PORT`.
    pub relay: String,
    /// By clients, for server references; empty for none.
    pub mqtt: String,
    /// The admin API, for people; empty for none.
    pub admin: String,
}

/// True for a fact that earlier versions do not know and that does not hold: it is left out for them.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_unset(fact: &bool) -> bool {
    !*fact
}

/// True for a version that earlier versions do not know: it is left out for them.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(version: &u16) -> bool {
    *version == 0
}

/// The size of a node's share of the partitions in relation to the shares of other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Weight(pub u16);

impl Weight {
    /// The weight of a node whose advert names none.
    pub const USUAL: Self = Self(100);

    /// The greatest weight that counts. With it a node has at most 1,000 times the share of another.
    pub const MAX: Self = Self(1_000);

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_usual(&self) -> bool {
        *self == Self::USUAL
    }

    /// From 1 to [`Weight::MAX`], whatever the record says.
    pub(crate) fn counted(self) -> u64 {
        u64::from(self.0.clamp(1, Self::MAX.0))
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::USUAL
    }
}

/// The record in which a node describes itself; the latest one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent facts, as the record has it")]
pub struct Advert {
    /// The life of the node that says so.
    pub life: u64,
    /// The process that says so: greater with each start of the node, and the same for all lives of one process.
    pub incarnation: u64,
    /// The life that has certainly ended: the process's own former one, or that of a process which had the same files, or
    /// the same store and listened in the same place.
    pub after: Option<u64>,
    /// Its addresses.
    pub addresses: Addresses,
    /// It takes no partitions, and hands over its partitions.
    pub leaving: bool,
    /// It stays a member although it takes no partitions: it was not asked to take a share yet.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub stays: bool,
    /// It is an orchestrator whose connections to brokers wait for the end of its last life's connections: it takes no partitions
    /// as long as another member takes them.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub waits: bool,
    /// The size of its share in relation to others.
    #[serde(default, skip_serializing_if = "Weight::is_usual")]
    pub weight: Weight,
    /// It prepares moves: it sends long queues ahead, and says when that is done. Nodes of earlier versions do not.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub prepares: bool,
    /// Moves that are prepared as far as this node does it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub prepared: BTreeSet<u64>,
    /// Moves whose partitions are here as a whole.
    pub arrived: BTreeSet<u64>,
    /// Moves that this node cannot do its part of.
    pub refused: BTreeSet<u64>,
    /// It writes messages to the bus of the cluster before it acknowledges them: other nodes can take them over.
    #[serde(default)]
    pub kept: bool,
    /// It is an orchestrator: its messages cross by brokers. All nodes of a cluster are, or none.
    #[serde(default, skip_serializing_if = "is_unset")]
    pub orchestrator: bool,
    /// The prefix of the topics that this orchestrator exchanges with the others over links: that of its addresses. All
    /// orchestrators of a cluster have the same one, or none has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_prefix: Option<String>,
    /// The version of the rules by which this orchestrator deals to shared groups ([`GROUP_VERSION`]); 0 of a node, and of an
    /// orchestrator of an earlier version. All orchestrators of a cluster have the same one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub group_version: u16,
    /// Its `cluster.balance`, which decides while it leads; `None` of a node of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<String>,
    /// Checksums of the sections of its configuration that all members have alike; none of a node of an earlier version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub alike: BTreeMap<String, String>,
    /// The newest table that this node knows, where it is not in the log of tables: the bus has lost it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Box<Table>>,
    /// It owns the log of tables.
    #[serde(default)]
    pub leads: bool,
    /// Nodes whose processes have ended as far as this one can tell, since their addresses refuse connections, and in
    /// which life.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ended: BTreeMap<String, u64>,
    /// Partitions of dead nodes that were fetched, and since which epoch they are here.
    #[serde(default)]
    pub restored: BTreeMap<u16, u64>,
}

/// The version of the rules by which orchestrators deal to shared groups: 1 is one dealer for each group, with 2 the messages that wait in
/// stores have names. A member of another version would deal messages once more, or not read the store of a dead one.
pub const GROUP_VERSION: u16 = 2;

/// Whether the messages of a node cross by brokers, which topics do not ([`Advert::address_prefix`]), and by which version
/// shared groups are dealt ([`Advert::group_version`]). The members of a cluster are of one kind.
pub type MemberKind<'a> = (bool, Option<&'a str>, u16);

impl Advert {
    /// The kind of the node.
    pub fn kind(&self) -> MemberKind<'_> {
        (self.orchestrator, self.address_prefix.as_deref(), self.group_version)
    }

    /// Whether the process is about to end.
    pub(crate) fn ends(&self) -> bool {
        self.leaving && !self.stays
    }

    /// As a record.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Texts, numbers and lists: nothing of it can fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When the bytes are no advert.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}
