//! The properties of a PUBLISH packet, and the properties that a server forwards.

use tidegate_mqtt::{DecodeError, PublishProperties, StringError, TopicError};

use crate::wire::{bytes, hex};

#[test]
fn none() {
    let properties = PublishProperties::decode(&[]).unwrap();
    assert_eq!(properties, PublishProperties::default());
    assert!(properties.user_properties.is_empty());
    assert!(properties.subscription_identifiers.is_empty());
}

/// [MQTT-3.3.2-17], [MQTT-3.3.2-18].
#[test]
fn user_properties_keep_their_order_and_repeat() {
    let block = bytes("26 <b> <1> | 01 00 | 26 <a> <2> | 26 <b> <1> | 26 <> <>");
    let properties = PublishProperties::decode(&block).unwrap();
    let pairs: Vec<_> = properties.user_properties.iter().collect();
    assert_eq!(pairs, [("b", "1"), ("a", "2"), ("b", "1"), ("", "")]);
    let mut count = 0;
    for pair in &properties.user_properties {
        assert_eq!(pair, pairs[count]);
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
fn subscription_identifiers_keep_their_order_and_repeat() {
    let block = bytes("0b 05 | 03 <x> | 0b 8001 | 0b 05");
    let properties = PublishProperties::decode(&block).unwrap();
    let identifiers: Vec<u32> = (&properties.subscription_identifiers).into_iter().collect();
    assert_eq!(identifiers, [5, 128, 5]);
}

#[test]
fn the_raw_bytes_are_kept() {
    let block = bytes("01 01 | 26 <a> <b>");
    let properties = PublishProperties::decode(&block).unwrap();
    assert_eq!(properties.raw, block);
}

/// [MQTT-3.3.2-13], [MQTT-3.3.2-14].
#[test]
fn the_response_topic_is_a_topic_name() {
    let field = "response topic";
    let topic = |error| DecodeError::InvalidTopicName { field, error };
    let string = |error| DecodeError::InvalidString { field, error };
    for (block, error) in [
        ("08 <a/+>", topic(TopicError::Wildcard)),
        ("08 <#>", topic(TopicError::Wildcard)),
        ("08 <>", topic(TopicError::Empty)),
        ("08 0001 ff", string(StringError::IllFormed)),
        ("08 0001 00", string(StringError::Null)),
    ] {
        let block = bytes(block);
        assert_eq!(PublishProperties::decode(&block), Err(error));
    }
}

/// [MQTT-3.3.2-19].
#[test]
fn the_content_type_is_text() {
    let block = bytes("03 0001 ff");
    let error = DecodeError::InvalidString { field: "content type", error: StringError::IllFormed };
    assert_eq!(PublishProperties::decode(&block), Err(error));
}

#[test]
fn correlation_data_is_bytes() {
    let block = bytes("09 0003 00ff80");
    let properties = PublishProperties::decode(&block).unwrap();
    assert_eq!(properties.correlation_data, Some(&b"\x00\xff\x80"[..]));
}

fn forwarded(block: &str) -> String {
    let block = bytes(block);
    let properties = PublishProperties::decode(&block).unwrap();
    let mut out = b"before".to_vec();
    properties.copy_forwardable(&mut out);
    hex(out.strip_prefix(b"before").unwrap())
}

/// [MQTT-3.3.2-4], [MQTT-3.3.2-15], [MQTT-3.3.2-16], [MQTT-3.3.2-17], [MQTT-3.3.2-18], [MQTT-3.3.2-20]; and
/// not [MQTT-3.3.2-6], [MQTT-3.3.2-7], [MQTT-3.3.4-6].
#[test]
fn forwarded_properties_are_unaltered_and_in_order() {
    let cases = [
        ("", ""),
        ("01 01", "01 01"),
        ("02 00000001", ""),
        ("23 0001", ""),
        ("0b 8001", ""),
        ("08 <r> | 09 <c> | 03 <t>", "08 <r> | 09 <c> | 03 <t>"),
        ("03 <t> | 09 <c> | 08 <r>", "03 <t> | 09 <c> | 08 <r>"),
        (
            "26 <b> <1> | 23 0001 | 26 <a> <2> | 02 00000001 | 26 <b> <1> | 0b 01 | 01 00",
            "26 <b> <1> | 26 <a> <2> | 26 <b> <1> | 01 00",
        ),
    ];
    for (block, expected) in cases {
        assert_eq!(forwarded(block), hex(&bytes(expected)), "{block}");
    }
}

/// Bytes inside a value are not taken for properties.
#[test]
fn values_that_look_like_properties_stay() {
    let block = "09 0003 230001 | 26 0003 230101 0002 0b01 | 23 0001";
    assert_eq!(forwarded(block), hex(&bytes("09 0003 230001 | 26 0003 230101 0002 0b01")));
}

#[test]
fn equality_is_about_content() {
    let one = bytes("01 01 | 26 <a> <b>");
    let other = bytes("26 <a> <b> | 01 01");
    let different = bytes("26 <a> <c> | 01 01");
    let decode = |block| PublishProperties::decode(block).unwrap();
    assert_eq!(decode(&one), decode(&other));
    assert_ne!(decode(&one), decode(&different));
    assert_eq!(format!("{:?}", decode(&one).user_properties), r#"[("a", "b")]"#);
}
