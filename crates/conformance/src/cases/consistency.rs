//! Order and completeness when several things happen at the same time. Which of them comes first is the broker's
//! affair; that nothing is lost, doubled or overtaken is not.

use crate::case::Case;
use crate::client::{Arrival, Client};
use crate::outcome::{Outcome, ensure, failed};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::{Packet, PacketType, Publish, Subscribe};
use std::collections::BTreeSet;

pub(super) const CASES: &[Case] = &[
    Case::all("consistency.retained_never_follows_what_replaced_it", retained_never_follows_what_replaced_it)
        .proves_311(&["MQTT-4.6.0-6"])
        .proves_5(&["MQTT-4.6.0-5", "MQTT-4.6.0-6"])
        .needs(&[Feature::Retained, Feature::Qos1]),
    Case::both("consistency.exactly_once_over_many_connections", exactly_once_over_many_connections)
        .proves_311(&["MQTT-4.4.0-1", "MQTT-4.5.0-1"])
        .proves_5(&["MQTT-4.4.0-1", "MQTT-4.5.0-1", "MQTT-4.3.3-6"])
        .needs(&[Feature::Qos2]),
    Case::both("consistency.at_least_once_over_many_connections", at_least_once_over_many_connections)
        .proves_311(&["MQTT-4.4.0-1", "MQTT-4.5.0-1"])
        .proves_5(&["MQTT-4.4.0-1", "MQTT-4.5.0-1"])
        .needs(&[Feature::Qos1]),
    Case::all("consistency.unsubscribing_takes_effect_before_unsuback", unsubscribing_takes_effect_before_unsuback)
        .proves_311(&["MQTT-3.10.4-5"])
        .proves_5(&["MQTT-3.10.4-2"]),
    Case::all("consistency.order_of_each_of_many_publishers", order_of_each_of_many_publishers)
        .proves_311(&["MQTT-4.6.0-6"])
        .proves_5(&["MQTT-4.6.0-5"])
        .needs(&[Feature::Qos1]),
    Case::all("consistency.large_message_to_many", large_message_to_many)
        .proves_311(&["MQTT-4.5.0-1"])
        .proves_5(&["MQTT-4.5.0-1"])
        .needs(&[Feature::Qos2]),
];

/// A subscription and a new value of its topic are under way at the same time. The subscriber may get the old value or
/// not, and the new one as retained, as live, or as both; but never the old one after the new one.
fn retained_never_follows_what_replaced_it(s: &Scenario<'_>) -> Outcome {
    let mut publisher = s.connect("publisher")?;
    let mut subscriber = s.connect("subscriber")?;
    for round in 0..40 {
        let topic = s.topic(&format!("{round}"));
        publisher.publish(&Publish::new(&topic, "old").qos(1).retain())?;
        let packet_id = subscriber.send_subscribe(&Subscribe::new(&topic, 1))?;
        let new = publisher.send_publish(&Publish::new(&topic, "new").qos(1).retain())?;
        publisher.expect_success(PacketType::Puback, new.packet_id)?;
        subscriber.expect_success(PacketType::Suback, packet_id)?;
        let end = s.topic(&format!("end/{round}"));
        subscriber.subscribe(&end, 1)?;
        publisher.publish(&Publish::new(&end, "end").qos(1))?;
        let mut values = Vec::new();
        loop {
            let publish = subscriber.take()?;
            if publish.topic == end {
                break;
            }
            values.push(publish.text());
        }
        let last = values.last().map(String::as_str);
        ensure!(last == Some("new"), "round {round}: the subscriber ends with {last:?} of {values:?}");
    }
    Ok(())
}

/// A receiver that remembers its session over connections, as a client with QoS 2 must.
#[derive(Default)]
struct Receiver {
    /// Packet identifiers of QoS 2 whose PUBREL has not come.
    unreleased: BTreeSet<u16>,
    payloads: Vec<String>,
}

impl Receiver {
    /// Handles one packet as a client would.
    fn handle(&mut self, client: &mut Client, packet: Packet) -> Outcome {
        match packet {
            Packet::Publish(publish) if publish.qos == 2 => {
                if self.unreleased.insert(publish.packet_id) {
                    self.payloads.push(publish.text());
                } else {
                    ensure!(publish.dup, "`{}` takes packet identifier {}", publish.text(), publish.packet_id);
                }
                client.send_acknowledgement(PacketType::Pubrec, publish.packet_id)
            }
            Packet::Publish(publish) => {
                self.payloads.push(publish.text());
                client.acknowledge(&publish)
            }
            Packet::Acknowledgement(PacketType::Pubrel, pubrel) => {
                self.unreleased.remove(&pubrel.packet_id);
                client.send_acknowledgement(PacketType::Pubcomp, pubrel.packet_id)
            }
            other => failed(format!("unexpected: {other:?}")),
        }
    }

    /// Handles at most this number of the packets sent by now.
    fn handle_some(&mut self, client: &mut Client, most: usize) -> Outcome {
        client.send_ping()?;
        for _ in 0..most {
            match client.arrival()? {
                Arrival::Packet(Packet::Pingresp) => break,
                Arrival::Packet(packet) => self.handle(client, packet)?,
                other => return failed(format!("the connection ends early: {other:?}")),
            }
        }
        Ok(())
    }

