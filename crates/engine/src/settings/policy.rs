//! Settings of queues, drops and payloads: priorities, rules for full queues, dead letters, topics of pipelines.

use std::sync::Arc;

use super::OverflowPolicy;
use crate::events::reason::Reason;
use crate::ids::TenantId;

/// Topics of a pipeline of the hub.
#[derive(Clone, Debug)]
pub struct HubFilter {
    /// The tenant of the topics.
    pub tenant: TenantId,
    /// The topic filter.
    pub filter: String,
    /// Checks each payload before anyone gets the message; `None` checks nothing, and costs nothing.
    pub check: Option<Arc<dyn PayloadCheck>>,
}

impl HubFilter {
    /// Topics whose payloads are not checked.
    pub fn unchecked(tenant: TenantId, filter: &str) -> Self {
        Self { tenant, filter: filter.to_owned(), check: None }
    }
}

/// Decides whether a payload may be published. Called on a shard's thread: it answers at once, from memory, with work
/// that the length of the payload bounds.
pub trait PayloadCheck: std::fmt::Debug + Send + Sync {
    /// Why the broker refuses a message with this payload as [`Reason::PayloadRefused`]; `None` accepts it. Publishers
    /// of MQTT 5 get the text, so it is short and has no control characters.
    fn refusal(&self, payload: &[u8]) -> Option<String>;
}

/// The overflow policy for the queues of some clients, or for some topics. The first rule that fits decides; where none
/// does, [`QueueSettings`](super::QueueSettings) hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverflowRule {
    /// Client ids of the subscribers: `*` matches any text, `?` any one character, all else itself.
    pub clients: String,
    /// Topics of the messages; `None` is all.
    pub filter: Option<String>,
    /// The policy for a full queue.
    pub policy: OverflowPolicy,
    /// Messages that may wait in the whole queue of the session when one of this rule comes; `None` is as for all.
    pub max_messages: Option<u32>,
    /// Bytes that may wait in the whole queue of the session when a message of this rule comes; `None` is as for all.
    pub max_bytes: Option<u64>,
}

/// The source of a message's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrioritySource {
    /// The user property `priority` of its PUBLISH: one digit, 0 the least to 9.
    Property,
    /// The same for all, 0..=9.
    Fixed(u8),
}

/// Gives messages of some topics a priority. The first rule whose filter matches decides; messages of other topics have
/// priority 0. It changes the order in which MQTT delivers: messages of one topic overtake each other where their
/// priorities differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityRule {
    /// Topics of the messages.
    pub filter: String,
    /// The source of their priority.
    pub source: PrioritySource,
    /// The priority, 0..=9, if the source has none.
    pub default: u8,
}

/// The topics of dropped messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The topic of a dead letter is this prefix, `/` and the name of the reason. A dropped dead letter is only
    /// counted.
    pub prefix: String,
    /// Messages per second and shard, 1..; further ones are only counted.
    pub max_rate: u32,
    /// The reasons of drops that are published. A drop without the message at hand is never published.
    pub reasons: Vec<Reason>,
}
