//! Addresses: names of topics by which mobile nodes are reached without subscribing.

/// The topics that are addresses, and the terms of the nodes behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSettings {
    /// The prefix of all addresses: levels of a topic name, without a slash at either end.
    pub prefix: String,
    /// True if publishing to groups and to all nodes, and reading messages to other nodes, needs an explicit rule. The
    /// default of the rules does not suffice.
    pub guarded: bool,
    /// Groups that a node may be in.
    pub max_groups_per_node: u16,
    /// Seconds after which a message to nodes expires whose sender does not say; 0 is never.
    pub expiry_default_seconds: u32,
    /// Seconds after which every message to nodes expires, whatever its sender says; 0 leaves it to the sender.
    pub expiry_forced_seconds: u32,
    /// Seconds that messages to a node are kept after its session has ended; 0 keeps nothing beyond the session,
    /// `u32::MAX` keeps them without end.
    pub node_expiry_seconds: u32,
    /// Nodes of a shard with an ended session and kept messages; 0 is no limit. Beyond it, a session's messages end
    /// with the session.
    pub max_mailboxes: u32,
    /// Whether QoS 0 messages to nodes that are away are kept, as if they had QoS 1.
    pub keep_qos0: bool,
    /// True if there is an observer of messages to applications,
    /// [`ObserverId::APPLICATIONS`](crate::ObserverId::APPLICATIONS).
    pub records: bool,
    /// Filters of the topics that [`ObserverId::REPORTS`](crate::ObserverId::REPORTS) observes: reports of mobile nodes
    /// about themselves. Only in the default tenant.
    pub reports: Vec<String>,
    /// Finds unusable reports: they are refused if the client can be notified.
    pub unusable_report: Option<ReportCheck>,
}

/// True if a report is unusable, from the prefix of addresses, the topic and the payload alone.
#[derive(Clone, Copy)]
pub struct ReportCheck(pub fn(&str, &str, &[u8]) -> bool);

impl ReportCheck {
    pub(crate) fn holds(self, prefix: &str, topic: &str, payload: &[u8]) -> bool {
        (self.0)(prefix, topic, payload)
    }
}

impl std::fmt::Debug for ReportCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReportCheck")
    }
}

// A program has one; settings differ in whether they name it.
impl PartialEq for ReportCheck {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ReportCheck {}

impl Default for AddressSettings {
    fn default() -> Self {
        Self {
            prefix: "ctx".to_owned(),
            guarded: true,
            max_groups_per_node: 256,
            expiry_default_seconds: 86_400,
            expiry_forced_seconds: 0,
            node_expiry_seconds: 86_400,
            max_mailboxes: 1_000_000,
            keep_qos0: true,
            records: false,
            reports: Vec::new(),
            unusable_report: None,
        }
    }
}