    /// Handles packets until this number of messages has arrived.
    fn handle_until(&mut self, client: &mut Client, messages: usize) -> Outcome {
        while self.payloads.iter().collect::<BTreeSet<_>>().len() < messages || !self.unreleased.is_empty() {
            match client.arrival()? {
                Arrival::Packet(packet) => self.handle(client, packet)?,
                other => {
                    let arrived = self.payloads.len();
                    return failed(format!("{arrived} of {messages} messages came, then {other:?}"));
                }
            }
        }
        Ok(())
    }
}

const ROUNDS: usize = 25;
const MESSAGES_PER_ROUND: usize = 4;

/// Connections that are cut after every possible number of packets, while messages go on being published.
fn over_many_connections(s: &Scenario<'_>, qos: u8) -> Outcome<Vec<String>> {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.subscribe(&topic, qos)?;
    let mut publisher = s.connect("publisher")?;
    let mut receiver = Receiver::default();
    for round in 0..ROUNDS {
        for number in 0..MESSAGES_PER_ROUND {
            let payload = format!("{:03}", round * MESSAGES_PER_ROUND + number);
            publisher.publish(&Publish::new(&topic, payload).qos(qos))?;
        }
        receiver.handle_some(&mut subscriber, round % 12)?;
        if round % 3 == 0 {
            // The old connection is still open; the new one takes its place.
            (subscriber, _) = s.connect_persistent("subscriber")?;
        } else {
            subscriber.drop_connection()?;
            (subscriber, _) = s.connect_persistent("subscriber")?;
        }
    }
    receiver.handle_until(&mut subscriber, ROUNDS * MESSAGES_PER_ROUND)?;
    subscriber.expect_nothing()?;
    s.fence(&mut publisher, &mut subscriber)?;
    Ok(receiver.payloads)
}

fn exactly_once_over_many_connections(s: &Scenario<'_>) -> Outcome {
    let arrived = over_many_connections(s, 2)?;
    let expected: Vec<_> = (0..ROUNDS * MESSAGES_PER_ROUND).map(|number| format!("{number:03}")).collect();
    ensure!(arrived == expected, "expected each message once and in order, got {arrived:?}");
    Ok(())
}

fn at_least_once_over_many_connections(s: &Scenario<'_>) -> Outcome {
    let arrived = over_many_connections(s, 1)?;
    // A message may come again, but each comes for the first time in its place.
    let mut first_times: Vec<&String> = Vec::new();
    for payload in &arrived {
        if !first_times.contains(&payload) {
            first_times.push(payload);
        }
    }
    let in_order = first_times.windows(2).all(|pair| pair[0] < pair[1]);
    ensure!(in_order, "the messages came for the first time in the order {first_times:?}");
    Ok(())
}

fn unsubscribing_takes_effect_before_unsuback(s: &Scenario<'_>) -> Outcome {
    let mut subscriber = s.connect("subscriber")?;
    let mut publisher = s.connect("publisher")?;
    for round in 0..40 {
        let topic = s.topic(&format!("{round}"));
        subscriber.subscribe(&topic, 0)?;
        publisher.publish(&Publish::new(&topic, "before"))?;
        subscriber.take_with("before")?;
        subscriber.unsubscribe(&topic)?;
        publisher.publish(&Publish::new(&topic, "after"))?;
        s.fence(&mut publisher, &mut subscriber)?;
    }
    Ok(())
}

fn order_of_each_of_many_publishers(s: &Scenario<'_>) -> Outcome {
    let mut subscriber = s.connect("subscriber")?;
    let mut publishers = Vec::new();
    for name in 0..10 {
        subscriber.subscribe(&s.topic(&format!("{name}")), 1)?;
        publishers.push(s.connect(&format!("p{name}"))?);
    }
    for qos in [0, 1] {
        for number in 0..50 {
            for (name, publisher) in publishers.iter_mut().enumerate() {
                publisher.send_publish(&Publish::new(&s.topic(&format!("{name}")), format!("{number}")).qos(qos))?;
            }
        }
        let mut next = vec![0; publishers.len()];
        for _ in 0..50 * publishers.len() {
            let publish = subscriber.take()?;
            let name: usize = publish.topic.rsplit('/').next().and_then(|name| name.parse().ok()).unwrap_or_default();
            let expected = next.get_mut(name).map(|next| {
                *next += 1;
                *next - 1
            });
            let told = publish.text();
            ensure!(told.parse().ok() == expected, "QoS {qos}, publisher {name}: got {told}, expected {expected:?}");
        }
    }
    Ok(())
}

/// Large payloads may take another path through a broker than small ones; each receiver at its own QoS gets the same.
fn large_message_to_many(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut subscribers = Vec::new();
    for number in 0..9 {
        let mut subscriber = s.connect(&format!("s{number}"))?;
        subscriber.subscribe(&topic, number % 3)?;
        subscribers.push(subscriber);
    }
    let mut publisher = s.connect("publisher")?;
    let payload: Vec<u8> = (0..300_000_u32).map(|index| (index % 253) as u8).collect();
    for qos in 0..=2 {
        publisher.publish(&Publish::new(&topic, &payload).qos(qos))?;
        publisher.publish(&Publish::new(&topic, "small").qos(qos))?;
        for subscriber in &mut subscribers {
            let large = subscriber.take()?;
            ensure!(large.payload == payload, "{} bytes came as {}", payload.len(), large.payload.len());
            subscriber.take_with("small")?;
        }
    }
    Ok(())
}
