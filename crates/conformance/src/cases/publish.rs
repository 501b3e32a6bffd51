//! PUBLISH at any QoS: topic, payload, flags and what must not be in it.

use crate::case::Case;
use crate::client::Arrival;
use crate::outcome::{Outcome, ensure, failed};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::version::Version;
use crate::wire::reason_codes::{MALFORMED_PACKET, PROTOCOL_ERROR, TOPIC_NAME_INVALID};
use crate::wire::{Bytes, Packet, PacketType, Property, Publish};

pub(super) const CASES: &[Case] = &[
    Case::all("publish.qos_0", qos_0)
        .proves_311(&["MQTT-2.3.1-5", "MQTT-3.3.1-2", "MQTT-3.3.4-1", "MQTT-3.3.2-1"])
        .proves_5(&["MQTT-2.2.1-2", "MQTT-2.2.2-1", "MQTT-3.3.1-2", "MQTT-3.3.4-1", "MQTT-4.3.1-1", "MQTT-3.3.2-1"]),
    Case::all("publish.both_qos_bits", both_qos_bits).proves_311(&["MQTT-3.3.1-4"]).proves_5(&["MQTT-3.3.1-4"]),
    Case::all("publish.dup_is_not_passed_on", dup_is_not_passed_on)
        .proves_311(&["MQTT-3.3.1-3"])
        .proves_5(&["MQTT-3.3.1-3"])
        .needs(&[Feature::Qos2]),
    Case::all("publish.topic_with_a_wildcard", topic_with_a_wildcard)
        .proves_311(&["MQTT-3.3.2-2", "MQTT-4.7.3-1", "MQTT-4.7.3-2"])
        .proves_5(&["MQTT-3.3.2-2", "MQTT-4.7.0-1"]),
    Case::both("publish.topic_empty", topic_empty).proves_311(&["MQTT-4.7.0-1"]).proves_5(&["MQTT-4.7.3-1"]),
    Case::both("publish.topic_ill_formed", topic_ill_formed)
        .proves_311(&["MQTT-3.3.2-1", "MQTT-1.5.3-1", "MQTT-1.5.3-2"])
        .proves_5(&["MQTT-3.3.2-1", "MQTT-1.5.4-1", "MQTT-1.5.4-2", "MQTT-4.7.3-2"]),
    Case::both("publish.packet_id_0", packet_id_0)
        .proves_311(&["MQTT-2.3.1-1"])
        .proves_5(&["MQTT-2.2.1-3", "MQTT-4.13.1-1"]),
    Case::all("publish.payload_of_any_bytes", payload_of_any_bytes),
    Case::all("publish.payload_of_many_sizes", payload_of_many_sizes).proves_5(&["MQTT-1.5.5-1"]),
    Case::all("publish.without_a_subscriber", without_a_subscriber)
        .proves_311(&["MQTT-3.3.4-1"])
        .proves_5(&["MQTT-3.3.4-1", "MQTT-3.4.2-1", "MQTT-3.5.2-1"])
        .needs(&[Feature::Qos2]),
    Case::all("publish.order_of_one_publisher", order_of_one_publisher)
        .proves_311(&["MQTT-4.6.0-5", "MQTT-4.6.0-6"])
        .proves_5(&["MQTT-4.6.0-5", "MQTT-4.6.0-6"])
        .needs(&[Feature::Qos2]),
    Case::all("publish.topic_matches_the_subscription", topic_matches_the_subscription)
        .proves_311(&["MQTT-3.3.2-3"])
        .proves_5(&["MQTT-3.3.2-3"]),
    Case::both("publish.truncated", truncated).proves_311(&["MQTT-4.8.0-1"]).proves_5(&["MQTT-4.13.1-1"]),
    Case::all("publish.reaches_each_of_many_once", reaches_each_of_many_once)
        .proves_311(&["MQTT-4.5.0-1"])
        .proves_5(&["MQTT-4.5.0-1"])
        .needs(&[Feature::Qos2]),
    Case::both("publish.across_versions", across_versions).needs(&[Feature::Qos1]),
    Case::both("publish.to_topics_of_the_broker", to_topics_of_the_broker)
        .proves_311(&["MQTT-3.3.5-2"])
        .proves_5(&["MQTT-3.4.2-1"])
        .needs(&[Feature::Qos1]),
];

