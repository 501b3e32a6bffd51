//! `GET /api/v1/totals`: the totals of a cluster and of each node.

use serde::{Deserialize, Serialize};

use crate::request::{Method, Request};

/// Asks for the totals of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetTotals;

impl Request for GetTotals {
    type Answer = Totals;
    const METHOD: Method = Method::Get;
    const ROUTE: &'static str = "/api/v1/totals";
}

/// The totals of all nodes together, and of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// The sums over the nodes that answered.
    #[serde(default)]
    pub sum: Amount,
    /// Nodes of the cluster that answered, or the one broker.
    #[serde(default)]
    pub nodes: Vec<NodeTotals>,
    /// Nodes of the cluster that did not answer, or refused.
    #[serde(default)]
    pub unreachable: Vec<String>,
}

/// The totals of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTotals {
    /// Its name.
    pub node: String,
    /// Its totals.
    #[serde(flatten)]
    pub amount: Amount,
}

/// Amounts at one node or at all nodes. Counters begin with the start of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Amount {
    /// Connected clients.
    pub clients_connected: u64,
    /// Sessions, with a connection or without one.
    pub sessions: u64,
    /// Subscriptions, with memberships in shared groups.
    pub subscriptions: u64,
    /// Retained messages.
    pub retained_messages: u64,
    /// Messages that wait in queues.
    pub queued_messages: u64,
    /// Bytes of the messages that wait in queues.
    pub queued_bytes: u64,
    /// Messages received from publishers.
    pub messages_in: u64,
    /// Messages sent to subscribers.
    pub messages_out: u64,
    /// Messages that were dropped, for any reason.
    pub messages_dropped: u64,
    /// Bytes received from clients.
    pub bytes_in: u64,
    /// Bytes sent to clients.
    pub bytes_out: u64,
}

impl Amount {
    /// Adds the amounts at another node, up to the greatest number.
    pub fn add(&mut self, other: &Self) {
        let add = |mine: &mut u64, theirs: u64| *mine = mine.saturating_add(theirs);
        add(&mut self.clients_connected, other.clients_connected);
        add(&mut self.sessions, other.sessions);
        add(&mut self.subscriptions, other.subscriptions);
        add(&mut self.retained_messages, other.retained_messages);
        add(&mut self.queued_messages, other.queued_messages);
        add(&mut self.queued_bytes, other.queued_bytes);
        add(&mut self.messages_in, other.messages_in);
        add(&mut self.messages_out, other.messages_out);
        add(&mut self.messages_dropped, other.messages_dropped);
        add(&mut self.bytes_in, other.bytes_in);
        add(&mut self.bytes_out, other.bytes_out);
    }
}
