//! What became of messages to nodes, told to their senders.
//!
//! Whoever sends asks with a user property. The broker adds where receipts go as another one, so that all there is to
//! know travels with the message: to other shards, into the store, and back.

use crate::desk::Reporting;
use crate::publish::origin::ORIGIN_PROPERTY;
use crate::publish::publishing::Publishing;
use std::collections::VecDeque;
use std::fmt::Write;

use tidegate_mqtt::{PublishProperties, QoS, TopicName};

use super::{Address, encoded};
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::message::{Message, Publication};
use crate::now::{Millis, Now};
use crate::publish::dead_letter::put_user_property;
use crate::telling::reason::Reason;
use crate::topics::is_own_topic;

/// Receipts that wait for the end of what is being worked on; what comes beyond is not told.
pub(super) const WAITING_MAX: usize = 4096;

/// User property by which a sender asks for receipts.
const ASKS: &str = "receipt";
/// User property that says where they go, set by the broker.
const GOES_TO: &str = "receipt-to";
/// User property that tells messages to several nodes apart, set by the broker.
const NUMBER: &str = "receipt-id";
/// What only the broker says. From anybody else it is left out of messages to addresses: whoever could say where
/// receipts go would have the broker publish where it may not publish itself.
pub(crate) const SET_BY_BROKER: &[&str] = &[GOES_TO, NUMBER, ORIGIN_PROPERTY];
/// Identifier of the property Correlation Data.
const CORRELATION_DATA: u8 = 0x09;

/// What became of a message to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The node has acknowledged it, or it was written to its connection, at QoS 0.
    Delivered,
    /// The node is away, and it is kept.
    Stored,
    /// It is not delivered.
    Dropped(Reason),
}

impl Fate {
    fn word(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Stored => "stored",
            Self::Dropped(Reason::MessageExpired) => "expired",
            Self::Dropped(_) => "dropped",
        }
    }
}

/// What a message says about receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    pub to: &'a str,
    pub correlation: Option<&'a [u8]>,
    /// Whether it is told that a message was stored, too.
    pub all: bool,
    pub number: u64,
}

impl<'a> Asked<'a> {
    /// Reads the properties of a message on its way.
    pub(super) fn read(properties: &'a [u8]) -> Option<Self> {
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

/// One on its way to whoever has sent the message.
#[derive(Debug)]
pub(crate) struct Receipt {
    pub tenant: TenantId,
    pub to: Box<str>,
    pub correlation: Option<Box<[u8]>>,
    pub qos: QoS,
    pub payload: String,
}

impl Receipt {
    pub(super) fn new(tenant: TenantId, asked: &Asked<'_>, qos: QoS, payload: String) -> Self {
        let qos = qos.min(QoS::AtLeastOnce);
        Self { tenant, to: asked.to.into(), correlation: asked.correlation.map(Into::into), qos, payload }
    }
}

/// Receipts that wait.
#[derive(Debug, Default)]
pub(crate) struct Receipts {
    waiting: VecDeque<Receipt>,
}

impl Receipts {
    pub(super) fn push(&mut self, receipt: Receipt) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(receipt);
        }
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.waiting.shrink_to_fit();
    }

    /// Whether there is one to be published.
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

fn told(fate: &str, node: &str, topic: &str, reason: Option<Reason>) -> String {
    let reason = reason.map_or_else(String::new, |reason| format!(",\"reason\":{}", quoted(reason.label())));
    format!("{{\"receipt\":\"{fate}\",\"node\":{},\"topic\":{}{reason}}}", quoted(node), quoted(topic))
}

/// Receipts that there are.
const RECEIPTS: [&str; 2] = ["delivered", "all"];

/// Whether a sender asks for receipts that there are not.
pub(crate) fn asks_for_unknown_receipts(properties: &PublishProperties<'_>) -> bool {
    properties.user_properties.iter().any(|(name, value)| name == ASKS && !RECEIPTS.contains(&value))
}

impl Publishing<'_> {
    /// Adds to the properties of a message to nodes where its receipts go, if its sender asks for any and may publish
    /// there.
    pub(crate) fn add_receipts(
        &mut self,
        sender: (ConnectionKey, Option<SessionKey>),
        topic: &str,
        asked: &PublishProperties<'_>,
        out: &mut Vec<u8>,
    ) {
        let Some(addresses) = self.desk.settings.addresses.as_ref() else { return };
        let session = sender.1.and_then(|session| self.desk.sessions.get(session.0));
        let name = session.map(|session| &*session.client_id);
        let Some(name) = name.or(self.principals.name(sender.0).map(|(_, name)| name)) else { return };
        let own = format!("{}/receipts/{}", addresses.prefix, encoded(name));
        let wished = asked.response_topic.map(TopicName::as_str);
        let may = |topic: &&str| {
            !is_own_topic(topic)
                && self.principals.publisher_may(self.desk, self.rules, sender, topic, QoS::AtLeastOnce, false)
        };
        match wished.filter(may) {
            Some(wished) => self.add_receipts_to(topic, asked, wished, out),
            // The broker subscribes to no receipts.
            None if self.principals.is_broker(sender.0) => {}
            None => self.add_receipts_to(topic, asked, &own, out),
        }
    }