const BROKEN: &[u8] = &[MALFORMED_PACKET, PROTOCOL_ERROR, TOPIC_NAME_INVALID];

fn qos_0(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    publisher.publish(&Publish::new(&topic, "hello"))?;
    let publish = subscriber.take()?;
    // Equality covers the flags, the absent packet identifier, and the absence of unsent properties.
    ensure!(publish == Publish::new(&topic, "hello"), "the message came as {publish:?}");
    publisher.expect_nothing()?;
    s.fence(&mut publisher, &mut subscriber)
}

fn both_qos_bits(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send(&Publish::new(&s.topic("t"), "x").qos(3).id(1).encode(s.version))?;
    client.expect_error_close(BROKEN)
}

fn dup_is_not_passed_on(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    for qos in [1, 2] {
        publisher.publish(&Publish::new(&topic, "again?").qos(qos).dup())?;
        let publish = subscriber.take_with("again?")?;
        ensure!(!publish.dup, "DUP is set on a message of QoS {qos} that is sent for the first time");
    }
    Ok(())
}

fn topic_with_a_wildcard(s: &Scenario<'_>) -> Outcome {
    for tail in ["+", "#", "a/+/b", "a+", "a#"] {
        let mut client = s.connect("c")?;
        client.send_publish(&Publish::new(&s.topic(tail), "x"))?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

fn topic_empty(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send_publish(&Publish::new("", "x"))?;
    client.expect_error_close(BROKEN)
}

fn topic_ill_formed(s: &Scenario<'_>) -> Outcome {
    for topic in super::utf8::ILL_FORMED {
        let body = Bytes::new().binary(topic);
        let body = if s.is_v5() { body.byte(0) } else { body };
        let mut client = s.connect("c")?;
        client.send(&body.raw(b"x").packet(0x30))?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

fn packet_id_0(s: &Scenario<'_>) -> Outcome {
    for qos in [1, 2] {
        let mut client = s.connect("c")?;
        client.send(&Publish::new(&s.topic("t"), "x").qos(qos).encode(s.version))?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

fn payload_of_any_bytes(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    let every: Vec<u8> = (0..=255).collect();
    for payload in [&b""[..], b"\0", b"\xff\xfe\xed\xa0\x80", &every] {
        publisher.publish(&Publish::new(&topic, payload))?;
        subscriber.take_with(payload)?;
    }
    Ok(())
}

/// Sizes around the steps of the remaining length, and one that no single read returns.
fn payload_of_many_sizes(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    let overhead = 2 + topic.len() + usize::from(s.is_v5());
    let allowed = s.target().capabilities.maximum_packet_size.map_or(usize::MAX, |size| size as usize);
    for length in [127, 128, 16_383, 16_384, 65_535, 65_536, 2_097_151, 2_097_152] {
        let payload: Vec<u8> = (0..length - overhead).map(|index| (index % 251) as u8).collect();
        if length + 5 <= allowed {
            publisher.publish(&Publish::new(&topic, &payload))?;
            let publish = subscriber.take()?;
            ensure!(publish.payload == payload, "a packet of {length} bytes arrived altered");
        }
    }
    Ok(())
}

fn without_a_subscriber(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    for qos in [0, 1, 2] {
        client.publish(&Publish::new(&s.topic("unwanted"), "x").qos(qos))?;
    }
    client.expect_nothing()
}

fn order_of_one_publisher(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    for qos in [0, 1, 2] {
        // Handshakes of several messages are under way at the same time, but no more than any broker allows.
        for batch in 0..10 {
            let mut sent = Vec::new();
            for number in 0..10 {
                let publish = Publish::new(&topic, format!("{}", batch * 10 + number)).qos(qos);
                sent.push(publisher.send_publish(&publish)?);
            }
            for publish in sent {
                match qos {
                    0 => {}
                    1 => drop(publisher.expect_success(PacketType::Puback, publish.packet_id)?),
                    _ => {
                        publisher.expect_success(PacketType::Pubrec, publish.packet_id)?;
                        publisher.release(publish.packet_id)?;
                    }
                }
            }
            for number in 0..10 {
                subscriber.take_with(format!("{}", batch * 10 + number))?;
            }
        }
    }
    Ok(())
}

fn topic_matches_the_subscription(s: &Scenario<'_>) -> Outcome {
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&s.topic("a"), 0)?;
    for other in ["b", "a/b", "aa", "A", ""] {
        publisher.publish(&Publish::new(&s.topic(other), "elsewhere"))?;
    }
    publisher.publish(&Publish::new(&s.topic("a"), "here"))?;
    let publish = subscriber.take_with("here")?;
    ensure!(publish.topic == s.topic("a"), "the message came on `{}`", publish.topic);
    s.fence(&mut publisher, &mut subscriber)
}

fn truncated(s: &Scenario<'_>) -> Outcome {
    let whole = Publish::new("topic", "").qos(1).id(1).with(Property::TopicAlias(1)).encode(s.version);
    let body = whole.get(2..).unwrap_or_default();
    // Without its last byte a packet of MQTT 3.1.1 lacks half its identifier, one of MQTT 5 half its property.
    for length in 0..body.len() {
        let mut client = s.connect("c")?;
        client.send(&Bytes::new().raw(body.get(..length).unwrap_or_default()).packet(0x32))?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

fn reaches_each_of_many_once(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut subscribers = Vec::new();
    for number in 0..30 {
        let mut subscriber = s.connect(&format!("s{number}"))?;
        subscriber.subscribe(&topic, number % 3)?;
        subscribers.push(subscriber);
    }
    let mut publisher = s.connect("publisher")?;
    for number in 0..5 {
        publisher.publish(&Publish::new(&topic, format!("{number}")).qos(2))?;
    }
    for subscriber in &mut subscribers {
        for number in 0..5 {
            subscriber.take_with(format!("{number}"))?;
        }
        s.fence(&mut publisher, subscriber)?;
    }
    Ok(())
}

fn across_versions(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    let versions = s.target().capabilities.versions.clone();
    for version in versions {
        let name = format!("s{}", version.token());
        let (mut subscriber, _) = s.connect_with(&name, &s.connection_as(version, &name))?;
        subscriber.subscribe(&topic, 1)?;
        let publish = if s.version == Version::V5 {
            let pair = Property::UserProperty("a".to_owned(), "b".to_owned());
            Publish::new(&topic, "for all").qos(1).with(pair)
        } else {
            Publish::new(&topic, "for all").qos(1)
        };
        publisher.publish(&publish)?;
        let arrived = subscriber.take_with("for all")?;
        let pairs = usize::from(s.version == Version::V5 && version == Version::V5);
        ensure!(arrived.user_properties().len() == pairs, "MQTT {version} got {:?}", arrived.properties);
        subscriber.disconnect()?;
    }
    Ok(())
}

/// The broker's own topics are not for clients to write. A 3.1.1 client gets no error or loses its connection; an MQTT
/// 5 client may get the reason code.
fn to_topics_of_the_broker(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    let sent = client.send_publish(&Publish::new("$SYS/conformance", "x").qos(1))?;
    match client.arrival()? {
        Arrival::Packet(Packet::Acknowledgement(PacketType::Puback, puback)) => {
            ensure!(puback.packet_id == sent.packet_id, "PUBACK of packet {}", puback.packet_id);
            client.expect_nothing()
        }
        Arrival::Packet(Packet::Disconnect { .. }) | Arrival::Closed => Ok(()),
        other => failed(format!("a message to a topic of the broker is answered with {other:?}")),
    }
}
