//! Maximum Packet Size in both directions.

use crate::case::Case;
use crate::client::{Arrival, Client};
use crate::outcome::{Outcome, ensure, failed, skipped};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::bytes::variable;
use crate::wire::reason_codes::PACKET_TOO_LARGE;
use crate::wire::{Bytes, Packet, PacketType, Property, Publish, Subscribe, Unsubscribe};

pub(super) const CASES: &[Case] = &[
    Case::v5("packet_size.too_large_for_the_client_is_dropped", too_large_for_the_client_is_dropped)
        .proves_5(&["MQTT-3.1.2-24", "MQTT-3.1.2-25"])
        .needs(&[Feature::Qos2]),
    Case::v5("packet_size.exactly_the_maximum_arrives", exactly_the_maximum_arrives).proves_5(&["MQTT-3.1.2-24"]),
    Case::v5("packet_size.of_queued_and_retained_messages", of_queued_and_retained_messages)
        .proves_5(&["MQTT-3.1.2-24", "MQTT-3.1.2-25"])
        .needs(&[Feature::Retained, Feature::Qos1]),
    Case::v5("packet_size.smaller_on_the_next_connection", smaller_on_the_next_connection)
        .proves_5(&["MQTT-3.1.2-24", "MQTT-3.1.2-25"])
        .needs(&[Feature::Qos2]),
    Case::v5("packet_size.answers_fit", answers_fit)
        .proves_5(&[
            "MQTT-3.1.2-24",
            "MQTT-3.4.2-2",
            "MQTT-3.4.2-3",
            "MQTT-3.5.2-2",
            "MQTT-3.5.2-3",
            "MQTT-3.6.2-2",
            "MQTT-3.6.2-3",
            "MQTT-3.7.2-2",
            "MQTT-3.7.2-3",
            "MQTT-3.9.2-1",
            "MQTT-3.9.2-2",
            "MQTT-3.11.2-1",
            "MQTT-3.11.2-2",
        ])
        .needs(&[Feature::Qos2]),
    Case::v5("packet_size.connack_fits", connack_fits).proves_5(&["MQTT-3.1.2-24", "MQTT-3.2.2-19", "MQTT-3.2.2-20"]),
    Case::v5("packet_size.disconnect_fits", disconnect_fits).proves_5(&[
        "MQTT-3.1.2-24",
        "MQTT-3.14.2-3",
        "MQTT-3.14.2-4",
    ]),
    Case::v5("packet_size.too_large_for_the_broker", too_large_for_the_broker).proves_5(&["MQTT-3.2.2-15"]),
    Case::v5("packet_size.as_large_as_the_broker_takes", as_large_as_the_broker_takes),
    Case::v5("packet_size.announced_one_is_legal", announced_one_is_legal),
];

/// A client with this Maximum Packet Size; its own checks fail on anything larger.
fn small(s: &Scenario<'_>, name: &str, size: u32) -> Outcome<Client> {
    let connect = s.connection(name).with(Property::MaximumPacketSize(size));
    Ok(s.connect_with(name, &connect)?.0)
}

fn too_large_for_the_client_is_dropped(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut subscriber = small(s, "small", 500)?;
    subscriber.subscribe(&topic, 2)?;
    let (mut other, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    for qos in 0..=2 {
        publisher.publish(&Publish::new(&topic, vec![b'x'; 600]).qos(qos))?;
        publisher.publish(&Publish::new(&topic, "fits").qos(qos))?;
        other.take()?;
        other.take_with("fits")?;
        subscriber.take_with("fits")?;
    }
    s.fence(&mut publisher, &mut subscriber)
}

fn exactly_the_maximum_arrives(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let size = 300;
    let mut subscriber = small(s, "small", size)?;
    subscriber.subscribe(&topic, 0)?;
    let mut publisher = s.connect("publisher")?;
    // First byte, two bytes of remaining length, the topic with its length, no properties.
    let payload = vec![b'x'; size as usize - (1 + 2 + 2 + topic.len() + 1)];
    publisher.publish(&Publish::new(&topic, &payload))?;
    subscriber.take_with(&payload)?;
    publisher.publish(&Publish::new(&topic, [&payload[..], b"x"].concat()))?;
    s.fence(&mut publisher, &mut subscriber)
}

fn of_queued_and_retained_messages(s: &Scenario<'_>) -> Outcome {
    let (queued, retained) = (s.topic("queued"), s.topic("retained"));
    let connect = s.connection("small").persistent().with(Property::MaximumPacketSize(300));
    let (mut subscriber, _) = s.connect_with("small", &connect)?;
    subscriber.subscribe(&queued, 1)?;
    subscriber.disconnect()?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&queued, vec![b'x'; 400]).qos(1))?;
    publisher.publish(&Publish::new(&queued, "fits").qos(1))?;
    publisher.publish(&Publish::new(&retained, vec![b'x'; 400]).qos(1).retain())?;
    let (mut subscriber, _) = s.connect_with("small", &connect)?;
    subscriber.take_with("fits")?;
    subscriber.subscribe(&retained, 1)?;
    s.fence(&mut publisher, &mut subscriber)
}

/// A message that was sent once is too large for the connection on which it would be sent again. The broker behaves as
/// if it had been delivered, and the messages behind it are not delayed.
fn smaller_on_the_next_connection(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("c")?;
    subscriber.subscribe(&topic, 2)?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, vec![b'x'; 600]).qos(1))?;
    publisher.publish(&Publish::new(&topic, vec![b'y'; 600]).qos(2))?;
    publisher.publish(&Publish::new(&topic, "fits").qos(1))?;
    for _ in 0..3 {
        subscriber.message()?;
    }
    subscriber.drop_connection()?;
    let connect = s.connection("c").persistent().with(Property::MaximumPacketSize(400));
    let (mut subscriber, _) = s.connect_with("c", &connect)?;
    subscriber.take_with("fits")?;
    s.fence(&mut publisher, &mut subscriber)
}

