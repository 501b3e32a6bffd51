//! QoS 1 in both directions on one connection; redelivery is in `redelivery`.

use crate::case::Case;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::{PacketType, Publish};
use std::collections::BTreeSet;

pub(super) const CASES: &[Case] = &[
    Case::all("qos1.is_acknowledged", is_acknowledged)
        .proves_311(&["MQTT-2.3.1-6", "MQTT-3.3.4-1"])
        .proves_5(&["MQTT-2.2.1-5", "MQTT-3.3.4-1", "MQTT-4.3.2-4", "MQTT-3.4.2-1"])
        .needs(&[Feature::Qos1]),
    Case::all("qos1.packet_id_is_free_after_puback", packet_id_is_free_after_puback)
        .proves_5(&["MQTT-4.3.2-5"])
        .needs(&[Feature::Qos1]),
    Case::all("qos1.any_packet_id", any_packet_id).proves_5(&["MQTT-2.2.1-5"]).needs(&[Feature::Qos1]),
    Case::all("qos1.delivery", delivery)
        .proves_311(&["MQTT-2.3.1-4"])
        .proves_5(&["MQTT-2.2.1-4", "MQTT-4.3.2-1", "MQTT-4.3.2-2"])
        .needs(&[Feature::Qos1]),
    Case::all("qos1.packet_ids_in_flight_are_distinct", packet_ids_in_flight_are_distinct)
        .proves_311(&["MQTT-2.3.1-4"])
        .proves_5(&["MQTT-2.2.1-4", "MQTT-4.3.2-1"])
        .needs(&[Feature::Qos1]),
    Case::both("qos1.is_not_repeated_on_the_same_connection", is_not_repeated_on_the_same_connection)
        .proves_5(&["MQTT-4.4.0-1"])
        .needs(&[Feature::Qos1])
        .slow(),
    Case::both("qos1.acknowledgement_of_nothing", acknowledgement_of_nothing).needs(&[Feature::Qos1]),
    Case::v5("qos1.refused_by_the_subscriber_is_done", refused_by_the_subscriber_is_done)
        .proves_5(&["MQTT-4.4.0-2"])
        .needs(&[Feature::Qos1]),
    Case::both("qos1.client_is_sender_and_receiver_of_one_packet_id", both_directions_share_no_packet_ids)
        .needs(&[Feature::Qos1]),
];

fn is_acknowledged(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 1)?;
    publisher.send_publish(&Publish::new(&topic, "hello").qos(1).id(4711))?;
    publisher.expect_success(PacketType::Puback, 4711)?;
    subscriber.take_with("hello")?;
    publisher.expect_nothing()?;
    s.fence(&mut publisher, &mut subscriber)
}

/// The same packet identifier names a new message as soon as the old one is acknowledged, whatever DUP says.
fn packet_id_is_free_after_puback(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 1)?;
    publisher.publish(&Publish::new(&topic, "first").qos(1).id(7))?;
    publisher.publish(&Publish::new(&topic, "second").qos(1).id(7))?;
    publisher.publish(&Publish::new(&topic, "second").qos(1).id(7).dup())?;
    subscriber.take_with("first")?;
    subscriber.take_with("second")?;
    subscriber.take_with("second")?;
    s.fence(&mut publisher, &mut subscriber)
}

fn any_packet_id(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.connect("c")?;
    for packet_id in [1, 2, 0x00ff, 0x0100, 0x7fff, 0x8000, 0xffff] {
        client.send_publish(&Publish::new(&topic, "x").qos(1).id(packet_id))?;
        client.expect_success(PacketType::Puback, packet_id)?;
    }
    Ok(())
}

fn delivery(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 1)?;
    for number in 0..20 {
        publisher.publish(&Publish::new(&topic, format!("{number}")).qos(1))?;
        let publish = subscriber.take_with(format!("{number}"))?;
        // A packet identifier of 0 fails when the packet is read.
        ensure!(publish.qos == 1 && !publish.dup, "the message came at QoS {}, dup {}", publish.qos, publish.dup);
    }
    Ok(())
}

fn packet_ids_in_flight_are_distinct(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 1)?;
    let mut in_flight = BTreeSet::new();
    for number in 0..10 {
        publisher.publish(&Publish::new(&topic, format!("{number}")).qos(1))?;
        let publish = subscriber.message_with(format!("{number}"))?;
        ensure!(in_flight.insert(publish.packet_id), "packet identifier {} is used twice", publish.packet_id);
    }
    // Acknowledged in another order than sent: the rest stays in flight, and its identifiers stay taken.
    for packet_id in in_flight.iter().skip(5) {
        subscriber.send_acknowledgement(PacketType::Puback, *packet_id)?;
    }
    for number in 10..15 {
        publisher.publish(&Publish::new(&topic, format!("{number}")).qos(1))?;
        // The client's own checks fail on an identifier that is in flight.
        subscriber.message_with(format!("{number}"))?;
    }
    Ok(())
}

fn is_not_repeated_on_the_same_connection(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 1)?;
    publisher.publish(&Publish::new(&topic, "once").qos(1))?;
    let publish = subscriber.message_with("once")?;
    // Only a new connection may bring it again; a broker that resends does so after some time.
    if s.is_v5() {
        subscriber.expect_quiet_for(std::time::Duration::from_secs(3))?;
    }
    subscriber.acknowledge(&publish)?;
    s.fence(&mut publisher, &mut subscriber)
}

/// A PUBACK that answers nothing is not a reason to lose anything; a broker may also close for it.
fn acknowledgement_of_nothing(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut bystander, mut publisher) = s.subscriber_and_publisher(&topic, 1)?;
    let mut odd = s.connect("odd")?;
    odd.subscribe(&topic, 1)?;
    odd.send_acknowledgement(PacketType::Puback, 4711)?;
    odd.send_anyway(&[0xc0, 0]);
    odd.arrival()?;
    publisher.publish(&Publish::new(&topic, "as ever").qos(1))?;
    bystander.take_with("as ever")?;
    Ok(())
}

fn refused_by_the_subscriber_is_done(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.subscribe(&topic, 1)?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "unwanted").qos(1))?;
    let publish = subscriber.message_with("unwanted")?;
    subscriber.send_acknowledgement_with(PacketType::Puback, publish.packet_id, 0x83)?;
    subscriber.ping()?;
    subscriber.drop_connection()?;
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    s.fence(&mut publisher, &mut subscriber)
}

/// Both sides count their own packet identifiers: the same number may be in flight in both directions.
fn both_directions_share_no_packet_ids(s: &Scenario<'_>) -> Outcome {
    let (inward, outward) = (s.topic("in"), s.topic("out"));
    let (mut client, mut publisher) = s.subscriber_and_publisher(&inward, 1)?;
    publisher.publish(&Publish::new(&inward, "to you").qos(1))?;
    let publish = client.message_with("to you")?;
    client.send_publish(&Publish::new(&outward, "from you").qos(1).id(publish.packet_id))?;
    client.expect_success(PacketType::Puback, publish.packet_id)?;
    client.acknowledge(&publish)?;
    s.fence(&mut publisher, &mut client)
}
