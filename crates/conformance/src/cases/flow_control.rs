//! Receive Maximum in both directions, and what must not wait for it.

use crate::case::Case;
use crate::client::{Arrival, Client};
use crate::outcome::{Outcome, ensure, failed, skipped};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::reason_codes::{PROTOCOL_ERROR, RECEIVE_MAXIMUM_EXCEEDED};
use crate::wire::{Packet, PacketType, Property, Publish, Subscribe, Unsubscribe};

pub(super) const CASES: &[Case] = &[
    Case::v5("flow_control.broker_keeps_to_the_clients_maximum", broker_keeps_to_the_clients_maximum)
        .proves_5(&["MQTT-3.3.4-9", "MQTT-4.9.0-1", "MQTT-4.9.0-2"])
        .needs(&[Feature::Qos2]),
    Case::v5("flow_control.qos_0_does_not_count", qos_0_does_not_count)
        .proves_5(&["MQTT-3.3.4-9"])
        .needs(&[Feature::Qos1]),
    Case::v5("flow_control.qos_2_counts_until_pubcomp", qos_2_counts_until_pubcomp)
        .proves_5(&["MQTT-3.3.4-9", "MQTT-4.9.0-2"])
        .needs(&[Feature::Qos2]),
    Case::v5("flow_control.refusals_count_as_acknowledgements", refusals_count_as_acknowledgements)
        .proves_5(&["MQTT-3.3.4-9", "MQTT-4.4.0-2"])
        .needs(&[Feature::Qos2]),
    Case::v5("flow_control.other_packets_do_not_wait", other_packets_do_not_wait)
        .proves_5(&["MQTT-3.3.4-10", "MQTT-4.9.0-3"])
        .needs(&[Feature::Qos2]),
    Case::v5("flow_control.holds_on_a_resumed_session", holds_on_a_resumed_session)
        .proves_5(&["MQTT-3.3.4-9", "MQTT-4.9.0-1"])
        .needs(&[Feature::Qos1]),
    Case::v5("flow_control.acknowledgements_are_read_at_the_limit", acknowledgements_are_read_at_the_limit)
        .proves_5(&["MQTT-3.3.4-8", "MQTT-4.9.0-3"])
        .needs(&[Feature::Qos2]),
    Case::v5("flow_control.client_may_use_the_whole_maximum", client_may_use_the_whole_maximum)
        .proves_5(&["MQTT-4.9.0-3"])
        .needs(&[Feature::Qos2]),
    Case::v5("flow_control.client_above_the_maximum", client_above_the_maximum)
        .proves_5(&["MQTT-3.3.4-7"])
        .needs(&[Feature::Qos2]),
    Case::both("flow_control.control_packets_pass_a_full_queue", control_packets_pass_a_full_queue)
        .proves_311(&["MQTT-3.8.4-1", "MQTT-3.10.4-1", "MQTT-3.12.4-1"])
        .proves_5(&["MQTT-3.3.4-10", "MQTT-3.8.4-1", "MQTT-3.10.4-4", "MQTT-3.12.4-1"])
        .needs(&[Feature::Qos1]),
    Case::both("flow_control.control_packets_pass_a_full_socket", control_packets_pass_a_full_socket)
        .proves_311(&["MQTT-3.8.4-1", "MQTT-3.10.4-1", "MQTT-3.12.4-1"])
        .proves_5(&["MQTT-3.8.4-1", "MQTT-3.10.4-4", "MQTT-3.12.4-1"]),
    Case::both("flow_control.a_silent_subscriber_delays_no_others", a_silent_subscriber_delays_no_others)
        .needs(&[Feature::Qos1]),
];

/// A subscriber with this Receive Maximum, and a publisher that has published this number of messages to it.
fn limited(s: &Scenario<'_>, receive_maximum: u16, messages: usize, qos: u8) -> Outcome<(Client, Client)> {
    let topic = s.topic("t");
    let connect = s.connection("limited").with(Property::ReceiveMaximum(receive_maximum));
    let (mut subscriber, _) = s.connect_with("limited", &connect)?;
    subscriber.subscribe(&topic, qos)?;
    let mut publisher = s.connect("publisher")?;
    for number in 0..messages {
        publisher.publish(&Publish::new(&topic, format!("{number}")).qos(qos))?;
    }
    Ok((subscriber, publisher))
}

/// Nothing more is sent into a full window. A broker may hold back QoS 0 as well, so that no message can tell; the
/// answer to a PINGREQ comes from the broker that has had time to send.
fn expect_full(publisher: &mut Client, subscriber: &mut Client) -> Outcome {
    publisher.ping()?;
    subscriber.expect_nothing()
}

