//! Receipts: the outcome of messages to nodes, sent to their publishers.
//!
//! A publisher asks for them with a user property. The broker adds the address of the receipts as another one, so that
//! all data travels with the message: to other shards, into the store, and back.

use crate::ids::TenantId;
use crate::topics::is_own_topic;
use crate::topics::origin::ORIGIN_PROPERTY;
use std::collections::VecDeque;
use std::fmt::Write;
use tidegate_mqtt::{PublishProperties, QoS, TopicName};

/// Receipts that wait for the end of the current work; further ones are dropped.
pub(super) const WAITING_MAX: usize = 4096;

/// User property by which a sender asks for receipts.
pub(crate) const ASKS: &str = "receipt";

/// User property that says where they go, set by the broker.
pub(crate) const GOES_TO: &str = "receipt-to";

/// User property that tells messages to several nodes apart, set by the broker.
pub(crate) const NUMBER: &str = "receipt-id";

/// User properties that only the broker sets. They are removed from clients' messages to addresses: a client that sets
/// the address of receipts could make the broker publish to a forbidden topic.
pub(crate) const SET_BY_BROKER: [&str; 3] = [GOES_TO, NUMBER, ORIGIN_PROPERTY];

/// The receipts that a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    pub to: &'a str,
    pub correlation: Option<&'a [u8]>,
    /// True if storing the message is reported, too.
    pub all: bool,
    pub number: u64,
}

impl<'a> Asked<'a> {
    /// Reads the properties of a message on its way.
    pub(crate) fn read(properties: &'a [u8]) -> Option<Self> {
        let properties = PublishProperties::decode(properties).ok()?;
        let mut asked = Self { to: "", correlation: properties.correlation_data, all: false, number: 0 };
        for (name, value) in &properties.user_properties {
            match name {
                ASKS => asked.all = value == "all",
                GOES_TO => asked.to = value,
                NUMBER => asked.number = u64::from_str_radix(value, 16).unwrap_or(0),
                _ => {}
            }
        }
        let may_go = TopicName::new(asked.to).is_ok() && !is_own_topic(asked.to);
        may_go.then_some(asked)
    }
}

/// A receipt on its way to the publisher.
#[derive(Debug)]
pub(crate) struct Receipt {
    /// The node that it is about, whose home publishes it; none if it counts several nodes.
    pub node: Option<Box<str>>,
    pub tenant: TenantId,
    pub to: Box<str>,
    pub correlation: Option<Box<[u8]>>,
    pub qos: QoS,
    pub payload: String,
}

impl Receipt {
    pub(crate) fn new(tenant: TenantId, node: Option<&str>, asked: &Asked<'_>, qos: QoS, payload: String) -> Self {
        let qos = qos.min(QoS::AtLeastOnce);
        let (node, correlation) = (node.map(Into::into), asked.correlation.map(Into::into));
        Self { node, tenant, to: asked.to.into(), correlation, qos, payload }
    }
}

/// Receipts that wait.
#[derive(Debug, Default)]
pub(crate) struct Receipts {
    pub(crate) waiting: VecDeque<Receipt>,
}

impl Receipts {
    pub(crate) fn push(&mut self, receipt: Receipt) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(receipt);
        }
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.waiting.shrink_to_fit();
    }

    /// Whether no receipt waits to be published.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// A text as JSON writes it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// Receipts that there are.
pub(crate) const RECEIPTS: [&str; 2] = ["delivered", "all"];

/// Whether a sender asks for receipts that there are not.
pub(crate) fn asks_for_unknown_receipts(properties: &PublishProperties<'_>) -> bool {
    properties.user_properties.iter().any(|(name, value)| name == ASKS && !RECEIPTS.contains(&value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::dead_letter::put_user_property;

    #[test]
    fn texts_are_written_as_json() {
        assert_eq!(quoted("a\"b\\c\n\u{e9}"), "\"a\\\"b\\\\c\\u000a\u{e9}\"");
    }

    #[test]
    fn receipts_go_to_topics_that_can_be_published_to() {
        let asked = |to: &str| {
            let mut properties = Vec::new();
            for (name, value) in [(ASKS, "all"), (GOES_TO, to), (NUMBER, "ff")] {
                put_user_property(&mut properties, name, value);
            }
            Asked::read(&properties).map(|asked| (asked.to.to_owned(), asked.all, asked.number))
        };
        assert_eq!(asked("ctx/receipts/me"), Some(("ctx/receipts/me".to_owned(), true, 255)));
        for nowhere in ["", "a/#", "+/b", "$SYS/x"] {
            assert_eq!(asked(nowhere), None, "{nowhere}");
        }
        assert_eq!(Asked::read(&[]), None);
    }
}