/// Each kind of answer, also answers that report an error and could explain it, in as few bytes as it takes.
fn answers_fit(s: &Scenario<'_>) -> Outcome {
    let connect = s.connection("small").with(Property::MaximumPacketSize(24));
    let mut client = s.open("small")?;
    client.send_connect(&connect)?;
    client.accepted_or_skip("a Maximum Packet Size of 24")?;
    for qos in [1, 2] {
        client.publish(&Publish::new(&s.topic("unwanted"), "x").qos(qos))?;
    }
    client.send_acknowledgement(PacketType::Pubrel, 4711)?;
    client.expect_acknowledgement(PacketType::Pubcomp, 4711)?;
    let valid = Subscribe::new(&s.topic("t"), 2);
    client.subscribe_packet(&valid)?;
    let packet_id = client.send_unsubscribe(&Unsubscribe::new(&s.topic("never")).and(&s.topic("t")))?;
    client.expect_acknowledgement(PacketType::Unsuback, packet_id)?;
    client.expect_nothing()?;
    // PUBREC for an unknown message is answered by a PUBREL with its reason code, or ends the connection.
    client.send_acknowledgement(PacketType::Pubrec, 4711)?;
    match client.arrival()? {
        Arrival::Packet(Packet::Acknowledgement(PacketType::Pubrel, _) | Packet::Disconnect { .. })
        | Arrival::Closed => Ok(()),
        other => failed(format!("PUBREC for an unknown packet identifier is answered with {other:?}")),
    }
}

/// The CONNACK fits, whatever its properties, or is not sent.
fn connack_fits(s: &Scenario<'_>) -> Outcome {
    for size in [128, 64, 32, 16, 8, 5] {
        let connect = s.connection("c").with(Property::MaximumPacketSize(size));
        let mut client = s.open("c")?;
        client.send_connect(&connect)?;
        match client.arrival()? {
            Arrival::Packet(Packet::Connack { .. }) | Arrival::Closed => {}
            other => return failed(format!("a Maximum Packet Size of {size} is answered with {other:?}")),
        }
    }
    Ok(())
}

fn disconnect_fits(s: &Scenario<'_>) -> Outcome {
    let connect = s.connection("c").with(Property::MaximumPacketSize(24));
    let mut client = s.open("c")?;
    client.send_connect(&connect)?;
    client.accepted_or_skip("a Maximum Packet Size of 24")?;
    client.send(&connect.encode())?;
    client.expect_error_close(&[])
}

/// The Maximum Packet Size that the broker announces, unless it takes every packet there can be.
fn announced(s: &Scenario<'_>) -> Outcome<usize> {
    match s.target().capabilities.maximum_packet_size {
        None => skipped("the broker announces no Maximum Packet Size"),
        Some(268_435_455..) => skipped("the broker takes every packet there can be"),
        Some(size) => Ok(size as usize),
    }
}

/// The Remaining Length of a packet that has this size as a whole.
fn remaining_length(whole: usize) -> usize {
    let lengths = (1..=4).map(|taken| (taken, whole.saturating_sub(1 + taken)));
    lengths
        .filter(|(taken, remaining)| variable(*remaining).len() == *taken)
        .map(|(_, remaining)| remaining)
        .max()
        .unwrap_or_default()
}

fn as_large_as_the_broker_takes(s: &Scenario<'_>) -> Outcome {
    let maximum = announced(s)?;
    if maximum > 8 << 20 {
        return skipped("the broker takes packets of many megabytes");
    }
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    let payload = vec![b'x'; remaining_length(maximum) - (2 + topic.len() + 1)];
    publisher.publish(&Publish::new(&topic, &payload))?;
    let arrived = subscriber.take()?.payload.len();
    ensure!(arrived == payload.len(), "a payload of {} bytes came as one of {arrived}", payload.len());
    Ok(())
}

/// The head of a PUBLISH that announces more than the broker takes, and only some of its body: the broker need not read
/// the rest to know.
fn too_large_for_the_broker(s: &Scenario<'_>) -> Outcome {
    let maximum = announced(s)?;
    let whole = maximum + 1;
    let mut client = s.connect("c")?;
    let remaining = remaining_length(whole);
    let mut bytes = vec![0x30];
    bytes.extend(variable(remaining));
    bytes.extend(Bytes::new().text(&s.topic("t")).byte(0).raw(&[b'x'; 1000]).into_vec());
    client.send(&bytes)?;
    if s.is_strict() {
        return client.expect_error_close(&[PACKET_TOO_LARGE]);
    }
    // A broker may judge only once it has the whole packet; then it gets the rest.
    let filler = vec![b'x'; 64 * 1024];
    for _ in 0..=(whole / filler.len()) {
        client.send_anyway(&filler);
    }
    client.expect_error_close(&[])
}

/// Remaining Length ends at 268,435,455, and clients in use refuse to work with a larger announcement; the packet
/// around it can be five bytes longer.
fn announced_one_is_legal(s: &Scenario<'_>) -> Outcome {
    let announced = s.target().capabilities.maximum_packet_size;
    let most = if s.is_strict() { 268_435_455 } else { 268_435_460 };
    ensure!(
        announced.is_none_or(|size| (1..=most).contains(&size)),
        "a Maximum Packet Size of {announced:?} is announced"
    );
    Ok(())
}
