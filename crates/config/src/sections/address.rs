//! Addresses of mobile nodes.

use std::time::Duration;

use crate::key::{Key, Section, SectionKeys, section};
use crate::value::{Kind, Lifetime, Problem, Range, Raw, Value};

/// One second, in the milliseconds that ranges of durations count.
const SECOND: u64 = 1_000;
/// The longest time that a message may ask for, so that sums of times stay far from their bounds.
const MONTHS: u64 = 400 * 86_400 * SECOND;

section! {
    /// Addresses: clients are mobile nodes, which receive the messages published to `PREFIX/to/node/CLIENT_ID/...`,
    /// `PREFIX/to/group/GROUP/...` and `PREFIX/to/all/...` without subscribing. See [addresses](addresses.md).
    "addresses" => Addresses, ADDRESSES {
        /// Whether there are addresses. They take effect with a restart.
        enabled: bool = false, in Kind::Boolean;
        /// The beginning of all addresses: one or more levels of a topic name.
        prefix: String = "ctx".to_owned(), in Kind::Text { max_len: 256 };
        /// Whether four actions need a rule of `[access]` that allows them: to publish to groups and to all nodes, to
        /// publish the context of another node, to advertise groups, and to read messages to other nodes or from them.
        /// The default of `[access]` does not suffice then.
        guarded: bool = true, in Kind::Boolean;
        /// Groups that a node may be in.
        max_groups_per_node: u16 = 256, in Kind::Integer(Range::of(1, 65_535));
        /// After which time a message to nodes expires whose sender does not say, as MQTT 3 clients cannot.
        expiry_default: Duration = Duration::from_secs(86_400), in Kind::Seconds(Range::of(SECOND, MONTHS).or_zero("never"));
        /// After which time every message to nodes expires, whatever its sender says.
        expiry_forced: Duration = Duration::ZERO, in Kind::Seconds(Range::of(SECOND, MONTHS).or_zero("as the sender says, or by default"));
        /// How long messages to a node are kept when its session has ended.
        node_expiry: Lifetime = Lifetime::For(Duration::from_secs(86_400)), in Kind::Lifetime(Range::of(0, 4_294_967_294 * SECOND));
        /// Maximum number of nodes without a session whose messages are kept. Beyond it sessions end and their messages
        /// are dropped. Divided evenly between the shards.
        max_mailboxes: u32 = 1_000_000, in Kind::Integer(Range::of(1, 1_000_000_000).or_zero("no limit"));
        /// Whether QoS 0 messages to nodes that are away are kept, as if they had QoS 1.
        keep_qos0: bool = true, in Kind::Boolean;
    }
}
