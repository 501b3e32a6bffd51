//! Packets for a receiver with a Maximum Packet Size: explanations are left out before encoding fails.

use tidegate_mqtt::{
    Auth, ConnAck, Disconnect, EncodeError, MAX_PACKET_SIZE, PubAck, PubComp, PubRec, PubRel, Publish,
    PublishProperties, QoS, ReasonCode, SubAck, UnsubAck, UserProperties, Version,
};

use crate::check::{ALL, decode, id, name};

const PAIRS: UserProperties<'static> = UserProperties::new(&[("key", "value")]);

type Encode = fn(
    reason_string: Option<&'static str>,
    user_properties: UserProperties<'static>,
    max_packet_size: u32,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError>;

macro_rules! ack {
    ($name:ident, $code:ident) => {
        |reason_string, user_properties, max, out| {
            let plain = $name::new(id(1), ReasonCode::$code);
            let packet = $name { reason_string, user_properties, ..plain };
            packet.encode_within(Version::V5, max, out)
        }
    };
}

/// Every packet with a Reason String and User Properties, and the rules that let it leave them out.
const PACKETS: [(&str, Encode); 9] = [
    ("CONNACK [MQTT-3.2.2-19] [MQTT-3.2.2-20]", |reason_string, user_properties, max, out| {
        let mut packet = ConnAck::default();
        packet.properties.assigned_client_identifier = Some("needed");
        packet.properties.reason_string = reason_string;
        packet.properties.user_properties = user_properties;
        packet.encode_within(Version::V5, max, out)
    }),
    ("PUBACK [MQTT-3.4.2-2] [MQTT-3.4.2-3]", ack!(PubAck, QuotaExceeded)),
    ("PUBREC [MQTT-3.5.2-2] [MQTT-3.5.2-3]", ack!(PubRec, QuotaExceeded)),
    ("PUBREL [MQTT-3.6.2-2] [MQTT-3.6.2-3]", ack!(PubRel, Success)),
    ("PUBCOMP [MQTT-3.7.2-2] [MQTT-3.7.2-3]", ack!(PubComp, PacketIdentifierNotFound)),
    ("SUBACK [MQTT-3.9.2-1] [MQTT-3.9.2-2]", |reason_string, user_properties, max, out| {
        let plain = SubAck::new(id(1), &[ReasonCode::Success, ReasonCode::NotAuthorized]);
        let packet = SubAck { reason_string, user_properties, ..plain };
        packet.encode_within(Version::V5, max, out)
    }),
    ("UNSUBACK [MQTT-3.11.2-1] [MQTT-3.11.2-2]", |reason_string, user_properties, max, out| {
        let plain = UnsubAck::new(id(1), &[ReasonCode::NoSubscriptionExisted]);
        let packet = UnsubAck { reason_string, user_properties, ..plain };
        packet.encode_within(Version::V5, max, out)
    }),
    ("DISCONNECT [MQTT-3.14.2-3] [MQTT-3.14.2-4]", |reason_string, user_properties, max, out| {
        let plain = Disconnect::new(ReasonCode::ServerMoved);
        let server_reference = Some("elsewhere");
        let packet = Disconnect { reason_string, user_properties, server_reference, ..plain };
        packet.encode_within(Version::V5, max, out)
    }),
    ("AUTH [MQTT-3.15.2-2] [MQTT-3.15.2-3]", |reason_string, user_properties, max, out| {
        let packet = Auth {
            reason_code: ReasonCode::ContinueAuthentication,
            authentication_method: Some("method"),
            authentication_data: Some(b"data"),
            reason_string,
            user_properties,
        };
        packet.encode_within(Version::V5, max, out)
    }),
];

/// The bytes with this much detail and no limit.
fn unlimited(encode: Encode, reason_string: Option<&'static str>, user_properties: UserProperties<'static>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(reason_string, user_properties, MAX_PACKET_SIZE, &mut out).unwrap();
    decode(Version::V5, &out).expect("a valid packet");
    out
}

#[test]
fn detail_is_left_out_as_the_limit_falls() {
    // Here the Reason String is the shorter of the two, so both orders of size are met.
    for reason in ["why", "a reason that is longer than the pair"] {
        for (case, encode) in PACKETS {
            let whole = unlimited(encode, Some(reason), PAIRS);
            let reason_only = unlimited(encode, Some(reason), UserProperties::EMPTY);
            let pairs_only = unlimited(encode, None, PAIRS);
            let bare = unlimited(encode, None, UserProperties::EMPTY);
            for max in 0..=whole.len() + 1 {
                let mut out = b"before".to_vec();
                let result = encode(Some(reason), PAIRS, max as u32, &mut out);
                let best = [&whole, &reason_only, &pairs_only, &bare].into_iter().find(|wire| wire.len() <= max);
                if let Some(best) = best {
                    assert_eq!(result, Ok(()), "{case}, at most {max}");
                    assert_eq!(out[6..], best[..], "{case}, at most {max}");
                } else {
                    let error = EncodeError::TooLarge { len: bare.len(), max: max as u32 };
                    assert_eq!(result, Err(error), "{case}");
                    assert_eq!(out, b"before", "{case}: nothing is appended");
                }
            }
        }
    }
}

/// An explanation is also left out when it is too long to encode.
#[test]
fn detail_that_is_too_long_is_left_out() {
    let long: &'static str = "x".repeat(65_536).leak();
    for (case, encode) in PACKETS {
        let bare = unlimited(encode, None, UserProperties::EMPTY);
        let pairs_only = unlimited(encode, None, PAIRS);
        let mut out = Vec::new();
        encode(Some(long), UserProperties::EMPTY, MAX_PACKET_SIZE, &mut out).unwrap();
        assert_eq!(out, bare, "{case}");
        out.clear();
        encode(Some(long), PAIRS, MAX_PACKET_SIZE, &mut out).unwrap();
        assert_eq!(out, pairs_only, "{case}");
    }
}

#[test]
fn before_5_the_limit_holds_too() {
    for version in ALL {
        let ack = PubAck::new(id(1), ReasonCode::Success);
        let mut out = Vec::new();
        assert_eq!(ack.encode_within(version, 3, &mut out), Err(EncodeError::TooLarge { len: 4, max: 3 }));
        assert_eq!(ack.encode_within(version, 4, &mut out), Ok(()));
        assert_eq!(out.len(), 4);
    }
}

/// [MQTT-3.1.2-24], [MQTT-3.1.2-25]: no part of a message is left out.
#[test]
fn a_message_is_sent_whole_or_not_at_all() {
    for version in ALL {
        let publish = Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: Some(name("t")),
            packet_id: Some(id(1)),
            properties: PublishProperties { user_properties: PAIRS, ..PublishProperties::default() },
            payload: b"payload",
        };
        let mut whole = Vec::new();
        publish.encode(version, &mut whole).unwrap();
        let len = whole.len();
        let mut out = Vec::new();
        let max = len as u32 - 1;
        assert_eq!(publish.encode_within(version, max, &mut out), Err(EncodeError::TooLarge { len, max }));
        assert!(out.is_empty());
        assert_eq!(publish.encode_within(version, max + 1, &mut out), Ok(()));
        assert_eq!(out, whole);
    }
}

/// The limit counts the fixed header, whose length changes with the body's.
#[test]
fn the_limit_counts_the_fixed_header() {
    for len in 118..130 {
        let reason = "x".repeat(len);
        let ack = PubAck { reason_string: Some(&reason), ..PubAck::new(id(1), ReasonCode::Success) };
        let mut whole = Vec::new();
        ack.encode(Version::V5, &mut whole).unwrap();
        let mut out = Vec::new();
        ack.encode_within(Version::V5, whole.len() as u32, &mut out).unwrap();
        assert_eq!(out, whole);
        out.clear();
        ack.encode_within(Version::V5, whole.len() as u32 - 1, &mut out).unwrap();
        assert_eq!(out.len(), 4, "the reason string is left out");
    }
}
