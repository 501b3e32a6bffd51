//! Queues under pressure: rules for full queues, priorities, and dead letters.

use tidegate_engine::OverflowPolicy;

use crate::key::{Key, Section, SectionKeys, section};
use crate::list::Texts;
use crate::value::{Kind, Problem, Range, Raw, Value, Words, words};
use tidegate_units::size::{Bytes, KIB, TIB};

/// Longest topic, filter or pattern, bytes.
const MAX_TEXT: usize = 65_535;

section! {
    /// The policy at a full queue of some clients, or for messages of some topics, instead of the policy in `[queue]`.
    /// The first section that matches client and topic decides.
    "overflow" [repeated = true] => Overflow, OVERFLOW {
        /// Client ids of the subscribers: `*` matches any text, `?` any one character, all else itself.
        clients: String = "*".to_owned(), in Kind::Text { max_len: MAX_TEXT };
        /// Topic filter of the messages.
        filter: String = "#".to_owned(), in Kind::Text { max_len: MAX_TEXT };
        /// The policy when the queue is full.
        policy: OverflowPolicy = OverflowPolicy::DropNewest, in Kind::OneOf(<OverflowPolicy as Words>::WORDS);
        /// Maximum number of messages in the queue of the session when one of these arrives.
        max_messages: u32 = 0, in Kind::Integer(Range::of(1, 1_000_000_000).or_zero("as in `[queue]`"));
        /// Maximum number of bytes in the queue of the session when one of these messages arrives.
        max_bytes: Bytes = Bytes(0), in Kind::Size(Range::of(KIB, TIB).or_zero("as in `[queue]`"));
    }
}

words! {
    /// The source of a message's priority.
    pub enum LevelSource {
        Property => "property", "the user property `priority` of the message: one digit, `0` the least to `9`";
        Fixed => "fixed", "`level` for all";
    }
}

section! {
    /// Gives messages of some topics a priority: where messages wait for a client, higher ones go first, and first in,
    /// first out within one. The first one whose filter matches decides; messages of other topics have priority 0. This
    /// changes the order in which MQTT delivers, so nothing has a priority unless it is asked for here.
    "priority" [repeated = true] => Priority, PRIORITY {
        /// Topic filter of the messages.
        filter: String = "#".to_owned(), in Kind::Text { max_len: MAX_TEXT };
        /// The source of the priority.
        source: LevelSource = LevelSource::Property, in Kind::OneOf(<LevelSource as Words>::WORDS);
        /// The priority of all messages (`fixed`), or of messages without one (`property`).
        level: u8 = 0, in Kind::Integer(Range::of(0, 9));
    }
}

section! {
    /// Dropped messages are published once more, to a topic of their own: `TOPIC/REASON`, with the names of
    /// [reasons](reasons.md). The user properties `dead-letter-topic` and `dead-letter-reason` have the original topic
    /// and the reason. A dead letter that is dropped itself is only counted.
    "dead_letter" => DeadLetters, DEAD_LETTER {
        /// The topic; empty publishes nothing. One that begins with `$` is not matched by `#`.
        topic: String = String::new(), in Kind::Text { max_len: 1024 };
        /// Messages per second; further ones are only counted. Divided evenly between the shards.
        max_rate: u32 = 1_000, in Kind::Integer(Range::of(1, 1_000_000));
        /// Reasons whose messages are published, by their names. An empty list is all of the default. Two more are
        /// published when they are named: `queue_replaced`, and `offline_qos0` for QoS 0 messages of subscribers that
        /// are away.
        reasons: Texts = Texts(DEAD_LETTER_REASONS.iter().map(|name| (*name).to_owned()).collect()), in Kind::Texts;
    }
}

/// Reasons at which a message is there to be published once more.
pub const DEAD_LETTER_REASONS: &[&str] = &[
    "queue_full_drop_newest",
    "queue_full_drop_oldest",
    "queue_full_disconnect",
    "queue_full_reject",
    "blocked_too_long",
    "memory_ceiling",
    "message_expired",
    "no_group_member",
    "refused_by_receiver",
    "session_expired",
    "session_discarded",
    "subscriber_packet_limit",
];

/// Further reasons with a known message; these may be as frequent as messages.
pub const DEAD_LETTER_REASONS_IF_NAMED: &[&str] = &["queue_replaced", "offline_qos0"];
