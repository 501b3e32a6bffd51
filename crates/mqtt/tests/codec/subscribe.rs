//! SUBSCRIBE packets.

use tidegate_mqtt::{
    DecodeError, EncodeError, MAX_SUBSCRIPTION_IDENTIFIER, Packet, PacketType, QoS, ReasonCode, RetainHandling,
    StringError, Subscribe, SubscriptionOptions, Subscriptions, TopicError, TopicFilter, UserProperties, Version,
};

use crate::check::{
    ALL, BEFORE_5, INVALID_FILTERS, decode, decodes, encodes, filter, framed, id, packet, refuses, rejects,
};
use crate::wire::{bytes, hex};

const QOS_1: SubscriptionOptions = SubscriptionOptions::new(QoS::AtLeastOnce);

fn subscribe<'a>(subscriptions: &'a [(TopicFilter<'a>, SubscriptionOptions)]) -> Subscribe<'a> {
    Subscribe {
        packet_id: id(0x0102),
        subscription_identifier: None,
        user_properties: UserProperties::EMPTY,
        subscriptions: Subscriptions::new(subscriptions),
    }
}

#[test]
fn one_filter_in_every_version() {
    let subscriptions = [(filter("a/+"), QOS_1)];
    let one = Packet::Subscribe(subscribe(&subscriptions));
    for version in BEFORE_5 {
        packet("one filter", version, "82 08 0102 <a/+> 01", one);
    }
    packet("one filter", Version::V5, "82 09 0102 00 <a/+> 01", one);
}

#[test]
fn several_filters_keep_their_order() {
    let subscriptions = [
        (filter("b"), SubscriptionOptions::new(QoS::ExactlyOnce)),
        (filter("a/#"), SubscriptionOptions::new(QoS::AtMostOnce)),
        (filter("b"), QOS_1),
    ];
    let several = Packet::Subscribe(subscribe(&subscriptions));
    for version in BEFORE_5 {
        let wire = "82 10 0102 | <b> 02 | <a/#> 00 | <b> 01";
        packet("several", version, wire, several);
    }
    let wire = "82 11 0102 00 | <b> 02 | <a/#> 00 | <b> 01";
    packet("several", Version::V5, wire, several);
}

#[test]
fn v5_properties() {
    let subscriptions = [(filter("a"), QOS_1)];
    for (identifier, encoded, remaining, len) in
        [(1, "01", "10", "09"), (128, "8001", "11", "0a"), (MAX_SUBSCRIPTION_IDENTIFIER, "ffffff7f", "13", "0c")]
    {
        let with = Subscribe {
            subscription_identifier: Some(identifier),
            user_properties: UserProperties::new(&[("k", "v")]),
            ..subscribe(&subscriptions)
        };
        let wire = format!("82 {remaining} 0102 {len} | 0b {encoded} | 26 <k> <v> | <a> 01");
        packet("properties", Version::V5, &wire, Packet::Subscribe(with));
        for version in BEFORE_5 {
            let wire = "82 06 0102 <a> 01";
            encodes("properties", version, Packet::Subscribe(with), wire);
        }
    }
}

/// The rules of section 3.8.3.1 for the byte of options.
fn decode_options(byte: u8) -> Result<SubscriptionOptions, DecodeError> {
    // [MQTT-3.8.3-5]
    if byte & 0xC0 != 0 {
        return Err(DecodeError::ReservedBits { field: "subscription options" });
    }
    let qos = QoS::from_bits(byte & 3).ok_or(DecodeError::InvalidQos { field: "QoS of a subscription" })?;
    let retain_handling = match byte >> 4 {
        0 => RetainHandling::SendAtSubscribe,
        1 => RetainHandling::SendIfNew,
        2 => RetainHandling::DoNotSend,
        _ => return Err(DecodeError::InvalidRetainHandling),
    };
    Ok(SubscriptionOptions { qos, no_local: byte & 4 != 0, retain_as_published: byte & 8 != 0, retain_handling })
}

#[test]
fn v5_every_byte_of_options() {
    for byte in 0..=u8::MAX {
        let wire = format!("82 07 0102 00 <a> {byte:02x}");
        match decode_options(byte) {
            Ok(options) => {
                let subscriptions = [(filter("a"), options)];
                let one = Packet::Subscribe(subscribe(&subscriptions));
                packet("options", Version::V5, &wire, one);
            }
            Err(error) => rejects("options", Version::V5, &wire, error),
        }
    }
}

/// [MQTT-3.8.3-4] of 3.1.1.
#[test]
fn v311_knows_the_qos_only() {
    for byte in 0..=u8::MAX {
        let wire = format!("82 06 0102 <a> {byte:02x}");
        match byte {
            0..=2 => {
                let options = SubscriptionOptions::new(QoS::from_bits(byte).unwrap());
                let subscriptions = [(filter("a"), options)];
                let one = Packet::Subscribe(subscribe(&subscriptions));
                packet("options", Version::V311, &wire, one);
            }
            3 => {
                let field = "QoS of a subscription";
                rejects("QoS 3", Version::V311, &wire, DecodeError::InvalidQos { field });
            }
            _ => {
                let field = "subscription options";
                rejects("reserved", Version::V311, &wire, DecodeError::ReservedBits { field });
            }
        }
    }
}

#[test]
fn v31_does_not_look_at_the_other_bits() {
    let subscriptions = [(filter("a"), QOS_1)];
    let one = Packet::Subscribe(subscribe(&subscriptions));
    decodes("other bits", Version::V31, "82 06 0102 <a> fd", one);
    let field = "QoS of a subscription";
    rejects("QoS 3", Version::V31, "82 06 0102 <a> ff", DecodeError::InvalidQos { field });
}

#[test]
fn before_5_other_options_are_left_out() {
    let options = decode_options(0b0010_1110).unwrap();
    let subscriptions = [(filter("a"), options)];
    let one = Packet::Subscribe(subscribe(&subscriptions));
    for version in BEFORE_5 {
        encodes("options", version, one, "82 06 0102 <a> 02");
    }
}

/// [MQTT-3.8.3-2], [MQTT-3.8.3-3] of 3.1.1.
#[test]
fn there_is_at_least_one_filter() {
    let kind = PacketType::Subscribe;
    let error = DecodeError::NoTopicFilter { packet: kind };
    rejects("none", Version::V31, "82 02 0102", error);
    rejects("none", Version::V311, "82 02 0102", error);
    rejects("none", Version::V5, "82 03 0102 00", error);
    for version in ALL {
        let none = Packet::Subscribe(subscribe(&[]));
        let error = EncodeError::NoTopicFilter { packet: kind };
        refuses("none", version, none, error);
    }
}

/// [MQTT-3.8.3-4].
#[test]
fn v5_a_shared_subscription_is_not_no_local() {
    let error = DecodeError::NoLocalOnShared;
    rejects("no local", Version::V5, "82 10 0102 00 <$share/g/a> 04", error);
    rejects("later", Version::V5, "82 14 0102 00 <a> 04 <$share/g/a> 05", error);
    assert_eq!(error.reason_code(), ReasonCode::ProtocolError);
    let subscriptions = [(filter("$share/g/a"), decode_options(0b100).unwrap())];
    let one = Packet::Subscribe(subscribe(&subscriptions));
    refuses("no local", Version::V5, one, EncodeError::NoLocalOnShared);
    encodes("no local", Version::V311, one, "82 0f 0102 <$share/g/a> 00");
}

/// [MQTT-4.7.1-1], [MQTT-4.7.1-2], [MQTT-4.7.3-1], [MQTT-4.8.2-1], [MQTT-4.8.2-2].
#[test]
fn an_invalid_filter_makes_the_packet_malformed() {
    for (text, error) in INVALID_FILTERS {
        let error = DecodeError::InvalidTopicFilter { error: *error };
        for version in ALL {
            let properties = if version.is_v5() { "00" } else { "" };
            let wire = framed(0x82, &bytes(&format!("0102 {properties} <a> 00 {text} 01")));
            rejects("second", version, &hex(&wire), error);
        }
        assert_eq!(error.reason_code(), ReasonCode::MalformedPacket);
    }
}

/// No statement forbids it, so the server answers it, and the others with it.
#[test]
fn a_filter_that_is_shared_twice_is_reported() {
    for version in ALL {
        let properties = if version.is_v5() { "00" } else { "" };
        let body = bytes(&format!("0102 {properties} <a> 00 <$share/g/$share/h/b> 01"));
        let subscribe = Subscribe::decode(version, 0x82, &body).unwrap();
        let filters: Vec<_> = subscribe.filters().map(|(filter, _)| filter.map(TopicFilter::as_str)).collect();
        assert_eq!(filters, [Ok("a"), Err(TopicError::NestedShare)]);
        let error = EncodeError::InvalidTopicFilter { error: TopicError::NestedShare };
        assert_eq!(subscribe.encode(version, &mut Vec::new()), Err(error));
    }
}

/// [MQTT-3.8.3-1].
#[test]
fn a_filter_that_is_not_text_spoils_the_packet() {
    for (text, error) in [("0001 ff", StringError::IllFormed), ("0001 00", StringError::Null)] {
        let error = DecodeError::InvalidString { field: "topic filter", error };
        for version in BEFORE_5 {
            let wire = format!("82 0a 0102 <a> 00 {text} 00");
            rejects("second", version, &wire, error);
        }
        let wire = format!("82 0b 0102 00 <a> 00 {text} 00");
        rejects("second", Version::V5, &wire, error);
    }
}

#[test]
fn lengths() {
    for version in BEFORE_5 {
        let missing = |field| DecodeError::Truncated { field };
        rejects("empty", version, "82 00", missing("packet identifier"));
        rejects("no options", version, "82 05 0102 <a>", missing("subscription options"));
        rejects("cut short", version, "82 05 0102 0002 'a'", missing("topic filter"));
        rejects("half a length", version, "82 03 0102 00", missing("topic filter"));
        let zero = DecodeError::ZeroPacketId { packet: PacketType::Subscribe };
        rejects("identifier 0", version, "82 06 0000 <a> 00", zero);
    }
}

#[test]
fn iterating_by_reference() {
    let wire = bytes("82 0b 0102 00 <a> 01 <b> 02");
    let Ok(Packet::Subscribe(subscribe)) = decode(Version::V5, &wire) else {
        panic!("a SUBSCRIBE packet");
    };
    let mut texts = Vec::new();
    for (filter, _) in &subscribe.subscriptions {
        texts.push(filter.unwrap().as_str());
    }
    assert_eq!(texts, ["a", "b"]);
}
