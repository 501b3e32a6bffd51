//! Addresses: names of topics by which mobile nodes are reached without subscribing.

/// Which topics are addresses, and what holds for the nodes behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSettings {
    /// What all addresses begin with: levels of a topic name, without a slash at either end.
    pub prefix: String,
    /// Whether publishing to groups and to all, and reading what is sent to others, needs a rule that allows it; what is
    /// allowed because no rule says otherwise does not suffice.
    pub guarded: bool,
    /// Groups that a node may be in.
    pub max_groups_per_node: u16,
}

impl Default for AddressSettings {
    fn default() -> Self {
        Self { prefix: "ctx".to_owned(), guarded: true, max_groups_per_node: 256 }
    }
}
