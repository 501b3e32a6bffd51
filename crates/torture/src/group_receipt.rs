//! The receipt of a message to a group of mobile nodes: counts of its outcomes. The last ones are final.

use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_mqtt::{
    Packet, PacketId, PubAck, Publish, PublishProperties, QoS, ReasonCode, Subscribe, SubscriptionOptions,
    Subscriptions, TopicFilter, TopicName, UserProperties, Version,
};

use crate::application::MOBILES;
use crate::checks::Visitor;
use crate::failure::Failure;
use crate::ledger::Finding;
use crate::wire::{Delivery, Incoming};
use crate::workload::Kind;
use crate::world::{Mood, World};

/// The topic in which the application defines its group. The topics of its messages begin with the name.
const ADVERTISEMENT: &str = "ctx/GroupAdvertisement/rig";
const GROUP: &str = "ctx/to/group/rig";
/// The topic of the counts.
const COUNTS: &str = "a/counts";

/// The outcomes of a message to a group.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    members: u64,
    delivered: u64,
    is_final: bool,
}

impl Counts {
    /// The counts of a message; `None` for other receipts.
    fn read(delivery: &Delivery, number: u16) -> Option<Self> {
        if delivery.correlation.as_deref() != Some(&number.to_be_bytes()[..]) {
            return None;
        }
        let said: Value = serde_json::from_slice(&delivery.payload).ok()?;
        (said["receipt"] == "counts").then_some(())?;
        let (members, delivered) = (said["members"].as_u64()?, said["delivered"].as_u64()?);
        Some(Self { members, delivered, is_final: said["final"].as_bool()? })
    }
}

/// The application of one look at the books.
struct Asking<'a> {
    world: &'a mut World,
    visitor: Visitor,
    /// The packet id of its last request.
    last: PacketId,
}

impl Asking<'_> {
    /// One turn, and the counts of the message with this number that came in it.
    fn turn(&mut self, number: u16) -> Result<(Vec<Counts>, bool), Failure> {
        self.visitor.session.flush();
        self.world.turn(Mood::Drain)?;
        let (packets, alive, _) = self.visitor.session.receive();
        let mut counts = Vec::new();
        for packet in packets {
            if let Incoming::Publish(delivery) = packet {
                if let Some(id) = delivery.id {
                    self.visitor.session.send(&Packet::PubAck(PubAck::new(id, ReasonCode::Success)))?;
                }
                counts.extend(Counts::read(&delivery, number));
            }
        }
        Ok((counts, alive))
    }

    fn publish(&mut self, topic: &str, payload: &[u8], properties: PublishProperties<'_>) -> Result<(), Failure> {
        self.last = self.last.next();
        self.visitor.session.send(&Packet::Publish(Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: Some(TopicName::new(topic)?),
            packet_id: Some(self.last),
            properties,
            payload,
        }))
    }

    fn subscribe(&mut self) -> Result<(), Failure> {
        let filters = [(TopicFilter::new(COUNTS)?, SubscriptionOptions::new(QoS::AtLeastOnce))];
        self.visitor.session.send(&Packet::Subscribe(Subscribe {
            packet_id: self.last,
            subscription_identifier: None,
            user_properties: UserProperties::EMPTY,
            subscriptions: Subscriptions::new(&filters),
        }))
    }

    /// Defines the group and sends it a message.
    fn ask(&mut self, number: u16) -> Result<String, Failure> {
        let members: Vec<String> =
            (0..MOBILES).map(|number| format!("\"{}\":[\"rig\"]", Kind::mobile(number))).collect();
        let advertisement = format!("{{\"definer\":\"rig\",\"members\":{{{}}}}}", members.join(","));
        self.publish(ADVERTISEMENT, advertisement.as_bytes(), PublishProperties::default())?;
        let topic = format!("{GROUP}/{number}");
        let correlation = number.to_be_bytes();
        let properties = PublishProperties {
            response_topic: Some(TopicName::new(COUNTS)?),
            correlation_data: Some(&correlation),
            user_properties: UserProperties::new(&[("receipt", "delivered")]),
            ..PublishProperties::default()
        };
        self.publish(&topic, b"to the group", properties)?;
        Ok(topic)
    }

    /// Mobile nodes that have received a message.
    fn receivers(&self, topic: &str) -> u64 {
        let mobiles = self.world.subscribers.iter().filter(|subscriber| subscriber.is_mobile());
        mobiles.filter(|mobile| mobile.probes.iter().any(|probe| probe == topic)).count() as u64
    }
}

/// Sends messages to a group of all mobile nodes until it has all of them, and compares the final counts of each with the
/// messages that came. No strike may last.
pub(crate) fn check(world: &mut World, name: String, patience: Duration) -> Result<(), Failure> {
    let Some(visitor) = Visitor::connect(world, name, Version::V5, patience)? else {
        world.ledger.findings.add(Finding::Unanswered, "an application got no CONNACK".to_owned(), Vec::new());
        return Ok(());
    };
    let mut asking = Asking { world, visitor, last: PacketId::MIN };
    asking.subscribe()?;
    let begun = Instant::now();
    let mut number = 0;
    let found = loop {
        number += 1;
        let topic = asking.ask(number)?;
        asking.world.ledger.findings.totals.owed_counts += 1;
        let asked = Instant::now();
        let counts = loop {
            let (counts, alive) = asking.turn(number)?;
            if let Some(last) = counts.into_iter().find(|counts| counts.is_final) {
                break Some(last);
            }
            if !alive || asked.elapsed() > patience {
                break None;
            }
        };
        let received = asking.receivers(&topic);
        match counts {
            None => {
                break Some((Finding::ReceiptMissed, format!("no final counts of {topic}, {received} nodes have it")));
            }
            Some(counts) if counts.delivered != counts.members || counts.delivered != received => {
                break Some((Finding::ReceiptWrong, format!("{counts:?} of {topic}, {received} nodes have it")));
            }
            Some(counts) if counts.members == u64::from(MOBILES) => break None,
            // Nodes are in the group soon after it was defined.
            Some(counts) if begun.elapsed() > patience => {
                break Some((Finding::ReceiptWrong, format!("{counts:?} of {topic}, the group has {MOBILES} nodes")));
            }
            Some(_) => {}
        }
    };
    asking.visitor.session.depart()?;
    if let Some((finding, text)) = found {
        world.ledger.findings.add(finding, text, Vec::new());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_the_message_with_the_correlation() {
        let payload =
            br#"{"receipt":"counts","topic":"x","members":4,"delivered":3,"stored":1,"final":false}"#.to_vec();
        let correlation = Some(vec![0, 7]);
        let (topic, qos) = (COUNTS.to_owned(), QoS::AtLeastOnce);
        let delivery = Delivery { topic, payload, qos, dup: false, retain: false, id: None, correlation };
        assert_eq!(Counts::read(&delivery, 7), Some(Counts { members: 4, delivered: 3, is_final: false }));
        assert_eq!(Counts::read(&delivery, 8), None);
    }
}
