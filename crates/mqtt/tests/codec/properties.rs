//! The table of properties: in which packets, how often, and with which values.

use tidegate_mqtt::{
    Connect, DecodeError, Packet, PacketType, PropertyId, PropertyOwner, PublishProperties, ReasonCode, Version,
};

use crate::check::{decode, framed};
use crate::wire::bytes;

/// Each property with a valid value, and the places that section 2.2.2.2 lists for it.
const TABLE: [(PropertyId, &str, &str); 27] = [
    (PropertyId::PayloadFormatIndicator, "01 01", "PUBLISH Will"),
    (PropertyId::MessageExpiryInterval, "02 00000001", "PUBLISH Will"),
    (PropertyId::ContentType, "03 <x>", "PUBLISH Will"),
    (PropertyId::ResponseTopic, "08 <x>", "PUBLISH Will"),
    (PropertyId::CorrelationData, "09 <x>", "PUBLISH Will"),
    (PropertyId::SubscriptionIdentifier, "0b 01", "PUBLISH SUBSCRIBE"),
    (PropertyId::SessionExpiryInterval, "11 00000001", "CONNECT CONNACK DISCONNECT"),
    (PropertyId::AssignedClientIdentifier, "12 <x>", "CONNACK"),
    (PropertyId::ServerKeepAlive, "13 0001", "CONNACK"),
    (PropertyId::AuthenticationMethod, "15 <x>", "CONNECT CONNACK AUTH"),
    (PropertyId::AuthenticationData, "16 <x>", "CONNECT CONNACK AUTH"),
    (PropertyId::RequestProblemInformation, "17 01", "CONNECT"),
    (PropertyId::WillDelayInterval, "18 00000001", "Will"),
    (PropertyId::RequestResponseInformation, "19 01", "CONNECT"),
    (PropertyId::ResponseInformation, "1a <x>", "CONNACK"),
    (PropertyId::ServerReference, "1c <x>", "CONNACK DISCONNECT"),
    (PropertyId::ReasonString, "1f <x>", "CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH"),
    (PropertyId::ReceiveMaximum, "21 0001", "CONNECT CONNACK"),
    (PropertyId::TopicAliasMaximum, "22 0001", "CONNECT CONNACK"),
    (PropertyId::TopicAlias, "23 0001", "PUBLISH"),
    (PropertyId::MaximumQos, "24 01", "CONNACK"),
    (PropertyId::RetainAvailable, "25 01", "CONNACK"),
    (
        PropertyId::UserProperty,
        "26 <x> <y>",
        "CONNECT CONNACK PUBLISH Will PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK DISCONNECT AUTH",
    ),
    (PropertyId::MaximumPacketSize, "27 00000001", "CONNECT CONNACK"),
    (PropertyId::WildcardSubscriptionAvailable, "28 01", "CONNACK"),
    (PropertyId::SubscriptionIdentifierAvailable, "29 01", "CONNACK"),
    (PropertyId::SharedSubscriptionAvailable, "2a 01", "CONNACK"),
];

/// Every owner of properties: its name in the table, the first byte, and the bytes before and after the block.
const OWNERS: [(&str, PropertyOwner, &str, &str, &str); 14] = [
    ("CONNECT", PropertyOwner::Packet(PacketType::Connect), "10", "<MQTT> 05 02 003c", "<c>"),
    ("Will", PropertyOwner::Will, "10", "<MQTT> 05 06 003c 00 <c>", "<t> <m>"),
    ("CONNACK", PropertyOwner::Packet(PacketType::ConnAck), "20", "00 00", ""),
    ("PUBLISH", PropertyOwner::Packet(PacketType::Publish), "30", "<t>", "'payload'"),
    ("PUBACK", PropertyOwner::Packet(PacketType::PubAck), "40", "0001 00", ""),
    ("PUBREC", PropertyOwner::Packet(PacketType::PubRec), "50", "0001 00", ""),
    ("PUBREL", PropertyOwner::Packet(PacketType::PubRel), "62", "0001 00", ""),
    ("PUBCOMP", PropertyOwner::Packet(PacketType::PubComp), "70", "0001 00", ""),
    ("SUBSCRIBE", PropertyOwner::Packet(PacketType::Subscribe), "82", "0001", "<t> 00"),
    ("SUBACK", PropertyOwner::Packet(PacketType::SubAck), "90", "0001", "00"),
    ("UNSUBSCRIBE", PropertyOwner::Packet(PacketType::Unsubscribe), "a2", "0001", "<t>"),
    ("UNSUBACK", PropertyOwner::Packet(PacketType::UnsubAck), "b0", "0001", "00"),
    ("DISCONNECT", PropertyOwner::Packet(PacketType::Disconnect), "e0", "00", ""),
    ("AUTH", PropertyOwner::Packet(PacketType::Auth), "f0", "18", ""),
];

