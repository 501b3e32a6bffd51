//! QoS 2 in both directions; redelivery by the broker is in `redelivery`.

use crate::case::Case;
use crate::client::Arrival;
use crate::outcome::{Outcome, ensure, failed, skipped};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::reason_codes::{MALFORMED_PACKET, PACKET_IDENTIFIER_NOT_FOUND, PROTOCOL_ERROR};
use crate::wire::{Bytes, Packet, PacketType, Publish};

pub(super) const CASES: &[Case] = &[
    Case::all("qos2.is_acknowledged", is_acknowledged)
        .proves_311(&["MQTT-2.3.1-6", "MQTT-3.3.4-1"])
        .proves_5(&["MQTT-2.2.1-5", "MQTT-3.3.4-1", "MQTT-4.3.3-8", "MQTT-4.3.3-11", "MQTT-3.5.2-1", "MQTT-3.7.2-1"])
        .needs(&[Feature::Qos2]),
    Case::all("qos2.replay_before_pubrel_is_not_delivered_twice", replay_before_pubrel_is_not_delivered_twice)
        .proves_5(&["MQTT-4.3.3-10"])
        .needs(&[Feature::Qos2]),
    Case::both("qos2.replay_without_dup_is_not_delivered_twice", replay_without_dup_is_not_delivered_twice)
        .proves_5(&["MQTT-4.3.3-10"])
        .needs(&[Feature::Qos2]),
    Case::both("qos2.replay_on_a_resumed_session_is_not_delivered_twice", replay_on_a_resumed_session)
        .proves_311(&["MQTT-3.1.2-4"])
        .proves_5(&["MQTT-4.3.3-10", "MQTT-3.1.2-5"])
        .needs(&[Feature::Qos2]),
    Case::both("qos2.released_on_a_resumed_session", released_on_a_resumed_session)
        .proves_311(&["MQTT-3.1.2-4"])
        .proves_5(&["MQTT-4.3.3-11", "MQTT-3.1.2-5"])
        .needs(&[Feature::Qos2]),
    Case::all("qos2.packet_id_is_free_after_pubcomp", packet_id_is_free_after_pubcomp)
        .proves_5(&["MQTT-4.3.3-12"])
        .needs(&[Feature::Qos2]),
    Case::v5("qos2.packet_id_is_free_after_a_refusal", packet_id_is_free_after_a_refusal)
        .proves_5(&["MQTT-4.3.3-9"])
        .needs(&[Feature::Qos2]),
    Case::all("qos2.pubrel_is_answered_each_time", pubrel_is_answered_each_time)
        .proves_5(&["MQTT-4.3.3-11"])
        .needs(&[Feature::Qos2]),
    Case::v5("qos2.pubrel_of_nothing", pubrel_of_nothing)
        .proves_5(&["MQTT-3.7.2-1", "MQTT-4.3.3-11"])
        .needs(&[Feature::Qos2]),
    Case::both("qos2.pubrel_flags", pubrel_flags)
        .proves_311(&["MQTT-3.6.1-1", "MQTT-2.2.2-2"])
        .proves_5(&["MQTT-3.6.1-1", "MQTT-2.1.3-1"]),
    Case::all("qos2.delivery", delivery)
        .proves_311(&["MQTT-2.3.1-4", "MQTT-2.3.1-6"])
        .proves_5(&["MQTT-2.2.1-4", "MQTT-4.3.3-1", "MQTT-4.3.3-2", "MQTT-4.3.3-4", "MQTT-3.6.2-1"])
        .needs(&[Feature::Qos2]),
    Case::all("qos2.handshakes_interleave", handshakes_interleave)
        .proves_311(&["MQTT-2.3.1-6"])
        .proves_5(&["MQTT-4.3.3-4", "MQTT-4.3.3-8"])
        .needs(&[Feature::Qos2]),
    Case::v5("qos2.refused_by_the_subscriber_is_done", refused_by_the_subscriber_is_done)
        .proves_5(&["MQTT-4.4.0-2"])
        .needs(&[Feature::Qos2]),
    Case::v5("qos2.pubrec_of_nothing", pubrec_of_nothing).needs(&[Feature::Qos2]),
];