    /// The same for receipts that go to this topic.
    fn add_receipts_to(&mut self, topic: &str, asked: &PublishProperties<'_>, to: &str, out: &mut Vec<u8>) {
        let wants = asked.user_properties.iter().any(|(name, value)| name == ASKS && RECEIPTS.contains(&value));
        let Some(addresses) = self.desk.settings.addresses.as_ref().filter(|_| wants) else { return };
        let several = match Address::read(&addresses.prefix, topic) {
            Some(Address::Node(_)) => false,
            Some(Address::Group(_) | Address::All) => true,
            Some(Address::Receipts(_)) | None => return,
        };
        if TopicName::new(to).is_err() {
            // The client id of the sender is so long that no topic has room for it.
            return;
        }
        put_user_property(out, GOES_TO, to);
        if several {
            self.nodes.asked += 1;
            let number = crate::hash::hash_bytes(self.assigned.seed, &self.nodes.asked.to_le_bytes());
            put_user_property(out, NUMBER, &format!("{number:x}"));
        }
    }

    /// Publishes the receipt that waits longest; says whether there was one.
    pub(crate) fn publish_receipt(&mut self, now: Now) -> bool {
        let Some(receipt) = self.desk.receipts.waiting.pop_front() else { return false };
        let mut properties = Vec::new();
        if let Some(data) = &receipt.correlation {
            properties.push(CORRELATION_DATA);
            properties.extend_from_slice(&(data.len() as u16).to_be_bytes());
            properties.extend_from_slice(data);
        }
        let (tenant, qos, payload) = (receipt.tenant, receipt.qos, receipt.payload.as_bytes());
        let mut publication = Publication::new(tenant, &receipt.to, qos, false, &properties, Millis::NEVER, payload, 0);
        self.publish_inside(now, &mut publication, None);
        true
    }
}

impl Reporting<'_> {
    /// Tells the sender of a message what has become of it, where it was addressed to the client of a session and the
    /// sender wants to know.
    #[inline]
    pub(crate) fn tell_fate(&mut self, to: SessionKey, topic: &str, properties: &[u8], qos: QoS, fate: Fate) {
        if self.has_addresses && !properties.is_empty() {
            self.tell_fate_of_node(to, topic, properties, qos, fate);
        }
    }

    #[cold]
    fn tell_fate_of_node(&mut self, to: SessionKey, topic: &str, properties: &[u8], qos: QoS, fate: Fate) {
        let Some(session) = self.sessions.get(to.0).filter(|session| session.standing.is_node()) else { return };
        let (tenant, client_id) = (session.tenant, session.client_id.clone());
        self.tell_fate_named(tenant, &client_id, topic, properties, qos, fate);
    }

    /// The same for a message that is kept.
    #[inline]
    pub(crate) fn tell_fate_of(&mut self, to: SessionKey, message: &Message, fate: Fate) {
        self.tell_fate(to, message.topic(), message.properties(), message.qos, fate);
    }

    /// The same for a node by its name.
    pub(crate) fn tell_fate_named(
        &mut self,
        tenant: TenantId,
        client_id: &str,
        topic: &str,
        properties: &[u8],
        qos: QoS,
        fate: Fate,
    ) {
        let Some(addresses) = self.settings.addresses.as_ref() else { return };
        let Some(address) = Address::read(&addresses.prefix, topic) else { return };
        let Some(asked) = Asked::read(properties) else { return };
        match address {
            Address::Node(id) if *id == *client_id && (asked.all || fate != Fate::Stored) => {
                let reason = if let Fate::Dropped(reason) = fate { Some(reason) } else { None };
                let payload = told(fate.word(), client_id, topic, reason);
                self.receipts.push(Receipt::new(tenant, &asked, qos, payload));
            }
            Address::Group(_) | Address::All => self.note_fate(asked.number, client_id, fate),
            Address::Node(_) | Address::Receipts(_) => {}
        }
    }

    /// Tells the sender of a message that there is no such node.
    pub(super) fn tell_unknown(&mut self, node: &str, publication: &Publication<'_>) {
        if let Some(asked) = Asked::read(publication.properties) {
            let payload = told("unknown", node, publication.topic, None);
            self.receipts.push(Receipt::new(publication.tenant, &asked, publication.qos, payload));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
