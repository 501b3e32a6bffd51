//! How many clients a run has.

use tidegate_mqtt::Version;

/// How many clients there are, and how much they do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) publishers: u16,
    pub(crate) subscribers: u16,
    /// Clients that die with a will.
    pub(crate) mortals: u16,
    /// Subscribers of one group.
    pub(crate) members: u16,
    /// Members of that group whose sessions end with their connections.
    pub(crate) guests: u16,
    /// Applications that ask for receipts of their messages to mobile nodes.
    pub(crate) applications: u16,
    /// The broker puts mobile nodes into groups.
    pub(crate) has_node_groups: bool,
    /// Messages per second of all publishers.
    pub(crate) rate: u64,
    /// Half of the clients speak MQTT 5.0; else all speak 3.1.1.
    pub(crate) with_v5: bool,
}

impl Size {
    /// Clients that publish: the publishers and the applications.
    pub(crate) fn senders(&self) -> u16 {
        self.publishers + self.applications
    }

    /// The version for a client.
    pub(crate) fn version(&self, v5: bool) -> Version {
        if v5 && self.with_v5 { Version::V5 } else { Version::V311 }
    }
}
