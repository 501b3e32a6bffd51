//! UTF-8 in topics and filters, where it is not the topic of another area.

use crate::case::Case;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::wire::reason_codes::{MALFORMED_PACKET, PROTOCOL_ERROR, TOPIC_FILTER_INVALID};
use crate::wire::subscribe::head;
use crate::wire::{Bytes, Property, Publish, properties};

pub(super) const CASES: &[Case] = &[
    Case::all("utf8.byte_order_mark_is_a_character", byte_order_mark_is_a_character)
        .proves_311(&["MQTT-1.5.3-3"])
        .proves_5(&["MQTT-1.5.4-3"]),
    Case::all("utf8.topics_are_not_normalised", topics_are_not_normalised).proves_5(&["MQTT-4.7.3-4"]),
    Case::all("utf8.topics_of_many_scripts", topics_of_many_scripts),
    Case::both("utf8.filter_ill_formed_in_subscribe", filter_ill_formed_in_subscribe)
        .proves_311(&["MQTT-3.8.3-1", "MQTT-1.5.3-1", "MQTT-1.5.3-2"])
        .proves_5(&["MQTT-3.8.3-1", "MQTT-1.5.4-1", "MQTT-1.5.4-2", "MQTT-4.7.3-2"]),
    Case::both("utf8.filter_ill_formed_in_unsubscribe", filter_ill_formed_in_unsubscribe)
        .proves_311(&["MQTT-3.10.3-1", "MQTT-1.5.3-1", "MQTT-1.5.3-2"])
        .proves_5(&["MQTT-3.10.3-1", "MQTT-1.5.4-1", "MQTT-1.5.4-2"]),
    Case::v5("utf8.properties_ill_formed", properties_ill_formed).proves_5(&[
        "MQTT-1.5.4-1",
        "MQTT-1.5.4-2",
        "MQTT-1.5.7-1",
        "MQTT-3.3.2-13",
        "MQTT-3.3.2-19",
    ]),
];

/// Strings no packet may contain: U+0000, a surrogate, an overlong form, a lone continuation, a cut sequence, a code
/// point beyond U+10FFFF.
pub(super) const ILL_FORMED: &[&[u8]] =
    &[b"nul\0", b"half\xed\xa0\x80", b"long\xc0\xaf", b"lone\x80", b"cut\xe2\x82", b"beyond\xf4\x90\x80\x80"];

fn byte_order_mark_is_a_character(s: &Scenario<'_>) -> Outcome {
    let plain = s.topic("mark");
    let marked = format!("\u{feff}{plain}\u{feff}");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&marked, 0)?;
    publisher.publish(&Publish::new(&plain, "without"))?;
    publisher.publish(&Publish::new(&marked, "with"))?;
    let publish = subscriber.take_with("with")?;
    ensure!(publish.topic == marked, "the topic name came as {:?}", publish.topic);
    s.fence(&mut publisher, &mut subscriber)
}

/// Pairs that look alike or are equivalent somewhere, but are different topics.
fn topics_are_not_normalised(s: &Scenario<'_>) -> Outcome {
    let pairs = [
        ("caf\u{e9}", "cafe\u{301}"),
        ("case", "CASE"),
        ("slash", "slash/"),
        ("twice/x", "twice//x"),
        ("space", "space "),
        ("\u{212b}", "\u{c5}"),
        ("dot", "./dot"),
        ("escape", "%65scape"),
    ];
    let mut publisher = s.connect("publisher")?;
    for (number, (one, other)) in pairs.into_iter().enumerate() {
        let mut subscriber = s.connect(&format!("s{number}"))?;
        let (one, other) = (s.topic(one), s.topic(other));
        subscriber.subscribe(&one, 0)?;
        publisher.publish(&Publish::new(&other, "other"))?;
        publisher.publish(&Publish::new(&one, "one"))?;
        let publish = subscriber.take_with("one")?;
        ensure!(publish.topic == one, "{one:?} came as {:?}", publish.topic);
        s.fence(&mut publisher, &mut subscriber)?;
    }
    Ok(())
}

fn topics_of_many_scripts(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    for tail in ["ελληνικά", "日本語/温度", "العربية", "кириллица", "🌡️/🏠", "\u{10fffd}", "a\u{7f}b"]
    {
        let topic = s.topic(tail);
        // A broker may refuse control characters, which none of these but the last contains.
        if tail.contains('\u{7f}') && !s.is_strict() {
            continue;
        }
        client.subscribe(&topic, 0)?;
        client.publish(&Publish::new(&topic, tail))?;
        let publish = client.take_with(tail)?;
        ensure!(publish.topic == topic, "{topic:?} came as {:?}", publish.topic);
    }
    Ok(())
}

const BROKEN: &[u8] = &[MALFORMED_PACKET, PROTOCOL_ERROR, TOPIC_FILTER_INVALID];

fn filter_ill_formed_in_subscribe(s: &Scenario<'_>) -> Outcome {
    for filter in ILL_FORMED {
        let mut client = s.connect("c")?;
        client.send(&head(1, &[], s.version).binary(filter).byte(0).packet(0x82))?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

fn filter_ill_formed_in_unsubscribe(s: &Scenario<'_>) -> Outcome {
    for filter in ILL_FORMED {
        let mut client = s.connect("c")?;
        client.send(&head(1, &[], s.version).binary(filter).packet(0xa2))?;
        client.expect_error_close(BROKEN)?;
    }
    Ok(())
}

/// Content type, response topic, and both strings of a user property.
fn properties_ill_formed(s: &Scenario<'_>) -> Outcome {
    for text in ILL_FORMED {
        let content_type = Bytes::new().byte(0x03).binary(text);
        let response_topic = Bytes::new().byte(0x08).binary(text);
        let name = Bytes::new().byte(0x26).binary(text).text("value");
        let value = Bytes::new().byte(0x26).text("name").binary(text);
        for property in [content_type, response_topic, name, value] {
            let mut client = s.connect("c")?;
            let head = Bytes::new().text(&s.topic("t"));
            client.send(&head.raw(&property.with_variable_length()).raw(b"x").packet(0x30))?;
            client.expect_error_close(BROKEN)?;
        }
    }
    // The same property well-formed is welcome.
    let mut client = s.connect("c")?;
    let fine = properties::encode(&[Property::UserProperty("name".to_owned(), "value".to_owned())]);
    client.send(&Bytes::new().text(&s.topic("t")).raw(&fine).raw(b"x").packet(0x30))?;
    client.expect_nothing()
}