fn is_acknowledged(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    publisher.send_publish(&Publish::new(&topic, "hello").qos(2).id(4711))?;
    publisher.expect_success(PacketType::Pubrec, 4711)?;
    publisher.release(4711)?;
    subscriber.take_with("hello")?;
    publisher.expect_nothing()?;
    s.fence(&mut publisher, &mut subscriber)
}

fn replay_before_pubrel_is_not_delivered_twice(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    let publish = Publish::new(&topic, "exactly once").qos(2).id(7);
    for replay in [publish.clone(), publish.clone().dup(), publish.dup()] {
        publisher.send_publish(&replay)?;
        publisher.expect_success(PacketType::Pubrec, 7)?;
    }
    publisher.release(7)?;
    subscriber.take_with("exactly once")?;
    s.fence(&mut publisher, &mut subscriber)
}

/// A message under a packet identifier in use, and without DUP: a replay by a careless client, or a new message by a
/// confused one. In either case the broker delivers an acknowledged message once.
fn replay_without_dup_is_not_delivered_twice(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.subscriber_and_publisher(&topic, 2)?;
    let publish = Publish::new(&topic, "exactly once").qos(2).id(7);
    let (mut publisher, _) = s.connect_persistent("c")?;
    publisher.send_publish(&publish)?;
    publisher.expect_success(PacketType::Pubrec, 7)?;
    publisher.send_publish(&publish)?;
    match publisher.arrival()? {
        Arrival::Packet(Packet::Acknowledgement(PacketType::Pubrec, _)) => {}
        Arrival::Packet(Packet::Disconnect { .. }) | Arrival::Closed if !s.is_strict() => {
            (publisher, _) = s.connect_persistent("c")?;
        }
        other => return failed(format!("a replay without DUP is answered with {other:?}")),
    }
    publisher.send_acknowledgement(PacketType::Pubrel, 7)?;
    publisher.expect_acknowledgement(PacketType::Pubcomp, 7)?;
    subscriber.take_with("exactly once")?;
    s.fence(&mut publisher, &mut subscriber)
}

fn replay_on_a_resumed_session(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut observer) = s.subscriber_and_publisher(&topic, 2)?;
    let publish = Publish::new(&topic, "exactly once").qos(2).id(7);
    let (mut publisher, _) = s.connect_persistent("c")?;
    publisher.send_publish(&publish)?;
    publisher.expect_success(PacketType::Pubrec, 7)?;
    publisher.drop_connection()?;
    let (mut publisher, connack) = s.connect_persistent("c")?;
    ensure!(connack.session_present, "the session of the publisher is not there");
    publisher.send_publish(&publish.dup())?;
    publisher.expect_success(PacketType::Pubrec, 7)?;
    publisher.release(7)?;
    subscriber.take_with("exactly once")?;
    s.fence(&mut publisher, &mut subscriber)?;
    s.fence(&mut observer, &mut subscriber)
}

fn released_on_a_resumed_session(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.subscriber_and_publisher(&topic, 2)?;
    let (mut publisher, _) = s.connect_persistent("c")?;
    publisher.send_publish(&Publish::new(&topic, "exactly once").qos(2).id(7))?;
    publisher.expect_success(PacketType::Pubrec, 7)?;
    publisher.drop_connection()?;
    let (mut publisher, _) = s.connect_persistent("c")?;
    publisher.release(7)?;
    subscriber.take_with("exactly once")?;
    s.fence(&mut publisher, &mut subscriber)
}

fn packet_id_is_free_after_pubcomp(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    for payload in ["first", "second", "second"] {
        publisher.publish(&Publish::new(&topic, payload).qos(2).id(7))?;
        subscriber.take_with(payload)?;
    }
    s.fence(&mut publisher, &mut subscriber)
}

/// Most brokers refuse a message to a topic of the broker without any configuration.
fn packet_id_is_free_after_a_refusal(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    publisher.send_publish(&Publish::new("$SYS/conformance", "refused").qos(2).id(7))?;
    match publisher.arrival()? {
        Arrival::Packet(Packet::Acknowledgement(PacketType::Pubrec, pubrec)) if pubrec.code() >= 0x80 => {}
        _ => return skipped("the broker does not refuse a message to $SYS with PUBREC"),
    }
    for payload in ["new", "newer"] {
        publisher.publish(&Publish::new(&topic, payload).qos(2).id(7))?;
        subscriber.take_with(payload)?;
    }
    s.fence(&mut publisher, &mut subscriber)
}

