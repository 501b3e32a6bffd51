//! Receipts are published.

use crate::addresses::receipts::{ASKS, GOES_TO, NUMBER, RECEIPTS};
use crate::flows::contexts::{Publishing, SessionEnding, publishing};
use crate::ids::{ConnectionKey, SessionKey};
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::publish::dead_letter::put_user_property;
use crate::topics::address_name::{Address, encoded};
use crate::topics::is_own_topic;
use tidegate_mqtt::{PublishProperties, QoS, TopicName};

/// Identifier of the property Correlation Data.
const CORRELATION_DATA: u8 = 0x09;

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
        let Some(addresses) = self.state.settings.addresses.as_ref() else { return };
        let session = sender.1.and_then(|session| self.state.sessions.get(session.0));
        let name = session.map(|session| &*session.client_id);
        let Some(name) = name.or(self.services.principals.name(sender.0).map(|(_, name)| name)) else { return };
        let own = format!("{}/receipts/{}", addresses.prefix, encoded(name));
        let wished = asked.response_topic.map(TopicName::as_str);
        let may = |topic: &&str| {
            !is_own_topic(topic)
                && self.services.principals.publisher_may(
                    self.state,
                    self.rules,
                    sender,
                    topic,
                    QoS::AtLeastOnce,
                    false,
                )
        };
        match wished.filter(may) {
            Some(wished) => self.add_receipts_to(topic, asked, wished, out),
            // The broker subscribes to no receipts.
            None if self.services.principals.is_broker(sender.0) => {}
            None => self.add_receipts_to(topic, asked, &own, out),
        }
    }

    /// The same for receipts that go to this topic.
    fn add_receipts_to(&mut self, topic: &str, asked: &PublishProperties<'_>, to: &str, out: &mut Vec<u8>) {
        let wants = asked.user_properties.iter().any(|(name, value)| name == ASKS && RECEIPTS.contains(&value));
        let Some(addresses) = self.state.settings.addresses.as_ref().filter(|_| wants) else { return };
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
            let number = crate::hash::hash_bytes(self.state.assigned.seed, &self.nodes.asked.to_le_bytes());
            put_user_property(out, NUMBER, &format!("{number:x}"));
        }
    }
}

impl SessionEnding<'_> {
    /// Publishes the receipt that waits longest; returns whether there was one. No client sends it again, so a
    /// receipt about one node is owed like a will: its receiver's home may be dead now.
    pub(crate) fn publish_receipt(&mut self, now: Now) -> bool {
        let Some(receipt) = self.state.receipts.waiting.pop_front() else { return false };
        let mut properties = Vec::new();
        if let Some(data) = &receipt.correlation {
            properties.push(CORRELATION_DATA);
            properties.extend_from_slice(&(data.len() as u16).to_be_bytes());
            properties.extend_from_slice(data);
        }
        let (tenant, qos, payload) = (receipt.tenant, receipt.qos, receipt.payload.as_bytes());
        let mut publication = Publication::new(tenant, &receipt.to, qos, false, &properties, Millis::NEVER, payload, 0);
        match receipt.node {
            Some(node) => self.publish_owed_of(now, &mut publication, node),
            None => publishing!(self).publish_inside(now, &mut publication, None),
        }
        true
    }
}
