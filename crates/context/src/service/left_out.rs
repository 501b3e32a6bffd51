//! Unusable messages of clients, definers and others on the bus: their causes.

use crate::groups::{
    AdvertisementRefused, ContextRefused, MAX_CONTEXT_BYTES, MAX_DEFINERS, MAX_GROUPS, MAX_MEMBER_NODES, MAX_NODES,
    Memberships,
};
use crate::messages::{GroupAdvertisement, Payload};
use crate::topics::{Said, is_object};

/// Longest client id of a node that takes part, bytes: it is part of keys on the bus. Others are served and not
/// reported.
pub(super) const MAX_NODE_BYTES: usize = 512;
/// Longest advertisement of a client, bytes: the room in a record of the bus, beside its key.
const MAX_ADVERTISEMENT_BYTES: usize = 990_000;

/// Why something that was said is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// A context that is too long.
    #[error("a context has more than {MAX_CONTEXT_BYTES} bytes; send what groups need, and the rest on another topic")]
    TooLong,
    /// A context that is something else.
    #[error("a context is not a JSON object (an empty payload means that the node is removed)")]
    NotJson,
    /// A name that no key on the bus can have.
    #[error("a client id is empty or has more than {MAX_NODE_BYTES} bytes; the node is served without events")]
    Name,
    /// An invalid advertisement.
    #[error(
        "an advertisement of groups was rejected: it is not the JSON of docs/context.md, has an invalid name, or neither `node` nor `members`"
    )]
    Advertisement,
    /// An advertisement in another definer's name.
    #[error("an advertisement of groups names another definer than its topic")]
    Definer,
    /// More than a gateway or a definer keeps, or the bus takes.
    #[error(
        "there are more than {MAX_DEFINERS} definers, {MAX_GROUPS} groups of one definer for a node, {MAX_MEMBER_NODES} nodes in groups, \
         {MAX_NODES} nodes of a partition, or {MAX_ADVERTISEMENT_BYTES} bytes of an advertisement"
    )]
    Limit,
    /// More groups than the broker lets a node be in.
    #[error(
        "a node would be in more groups than addresses.max_groups_per_node; its groups stay unchanged until a change with fewer"
    )]
    Groups,
    /// An invalid record between services.
    #[error("a record on the bus does not belong to its log; find the other process that appends to the core's logs")]
    Record,
    /// A context or an advertisement that the bus has not stored.
    #[error(
        "the bus did not store a context or an advertisement; its publisher got an error if it asked for an acknowledgement"
    )]
    NotStored,
}

impl LeftOut {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::TooLong,
        Self::NotJson,
        Self::Name,
        Self::Advertisement,
        Self::Definer,
        Self::Limit,
        Self::Groups,
        Self::Record,
        Self::NotStored,
    ];

    /// Its word in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::NotJson => "not_json",
            Self::Name => "name",
            Self::Advertisement => "advertisement",
            Self::Definer => "definer",
            Self::Limit => "limit",
            Self::Groups => "groups",
            Self::Record => "record",
            Self::NotStored => "not_stored",
        }
    }
}

impl From<AdvertisementRefused> for LeftOut {
    fn from(refused: AdvertisementRefused) -> Self {
        match refused {
            AdvertisementRefused::TooMany => Self::Limit,
            AdvertisementRefused::Invalid | AdvertisementRefused::Outdated => Self::Advertisement,
        }
    }
}

impl From<ContextRefused> for LeftOut {
    fn from(refused: ContextRefused) -> Self {
        match refused {
            ContextRefused::TooLong(_) => Self::TooLong,
            ContextRefused::NotJson(_) => Self::NotJson,
            ContextRefused::TooManyNodes => Self::Limit,
        }
    }
}

impl Said {
    /// Whether it can be used.
    ///
    /// # Errors
    /// When it is left out.
    pub fn check(&self) -> Result<(), LeftOut> {
        match self {
            Self::Context { node, context } => check_context(node, context),
            Self::Advertisement { definer, payload } => read_advertisement(definer, payload).map(drop),
        }
    }
}