fn broker_keeps_to_the_clients_maximum(s: &Scenario<'_>) -> Outcome {
    // The client's own checks fail when more than the maximum are in flight, in this and every other case.
    let (mut subscriber, mut publisher) = limited(s, 2, 7, 1)?;
    let mut window = vec![subscriber.message_with("0")?, subscriber.message_with("1")?];
    for number in 2..7 {
        expect_full(&mut publisher, &mut subscriber)?;
        subscriber.acknowledge(&window.remove(0))?;
        window.push(subscriber.message_with(format!("{number}"))?);
    }
    window.iter().try_for_each(|publish| subscriber.acknowledge(publish))?;
    s.fence(&mut publisher, &mut subscriber)
}

/// Whether QoS 0 still flows while the window is full is the broker's choice; it must not fill the window.
fn qos_0_does_not_count(s: &Scenario<'_>) -> Outcome {
    let (mut subscriber, mut publisher) = limited(s, 2, 0, 1)?;
    for number in 0..10 {
        publisher.publish(&Publish::new(&s.topic("t"), format!("free {number}")))?;
        subscriber.message_with(format!("free {number}"))?;
    }
    for number in 0..2 {
        publisher.publish(&Publish::new(&s.topic("t"), format!("{number}")).qos(1))?;
        subscriber.message_with(format!("{number}"))?;
    }
    Ok(())
}

fn qos_2_counts_until_pubcomp(s: &Scenario<'_>) -> Outcome {
    let (mut subscriber, mut publisher) = limited(s, 1, 2, 2)?;
    let first = subscriber.message_with("0")?;
    subscriber.receive_release(first.packet_id)?;
    expect_full(&mut publisher, &mut subscriber)?;
    subscriber.send_acknowledgement(PacketType::Pubcomp, first.packet_id)?;
    subscriber.take_with("1")?;
    s.fence(&mut publisher, &mut subscriber)
}

fn refusals_count_as_acknowledgements(s: &Scenario<'_>) -> Outcome {
    for (qos, kind) in [(1, PacketType::Puback), (2, PacketType::Pubrec)] {
        let (mut subscriber, mut publisher) = limited(s, 1, 3, qos)?;
        for number in 0..3 {
            let publish = subscriber.message_with(format!("{number}"))?;
            subscriber.send_acknowledgement_with(kind, publish.packet_id, 0x80)?;
        }
        s.fence(&mut publisher, &mut subscriber)?;
        subscriber.disconnect()?;
    }
    Ok(())
}

/// Sends one packet of each kind that has an answer, and expects the answers; nothing else may be lost or held back.
fn expect_answers(s: &Scenario<'_>, client: &mut Client) -> Outcome {
    let other = s.topic("other");
    let subscribe = client.send_subscribe(&Subscribe::new(&other, 0))?;
    client.expect_success(PacketType::Suback, subscribe)?;
    client.publish(&Publish::new(&s.topic("elsewhere"), "x").qos(1))?;
    let unsubscribe = client.send_unsubscribe(&Unsubscribe::new(&other))?;
    client.expect_success(PacketType::Unsuback, unsubscribe)?;
    client.ping()
}

fn other_packets_do_not_wait(s: &Scenario<'_>) -> Outcome {
    let (mut subscriber, _publisher) = limited(s, 1, 5, 2)?;
    let first = subscriber.message_with("0")?;
    expect_answers(s, &mut subscriber)?;
    subscriber.publish(&Publish::new(&s.topic("elsewhere"), "x").qos(2))?;
    subscriber.acknowledge(&first)?;
    for number in 1..5 {
        subscriber.take_with(format!("{number}"))?;
    }
    Ok(())
}

fn holds_on_a_resumed_session(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("c")?;
    subscriber.subscribe(&topic, 1)?;
    let mut publisher = s.connect("publisher")?;
    for number in 0..10 {
        publisher.publish(&Publish::new(&topic, format!("{number}")).qos(1))?;
        subscriber.message_with(format!("{number}"))?;
    }
    subscriber.drop_connection()?;
    // Ten are owed, but the new connection takes three at a time.
    let connect = s.connection("c").persistent().with(Property::ReceiveMaximum(3));
    let (mut subscriber, _) = s.connect_with("c", &connect)?;
    let mut window = Vec::new();
    for number in 0..3 {
        window.push(subscriber.message_with(format!("{number}"))?);
    }
    expect_full(&mut publisher, &mut subscriber)?;
    for number in 3..10 {
        subscriber.acknowledge(&window.remove(0))?;
        window.push(subscriber.message_with(format!("{number}"))?);
    }
    window.iter().try_for_each(|publish| subscriber.acknowledge(publish))?;
    s.fence(&mut publisher, &mut subscriber)
}