/// A packet whose property block is `block`.
fn packet_with(owner: usize, block: &[u8]) -> Vec<u8> {
    let (_, _, first_byte, before, after) = OWNERS[owner];
    let mut body = bytes(before);
    body.push(u8::try_from(block.len()).unwrap());
    body.extend_from_slice(block);
    body.extend(bytes(after));
    framed(bytes(first_byte)[0], &body)
}

/// Other properties that a property requires.
fn company(owner: &str, property: PropertyId) -> &'static str {
    match (owner, property) {
        (_, PropertyId::AuthenticationMethod) => "",
        ("AUTH", _) | ("CONNECT", PropertyId::AuthenticationData) => "15 <m>",
        _ => "",
    }
}

#[test]
fn the_table_is_complete_and_in_order() {
    let listed: Vec<PropertyId> = TABLE.iter().map(|row| row.0).collect();
    assert_eq!(PropertyId::ALL, listed);
    for (id, value, _) in TABLE {
        assert_eq!(id as u8, bytes(value)[0], "{id}");
        assert_eq!(PropertyId::from_number(u32::from(id as u8)), Some(id));
    }
    let known = (0..=300).filter(|&number| PropertyId::from_number(number).is_some());
    assert_eq!(known.count(), TABLE.len());
}

/// Section 2.2.2.2: each property in each place.
#[test]
fn each_property_stands_where_it_may() {
    for (index, (owner_name, owner, ..)) in OWNERS.into_iter().enumerate() {
        for (property, value, owners) in TABLE {
            let mut block = bytes(company(owner_name, property));
            block.extend(bytes(value));
            let wire = packet_with(index, &block);
            let decoded = decode(Version::V5, &wire);
            let allowed = owners.split(' ').any(|name| name == owner_name);
            assert_eq!(property.allowed_in(owner), allowed, "{property} in {owner_name}");
            if allowed {
                assert!(decoded.is_ok(), "{property} in {owner_name}: {decoded:?}");
            } else {
                let error = DecodeError::PropertyNotAllowed { property, owner };
                assert_eq!(decoded, Err(error), "{property} in {owner_name}");
                assert_eq!(error.reason_code(), ReasonCode::MalformedPacket);
            }
        }
    }
}

/// Only User Properties may repeat, and Subscription Identifiers in a PUBLISH packet.
#[test]
fn each_property_stands_once_unless_it_may_repeat() {
    for (index, (owner_name, owner, ..)) in OWNERS.into_iter().enumerate() {
        for (property, value, owners) in TABLE {
            if !owners.split(' ').any(|name| name == owner_name) {
                continue;
            }
            let mut block = bytes(company(owner_name, property));
            block.extend(bytes(value));
            block.extend(bytes(value));
            let wire = packet_with(index, &block);
            let decoded = decode(Version::V5, &wire);
            let repeats = property == PropertyId::UserProperty
                || (property == PropertyId::SubscriptionIdentifier && owner_name == "PUBLISH");
            assert_eq!(property.may_repeat_in(owner), repeats);
            if repeats {
                assert!(decoded.is_ok(), "{property} in {owner_name}: {decoded:?}");
            } else {
                let error = DecodeError::DuplicateProperty { property };
                assert_eq!(decoded, Err(error), "{property} in {owner_name}");
                assert_eq!(error.reason_code(), ReasonCode::ProtocolError);
            }
        }
    }
}

#[test]
fn a_property_cut_short_is_malformed() {
    for (index, (owner_name, ..)) in OWNERS.into_iter().enumerate() {
        for (property, value, owners) in TABLE {
            if !owners.split(' ').any(|name| name == owner_name) {
                continue;
            }
            let value = bytes(value);
            for len in 1..value.len() {
                let wire = packet_with(index, &value[..len]);
                let error = decode(Version::V5, &wire).expect_err("cut short");
                assert!(matches!(error, DecodeError::Truncated { .. }), "{property} in {owner_name}: {error}");
            }
        }
    }
}