/// Checks that a node's context can be published.
pub(super) fn check_context(node: &str, context: &[u8]) -> Result<(), LeftOut> {
    if node.is_empty() || node.len() > MAX_NODE_BYTES {
        return Err(LeftOut::Name);
    }
    if context.len() > MAX_CONTEXT_BYTES {
        return Err(LeftOut::TooLong);
    }
    if context.is_empty() || is_object(context) { Ok(()) } else { Err(LeftOut::NotJson) }
}

/// Reads the advertisement of a client as a definer.
pub(super) fn read_advertisement(definer: &str, payload: &[u8]) -> Result<GroupAdvertisement, LeftOut> {
    if payload.len() > MAX_ADVERTISEMENT_BYTES {
        return Err(LeftOut::Limit);
    }
    let advertisement = GroupAdvertisement::read(payload).map_err(|_| LeftOut::Advertisement)?;
    if advertisement.definer != definer {
        return Err(LeftOut::Definer);
    }
    let members = advertisement.members.iter().flat_map(std::collections::BTreeMap::keys);
    if advertisement.node.iter().chain(members).any(|node| node.is_empty() || node.len() > MAX_NODE_BYTES) {
        return Err(LeftOut::Name);
    }
    Memberships::check(&advertisement)?;
    Ok(advertisement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_data_has_a_cause() {
        let context = |node: &str, text: &str| check_context(node, text.as_bytes());
        let long = format!("{{\"x\":\"{}\"}}", "y".repeat(MAX_CONTEXT_BYTES));
        assert_eq!(context("n", r#"{"x":1}"#), Ok(()));
        assert_eq!(context("n", ""), Ok(()), "it has gone for good");
        for text in ["x", "[1]", "7", r#"{"x":"#, "\u{feff}{}", "{} {}", "NaN"] {
            assert_eq!(context("n", text), Err(LeftOut::NotJson), "{text}");
        }
        // Text that looks like an object and cannot be parsed.
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(4_000), "]".repeat(4_000));
        for text in [r#"{"x":1e400}"#, r#"{"x":"\ud800"}"#, &deep] {
            assert_eq!(context("n", text), Err(LeftOut::NotJson), "{text:.20}");
        }
        assert_eq!(check_context("n", b"{\"x\":\"\xff\"}"), Err(LeftOut::NotJson));
        assert_eq!(context("n", r#"{"x":[1,-2.5,true,null,{"y":"\u00e9"}]}"#), Ok(()));
        assert_eq!(context("n", &long), Err(LeftOut::TooLong));
        assert_eq!(context("", "{}"), Err(LeftOut::Name));
        assert_eq!(context(&"n".repeat(MAX_NODE_BYTES + 1), "{}"), Err(LeftOut::Name));
        let said = |definer: &str, text: &str| read_advertisement(definer, text.as_bytes()).map(drop);
        assert_eq!(said("gd", r#"{"definer":"gd","node":"n1","groups":["a"]}"#), Ok(()));
        assert_eq!(said("gd", r#"{"definer":"gd","members":{"n1":["a"]}}"#), Ok(()));
        assert_eq!(said("gd", r#"{"definer":"other","node":"n1","groups":["a"]}"#), Err(LeftOut::Definer));
        for text in ["", "x", "{}", r#"{"definer":"gd"}"#, r#"{"definer":"gd","node":"n1","groups":["a/b"]}"#] {
            assert_eq!(said("gd", text), Err(LeftOut::Advertisement), "{text}");
        }
        assert_eq!(said("gd", r#"{"definer":"gd","node":"","groups":["a"]}"#), Err(LeftOut::Name));
        assert_eq!(said("gd", r#"{"definer":"gd","members":{"":["a"]}}"#), Err(LeftOut::Name));
        let groups: Vec<String> = (0..=MAX_GROUPS).map(|group| format!("g{group}")).collect();
        let many = GroupAdvertisement { definer: "gd".into(), node: Some("n".into()), groups, ..Default::default() };
        assert_eq!(read_advertisement("gd", &many.write()).map(drop), Err(LeftOut::Limit));
        let short = r#"{"definer":"gd","node":"n1","groups":["a"]}"#;
        let longest = short.to_owned() + &" ".repeat(MAX_ADVERTISEMENT_BYTES - short.len());
        assert_eq!((said("gd", &longest), said("gd", &(longest.clone() + " "))), (Ok(()), Err(LeftOut::Limit)));
    }
}
