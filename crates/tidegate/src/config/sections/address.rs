//! Addresses of mobile nodes.

use crate::config::key::{Key, Section, SectionKeys, section};
use crate::config::value::{Kind, Problem, Range, Raw, Value};

section! {
    /// Addresses: clients are mobile nodes, which get what is published to `PREFIX/to/node/CLIENT_ID/...`,
    /// `PREFIX/to/group/GROUP/...` and `PREFIX/to/all/...` without subscribing. See [addresses](addresses.md).
    "addresses" => Addresses, ADDRESSES {
        /// Whether there are addresses. They take effect with a restart.
        enabled: bool = false, in Kind::Boolean;
        /// What all addresses begin with: one or more levels of a topic name.
        prefix: String = "ctx".to_owned(), in Kind::Text { max_len: 256 };
        /// Whether publishing to groups and to all nodes, and reading what is sent to others, needs a rule of `[access]` that
        /// allows it. What is allowed for want of a rule does not suffice then.
        guarded: bool = true, in Kind::Boolean;
        /// Groups that a node may be in.
        max_groups_per_node: u16 = 256, in Kind::Integer(Range::of(1, 65_535));
    }
}
