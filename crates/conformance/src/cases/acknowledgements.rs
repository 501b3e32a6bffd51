//! The form of PUBACK, PUBREC, PUBREL and PUBCOMP as a client sends them.

use crate::case::Case;
use crate::client::Client;
use crate::outcome::{Outcome, skipped};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::reason_codes::{MALFORMED_PACKET, PROTOCOL_ERROR};
use crate::wire::{Bytes, PacketType, Property, Publish, properties};

pub(super) const CASES: &[Case] = &[
    Case::v5("acknowledgements.of_each_form", of_each_form).needs(&[Feature::Qos2]),
    Case::both("acknowledgements.flags", flags).proves_311(&["MQTT-2.2.2-2"]).proves_5(&["MQTT-2.1.3-1"]),
    Case::both("acknowledgements.of_a_wrong_length", of_a_wrong_length)
        .proves_311(&["MQTT-4.8.0-1"])
        .proves_5(&["MQTT-4.13.1-1"]),
    Case::v5("acknowledgements.reason_code_that_does_not_exist", reason_code_that_does_not_exist).proves_5(&[
        "MQTT-3.4.2-1",
        "MQTT-3.5.2-1",
        "MQTT-3.6.2-1",
        "MQTT-3.7.2-1",
        "MQTT-4.13.1-1",
    ]),
    Case::v5("acknowledgements.malformed_properties", malformed_properties).proves_5(&["MQTT-4.13.1-1"]),
    Case::both("acknowledgements.of_the_wrong_type", of_the_wrong_type)
        .proves_311(&["MQTT-4.8.0-1"])
        .proves_5(&["MQTT-4.3.2-4", "MQTT-4.3.3-8", "MQTT-4.3.3-11", "MQTT-4.13.1-1"])
        .needs(&[Feature::Qos2]),
    Case::v5("acknowledgements.refusal_of_the_wrong_type", refusal_of_the_wrong_type)
        .proves_5(&["MQTT-4.3.2-4", "MQTT-4.3.3-8", "MQTT-4.13.1-1"])
        .needs(&[Feature::Qos2]),
    Case::both("acknowledgements.of_nothing_are_ignored", of_nothing_are_ignored),
];

const BROKEN: &[u8] = &[MALFORMED_PACKET, PROTOCOL_ERROR];
const KINDS: [PacketType; 4] = [PacketType::Puback, PacketType::Pubrec, PacketType::Pubrel, PacketType::Pubcomp];

fn first_byte(kind: PacketType) -> u8 {
    let flags = if kind == PacketType::Pubrel { 0x02 } else { 0x00 };
    ((kind as u8) << 4) | flags
}

/// The packet identifier alone, with a reason code, with an empty and with a full set of properties.
fn of_each_form(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    let pair = Property::UserProperty("name".to_owned(), "value".to_owned());
    let full = properties::encode(&[Property::ReasonString("fine".to_owned()), pair.clone(), pair]);
    let tails: [Vec<u8>; 4] = [vec![], vec![0], vec![0, 0], [vec![0], full].concat()];
    for tail in tails {
        let form = |kind, packet_id| Bytes::new().two(packet_id).raw(&tail).packet(first_byte(kind));
        let sent = publisher.send_publish(&Publish::new(&topic, "x").qos(2))?;
        publisher.expect_success(PacketType::Pubrec, sent.packet_id)?;
        publisher.send(&form(PacketType::Pubrel, sent.packet_id))?;
        publisher.expect_success(PacketType::Pubcomp, sent.packet_id)?;
        let arrived = subscriber.message_with("x")?;
        subscriber.send(&form(PacketType::Pubrec, arrived.packet_id))?;
        subscriber.expect_success(PacketType::Pubrel, arrived.packet_id)?;
        subscriber.send(&form(PacketType::Pubcomp, arrived.packet_id))?;
        subscriber.link.note_acknowledged(arrived.packet_id);
        publisher.publish(&Publish::new(&topic, "y").qos(1))?;
        let arrived = subscriber.message_with("y")?;
        subscriber.send(&form(PacketType::Puback, arrived.packet_id))?;
        subscriber.link.note_acknowledged(arrived.packet_id);
        s.fence(&mut publisher, &mut subscriber)?;
    }
    Ok(())
}

