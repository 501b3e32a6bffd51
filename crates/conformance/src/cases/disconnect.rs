//! DISCONNECT, and packets that a server never expects.

use crate::case::Case;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::version::Version;
use crate::wire::reason_codes::{MALFORMED_PACKET, PROTOCOL_ERROR};
use crate::wire::{Bytes, Property, Publish, properties};

pub(super) const CASES: &[Case] = &[
    Case::all("disconnect.closes_the_connection", closes_the_connection),
    Case::all("disconnect.nothing_counts_after_it", nothing_counts_after_it),
    Case::both("disconnect.malformed", malformed)
        .proves_311(&["MQTT-2.2.2-2"])
        .proves_5(&["MQTT-3.14.1-1", "MQTT-2.1.3-1"]),
    Case::v5("disconnect.of_each_form", of_each_form),
    Case::v5("disconnect.malformed_properties", malformed_properties).proves_5(&["MQTT-4.13.1-1"]),
    Case::both("disconnect.packets_only_a_server_sends", packets_only_a_server_sends)
        .proves_311(&["MQTT-4.8.0-1"])
        .proves_5(&["MQTT-4.13.1-1"]),
    Case::both("disconnect.reserved_packet_type", reserved_packet_type)
        .proves_311(&["MQTT-4.8.0-1", "MQTT-2.2.2-2"])
        .proves_5(&["MQTT-4.13.1-1"]),
    Case::v5("disconnect.is_the_last_word_of_a_server", is_the_last_word_of_a_server).proves_5(&[
        "MQTT-3.14.2-1",
        "MQTT-3.14.2-2",
        "MQTT-3.14.4-1",
        "MQTT-3.14.4-2",
        "MQTT-4.13.1-1",
        "MQTT-4.13.2-1",
    ]),
    Case::v5("disconnect.nothing_follows_to_one_who_watches_itself", nothing_follows_to_one_who_watches_itself)
        .proves_5(&["MQTT-3.14.4-1"]),
];

const BROKEN: &[u8] = &[MALFORMED_PACKET, PROTOCOL_ERROR];

/// The broker closes its side too; the helper waits for exactly that.
fn closes_the_connection(s: &Scenario<'_>) -> Outcome {
    s.connect("c")?.disconnect()
}

fn nothing_counts_after_it(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut observer, _) = s.subscriber_and_publisher(&topic, 0)?;
    let mut client = s.connect("c")?;
    let mut bytes = Publish::new(&topic, "before").encode(s.version);
    bytes.extend([0xe0, 0]);
    bytes.extend(Publish::new(&topic, "after").encode(s.version));
    client.send(&bytes)?;
    client.expect_close()?;
    observer.take_with("before")?;
    let mut again = s.connect("c")?;
    s.fence(&mut again, &mut observer)
}

fn malformed(s: &Scenario<'_>) -> Outcome {
    for flags in [1, 2, 4, 8] {
        let mut client = s.connect("c")?;
        client.send(&[0xe0 | flags, 0])?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

/// No body at all, a reason code alone, and a reason code with properties are all a normal end.
fn of_each_form(s: &Scenario<'_>) -> Outcome {
    let properties =
        [Property::ReasonString("done".to_owned()), Property::UserProperty("a".to_owned(), "b".to_owned())];
    let long = Bytes::new().byte(0).raw(&properties::encode(&properties)).packet(0xe0);
    for bytes in [vec![0xe0, 0], vec![0xe0, 1, 0], vec![0xe0, 2, 0, 0], long] {
        let mut client = s.connect("c")?;
        client.send(&bytes)?;
        let told = client.expect_close()?;
        ensure!(told.is_none(), "a well-formed DISCONNECT is answered with DISCONNECT {told:02x?}");
    }
    Ok(())
}

fn malformed_properties(s: &Scenario<'_>) -> Outcome {
    let alias = properties::encode(&[Property::TopicAlias(1)]);
    let twice = properties::encode(&[Property::ReasonString("a".to_owned()), Property::ReasonString("a".to_owned())]);
    let short = vec![5, 0x1f, 0, 1];
    for broken in [alias, twice, short] {
        let mut client = s.connect("c")?;
        client.send(&Bytes::new().byte(0).raw(&broken).packet(0xe0))?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

fn packets_only_a_server_sends(s: &Scenario<'_>) -> Outcome {
    let packets: [&[u8]; 4] = match s.version {
        Version::V5 => [&[0x20, 3, 0, 0, 0], &[0x90, 4, 0, 1, 0, 0], &[0xb0, 4, 0, 1, 0, 0], &[0xd0, 0]],
        Version::V31 | Version::V311 => [&[0x20, 2, 0, 0], &[0x90, 3, 0, 1, 0], &[0xb0, 2, 0, 1], &[0xd0, 0]],
    };
    for packet in packets {
        let mut client = s.connect("c")?;
        client.send(packet)?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

fn reserved_packet_type(s: &Scenario<'_>) -> Outcome {
    // Type 15 became AUTH in MQTT 5; there a client without an authentication method must not send it.
    for first_byte in [0x00, 0xf0] {
        let mut client = s.connect("c")?;
        client.send(&[first_byte, 0])?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

fn is_the_last_word_of_a_server(s: &Scenario<'_>) -> Outcome {
    // The PINGREQ behind the error must stay unanswered; the client's checks fail on a packet after DISCONNECT.
    let mut client = s.connect("c")?;
    let mut bytes = s.connection("c").encode();
    bytes.extend([0xc0, 0]);
    client.send(&bytes)?;
    client.expect_error_close(&[PROTOCOL_ERROR])
}

/// A careless broker that reports leaving clients sends this report behind the DISCONNECT, if the client watches itself.
/// The client's checks fail on that.
fn nothing_follows_to_one_who_watches_itself(s: &Scenario<'_>) -> Outcome {
    for filter in ["$SYS/brokers/#", "$SYS/brokers/+/clients/+/disconnected"] {
        let mut client = s.connect("c")?;
        client.subscribe(filter, 0)?;
        client.send(&[0x00, 0])?;
        client.expect_error_close(BROKEN)?;
        let (mut old, _) = s.connect_persistent("d")?;
        old.subscribe(filter, 0)?;
        let new = s.connect("d")?;
        old.expect_close()?;
        new.disconnect()?;
    }
    Ok(())
}