/// A client that lost PUBCOMP sends PUBREL again; it has to get its answer again.
fn pubrel_is_answered_each_time(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.connect("c")?;
    client.publish(&Publish::new(&topic, "x").qos(2).id(7))?;
    client.send_acknowledgement(PacketType::Pubrel, 7)?;
    client.expect_acknowledgement(PacketType::Pubcomp, 7)?;
    client.expect_nothing()
}

fn pubrel_of_nothing(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send_acknowledgement(PacketType::Pubrel, 4711)?;
    let code = client.expect_acknowledgement(PacketType::Pubcomp, 4711)?.code();
    let expected = if s.is_strict() { &[PACKET_IDENTIFIER_NOT_FOUND][..] } else { &[0, PACKET_IDENTIFIER_NOT_FOUND] };
    ensure!(expected.contains(&code), "PUBCOMP for an unknown packet identifier tells 0x{code:02x}");
    client.expect_nothing()
}

fn pubrel_flags(s: &Scenario<'_>) -> Outcome {
    for flags in [0x0, 0x1, 0x3, 0x4, 0x6, 0xa] {
        let mut client = s.connect("c")?;
        client.send(&Bytes::new().two(1).packet(0x60 | flags))?;
        client.expect_error_close(&[MALFORMED_PACKET, PROTOCOL_ERROR])?;
    }
    Ok(())
}

fn delivery(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    for number in 0..20 {
        publisher.publish(&Publish::new(&topic, format!("{number}")).qos(2))?;
        let publish = subscriber.message_with(format!("{number}"))?;
        ensure!(publish.qos == 2 && !publish.dup, "the message came at QoS {}, dup {}", publish.qos, publish.dup);
        subscriber.receive_release(publish.packet_id)?;
        subscriber.send_acknowledgement(PacketType::Pubcomp, publish.packet_id)?;
    }
    s.fence(&mut publisher, &mut subscriber)
}

/// Each step of five handshakes before the next step of any.
fn handshakes_interleave(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    for packet_id in 1..=5 {
        publisher.send_publish(&Publish::new(&topic, format!("{packet_id}")).qos(2).id(packet_id))?;
    }
    for packet_id in 1..=5 {
        publisher.expect_success(PacketType::Pubrec, packet_id)?;
    }
    for packet_id in 1..=5 {
        publisher.release(packet_id)?;
    }
    let mut arrived = Vec::new();
    for number in 1..=5 {
        arrived.push(subscriber.message_with(format!("{number}"))?.packet_id);
    }
    for packet_id in &arrived {
        subscriber.send_acknowledgement(PacketType::Pubrec, *packet_id)?;
    }
    for packet_id in &arrived {
        subscriber.expect_success(PacketType::Pubrel, *packet_id)?;
    }
    for packet_id in &arrived {
        subscriber.send_acknowledgement(PacketType::Pubcomp, *packet_id)?;
    }
    s.fence(&mut publisher, &mut subscriber)
}

fn refused_by_the_subscriber_is_done(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.subscribe(&topic, 2)?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "unwanted").qos(2))?;
    let publish = subscriber.message_with("unwanted")?;
    subscriber.send_acknowledgement_with(PacketType::Pubrec, publish.packet_id, 0x83)?;
    // No PUBREL follows a refusal, neither now nor on the next connection.
    subscriber.expect_nothing()?;
    subscriber.drop_connection()?;
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.expect_nothing()?;
    s.fence(&mut publisher, &mut subscriber)
}

/// A PUBREC that answers nothing is answered by a PUBREL that says so, or is a protocol error.
fn pubrec_of_nothing(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send_acknowledgement(PacketType::Pubrec, 4711)?;
    match client.arrival()? {
        Arrival::Packet(Packet::Acknowledgement(PacketType::Pubrel, pubrel)) => {
            ensure!(pubrel.packet_id == 4711, "PUBREL of packet {}", pubrel.packet_id);
            let told = pubrel.code() == PACKET_IDENTIFIER_NOT_FOUND || !s.is_strict();
            ensure!(told, "PUBREL for an unknown packet identifier tells 0x{:02x}", pubrel.code());
            Ok(())
        }
        Arrival::Packet(Packet::Disconnect { .. }) | Arrival::Closed => Ok(()),
        other => failed(format!("PUBREC for an unknown packet identifier is answered with {other:?}")),
    }
}