fn flags(s: &Scenario<'_>) -> Outcome {
    for kind in KINDS {
        let mut client = s.connect("c")?;
        client.send(&Bytes::new().two(1).packet(first_byte(kind) ^ 0x01))?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

fn of_a_wrong_length(s: &Scenario<'_>) -> Outcome {
    // MQTT 5 has longer forms, 3.1.1 has exactly two bytes.
    let bodies: &[&[u8]] = if s.is_v5() { &[&[], &[0]] } else { &[&[], &[0], &[0, 1, 0]] };
    for kind in KINDS {
        for body in bodies {
            let mut client = s.connect("c")?;
            client.send(&Bytes::new().raw(body).packet(first_byte(kind)))?;
            client.expect_error_close(BROKEN)?;
        }
    }
    Ok(())
}

/// The sender must use one of the codes of the packet. This project's broker takes another one for malformed, others
/// may read it as success or failure.
fn reason_code_that_does_not_exist(s: &Scenario<'_>) -> Outcome {
    if !s.is_strict() {
        return skipped("a broker may read reason codes it does not know");
    }
    for kind in KINDS {
        for code in [0x01, 0xff] {
            let mut client = s.connect("c")?;
            client.send(&Bytes::new().two(1).byte(code).packet(first_byte(kind)))?;
            client.expect_error_close(BROKEN)?;
        }
    }
    Ok(())
}

fn malformed_properties(s: &Scenario<'_>) -> Outcome {
    let misplaced = properties::encode(&[Property::TopicAlias(1)]);
    let twice = [Property::ReasonString("a".to_owned()), Property::ReasonString("a".to_owned())];
    let cut = vec![3, 0x1f, 0];
    for kind in KINDS {
        for properties in [misplaced.clone(), properties::encode(&twice), cut.clone()] {
            let mut client = s.connect("c")?;
            client.send(&Bytes::new().two(1).byte(0).raw(&properties).packet(first_byte(kind)))?;
            client.expect_error_close(BROKEN)?;
        }
    }
    Ok(())
}

/// Wrong answers of a receiver: the QoS of the message, whether PUBREC has been sent, the packet.
const WRONG: [(u8, bool, PacketType); 5] = [
    (1, false, PacketType::Pubrec),
    (1, false, PacketType::Pubcomp),
    (2, false, PacketType::Puback),
    (2, false, PacketType::Pubcomp),
    (2, true, PacketType::Puback),
];

/// A client with a message in flight, and the message's packet identifier.
fn with_a_message(s: &Scenario<'_>, qos: u8, received: bool) -> Outcome<(Client, u16)> {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, qos)?;
    publisher.publish(&Publish::new(&topic, "x").qos(qos))?;
    let packet_id = subscriber.message_with("x")?.packet_id;
    if received {
        subscriber.receive_release(packet_id)?;
    }
    subscriber.link.note_acknowledged(packet_id);
    Ok((subscriber, packet_id))
}

/// The receiver must answer each step of a flow with its packet, so any other one breaks the protocol.
fn of_the_wrong_type(s: &Scenario<'_>) -> Outcome {
    for (qos, received, kind) in WRONG {
        let (mut client, packet_id) = with_a_message(s, qos, received)?;
        client.send(&Bytes::new().two(packet_id).packet(first_byte(kind)))?;
        client.expect_error_close(&[PROTOCOL_ERROR])?;
    }
    Ok(())
}

/// A PUBREC with an error code ends an exchange at QoS 2 that has just begun, and nothing else.
fn refusal_of_the_wrong_type(s: &Scenario<'_>) -> Outcome {
    const UNSPECIFIED_ERROR: u8 = 0x80;
    for (qos, received, kind) in
        [(1, false, PacketType::Pubrec), (2, true, PacketType::Pubrec), (2, false, PacketType::Puback)]
    {
        let (mut client, packet_id) = with_a_message(s, qos, received)?;
        client.send(&Bytes::new().two(packet_id).byte(UNSPECIFIED_ERROR).packet(first_byte(kind)))?;
        client.expect_error_close(&[PROTOCOL_ERROR])?;
    }
    Ok(())
}

/// A client may have answered twice around a reconnect, so a packet identifier that is not in flight is no error.
fn of_nothing_are_ignored(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    for kind in [PacketType::Puback, PacketType::Pubcomp] {
        client.send(&Bytes::new().two(0x1234).packet(first_byte(kind)))?;
    }
    client.ping()
}
