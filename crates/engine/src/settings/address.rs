//! Addresses: names of topics by which mobile nodes are reached without subscribing.

/// Which topics are addresses, and what holds for the nodes behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSettings {
    /// What all addresses begin with: levels of a topic name, without a slash at either end.
    pub prefix: String,
    /// Whether publishing to groups and to all, and reading what is sent to others, needs a rule that allows it; what
    /// is allowed because no rule says otherwise does not suffice.
    pub guarded: bool,
    /// Groups that a node may be in.
    pub max_groups_per_node: u16,
    /// Seconds after which a message to nodes expires whose sender does not say; 0 is never.
    pub expiry_default_seconds: u32,
    /// Seconds after which every message to nodes expires, whatever its sender says; 0 leaves it to the sender.
    pub expiry_forced_seconds: u32,
    /// Seconds that what is addressed to a node is kept for when its session has ended; 0 keeps nothing beyond the
    /// session, `u32::MAX` keeps it without end.
    pub node_expiry_seconds: u32,
    /// Nodes of a shard whose session has ended and for which something may be kept; 0 is no limit. Beyond it, sessions
    /// end with what they are owed.
    pub max_mailboxes: u32,
    /// Whether QoS 0 messages to nodes that are away are kept, as if they had QoS 1.
    pub keep_qos0: bool,
    /// Whether there is an observer of what clients publish for applications,
    /// [`ObserverId::APPLICATIONS`](crate::ObserverId::APPLICATIONS).
    pub records: bool,
    /// Filters of the topics that [`ObserverId::REPORTS`](crate::ObserverId::REPORTS) observes: what mobile nodes say of
    /// themselves. Only of the tenant of all who have none.
    pub reports: Vec<String>,
    /// Which of them nobody can use: they are refused where their client can be told so.
    pub unusable_report: Option<ReportCheck>,
}

/// Says of the prefix of addresses, a topic and a payload whether that is a report that nobody can use. It looks at
/// nothing else.
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