#[test]
fn unknown_properties_are_malformed() {
    let cases = [
        ("00", 0),
        ("04 00", 4),
        ("0a", 0x0A),
        ("14", 0x14),
        ("20", 0x20),
        ("2b 00", 0x2B),
        ("7f", 0x7F),
        ("80 01", 0x80),
        ("82 01", 0x82),
    ];
    for index in 0..OWNERS.len() {
        for (block, id) in cases {
            let wire = packet_with(index, &bytes(block));
            let error = DecodeError::UnknownProperty { id };
            assert_eq!(decode(Version::V5, &wire), Err(error), "{block}");
            assert_eq!(error.reason_code(), ReasonCode::MalformedPacket);
        }
    }
}

#[test]
fn values_outside_their_range_are_protocol_errors() {
    let cases = [
        ("PUBLISH", "01 02", PropertyId::PayloadFormatIndicator, 2),
        ("PUBLISH", "0b 00", PropertyId::SubscriptionIdentifier, 0),
        ("PUBLISH", "23 0000", PropertyId::TopicAlias, 0),
        ("SUBSCRIBE", "0b 00", PropertyId::SubscriptionIdentifier, 0),
        ("CONNECT", "17 02", PropertyId::RequestProblemInformation, 2),
        ("CONNECT", "19 ff", PropertyId::RequestResponseInformation, 255),
        ("CONNECT", "21 0000", PropertyId::ReceiveMaximum, 0),
        ("CONNECT", "27 00000000", PropertyId::MaximumPacketSize, 0),
        ("CONNACK", "21 0000", PropertyId::ReceiveMaximum, 0),
        ("CONNACK", "24 02", PropertyId::MaximumQos, 2),
        ("CONNACK", "25 02", PropertyId::RetainAvailable, 2),
        ("CONNACK", "27 00000000", PropertyId::MaximumPacketSize, 0),
        ("CONNACK", "28 02", PropertyId::WildcardSubscriptionAvailable, 2),
        ("CONNACK", "29 02", PropertyId::SubscriptionIdentifierAvailable, 2),
        ("CONNACK", "2a 02", PropertyId::SharedSubscriptionAvailable, 2),
        ("Will", "01 80", PropertyId::PayloadFormatIndicator, 128),
    ];
    for (owner, block, property, value) in cases {
        let index = OWNERS.iter().position(|row| row.0 == owner).unwrap();
        let wire = packet_with(index, &bytes(block));
        let error = DecodeError::InvalidPropertyValue { property, value };
        assert_eq!(decode(Version::V5, &wire), Err(error), "{property}");
        // [MQTT-3.3.2-8] has a reason code of its own.
        let reason =
            if property == PropertyId::TopicAlias { ReasonCode::TopicAliasInvalid } else { ReasonCode::ProtocolError };
        assert_eq!(error.reason_code(), reason, "{property}");
    }
}

#[test]
fn values_at_the_edge_of_their_range_pass() {
    let block = bytes("27 ffffffff | 21 ffff | 22 ffff | 11 ffffffff | 17 00 | 19 00");
    let wire = packet_with(0, &block);
    let Ok(Packet::Connect(Connect { properties, .. })) = decode(Version::V5, &wire) else {
        panic!("a CONNECT packet");
    };
    assert_eq!(properties.maximum_packet_size.unwrap().get(), u32::MAX);
    assert_eq!(properties.receive_maximum.unwrap().get(), u16::MAX);
    assert_eq!(properties.topic_alias_maximum, Some(u16::MAX));
    assert_eq!(properties.session_expiry_interval, Some(u32::MAX));
    assert_eq!(properties.request_problem_information, Some(false));
    assert_eq!(properties.request_response_information, Some(false));
    let block = bytes("0b ffffff7f | 23 ffff | 02 ffffffff | 01 00");
    let properties = PublishProperties::decode(&block).unwrap();
    assert!(properties.subscription_identifiers.iter().eq([268_435_455]));
    assert_eq!(properties.topic_alias.unwrap().get(), u16::MAX);
}

/// [MQTT-2.2.2-1]: also no properties have a length.
#[test]
fn the_length_of_the_block_is_checked() {
    let cases = [
        ("20 02 00 00", "property length"),
        ("20 03 00 00 01", "properties"),
        ("20 03 00 00 80", "property length"),
        ("30 03 <t>", "property length"),
        ("30 04 <t> 05", "properties"),
        ("82 02 0001", "property length"),
    ];
    for (wire, field) in cases {
        let wire = bytes(wire);
        let error = DecodeError::Truncated { field };
        assert_eq!(decode(Version::V5, &wire), Err(error), "{field}");
    }
    let wire = bytes("20 04 00 00 80 00");
    let error = decode(Version::V5, &wire).expect_err("not the fewest bytes");
    assert!(matches!(error, DecodeError::InvalidVarint { .. }), "{error}");
}