/// A publisher whose own window is full still acknowledges received messages, and is answered.
fn acknowledgements_are_read_at_the_limit(s: &Scenario<'_>) -> Outcome {
    let inward = s.topic("in");
    let (mut client, mut publisher) = s.subscriber_and_publisher(&inward, 2)?;
    let window = s.target().capabilities.receive_maximum.min(10);
    for packet_id in 1..=window {
        client.send_publish(&Publish::new(&s.topic("out"), "x").qos(2).id(packet_id))?;
        client.expect_success(PacketType::Pubrec, packet_id)?;
    }
    for number in 0..3 {
        publisher.publish(&Publish::new(&inward, format!("{number}")).qos(2))?;
        client.take_with(format!("{number}"))?;
    }
    client.ping()?;
    for packet_id in 1..=window {
        client.release(packet_id)?;
    }
    Ok(())
}

/// Largest Receive Maximum of a broker that these cases fill; above it they would be about memory.
const FILLED_MAX: u16 = 2000;

fn client_may_use_the_whole_maximum(s: &Scenario<'_>) -> Outcome {
    let window = s.target().capabilities.receive_maximum.min(FILLED_MAX);
    let mut client = s.connect("c")?;
    for packet_id in 1..=window {
        client.send_publish(&Publish::new(&s.topic("t"), "x").qos(2).id(packet_id))?;
    }
    for packet_id in 1..=window {
        client.expect_success(PacketType::Pubrec, packet_id)?;
    }
    for packet_id in 1..=window {
        client.release(packet_id)?;
    }
    client.expect_nothing()
}

/// One message too many. Ending the connection is the answer of the specification; a broker that is lenient by choice
/// acknowledges it like the others.
fn client_above_the_maximum(s: &Scenario<'_>) -> Outcome {
    let window = s.target().capabilities.receive_maximum;
    if window > FILLED_MAX {
        return skipped(format!("the broker takes {window} messages at a time"));
    }
    let mut client = s.connect("c")?;
    for packet_id in 1..=window {
        client.send_publish(&Publish::new(&s.topic("t"), "x").qos(2).id(packet_id))?;
        client.expect_success(PacketType::Pubrec, packet_id)?;
    }
    client.send_publish(&Publish::new(&s.topic("t"), "x").qos(2).id(window + 1))?;
    match client.arrival()? {
        Arrival::Packet(Packet::Disconnect { code, .. }) => {
            ensure!([RECEIVE_MAXIMUM_EXCEEDED, PROTOCOL_ERROR].contains(&code), "DISCONNECT with 0x{code:02x}");
            Ok(())
        }
        Arrival::Closed if !s.is_strict() => Ok(()),
        Arrival::Packet(Packet::Acknowledgement(PacketType::Pubrec, pubrec)) if !s.is_strict() => {
            ensure!(pubrec.packet_id == window + 1, "PUBREC of packet {}", pubrec.packet_id);
            Ok(())
        }
        other => failed(format!("one message above the Receive Maximum is answered with {other:?}")),
    }
}

/// Far more messages than a broker queues for a client that acknowledges none of them.
fn control_packets_pass_a_full_queue(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 1)?;
    for batch in 0..50 {
        let mut sent = Vec::new();
        for number in 0..100 {
            sent.push(publisher.send_publish(&Publish::new(&topic, format!("{batch} {number}")).qos(1))?);
        }
        // A broker may tell the publisher that a queue is full; here it only matters that it answers.
        for publish in sent {
            publisher.expect_acknowledgement(PacketType::Puback, publish.packet_id)?;
        }
    }
    expect_answers(s, &mut subscriber)
}

/// The subscriber does not read while megabytes are sent to it; its own packets are answered all the same, in between
/// whatever of the flood the broker kept.
fn control_packets_pass_a_full_socket(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    let payload = vec![b'x'; 32 * 1024];
    for _ in 0..500 {
        publisher.publish(&Publish::new(&topic, &payload))?;
    }
    publisher.ping()?;
    let other = s.topic("other");
    let subscribe = subscriber.send_subscribe(&Subscribe::new(&other, 0))?;
    let unsubscribe = subscriber.send_unsubscribe(&Unsubscribe::new(&topic))?;
    subscriber.send_ping()?;
    subscriber.expect_success(PacketType::Suback, subscribe)?;
    subscriber.expect_success(PacketType::Unsuback, unsubscribe)?;
    subscriber.expect(PacketType::Pingresp)?;
    Ok(())
}

fn a_silent_subscriber_delays_no_others(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut silent = s.connect("silent")?;
    silent.subscribe(&topic, 1)?;
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 1)?;
    for number in 0..2000 {
        publisher.publish(&Publish::new(&topic, format!("{number}")).qos(1))?;
        subscriber.take_with(format!("{number}"))?;
    }
    s.fence(&mut publisher, &mut subscriber)
}
