//! The table of Reason Codes, against the lists in the specification.

use std::collections::BTreeSet;

use tidegate_mqtt::{PacketType, QoS, ReasonCode, ReasonCodes};

/// The codes that the chapter of each packet lists.
const CHAPTERS: [(PacketType, &[u8]); 9] = [
    (
        PacketType::ConnAck,
        &[
            0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A,
            0x9B, 0x9C, 0x9D, 0x9F,
        ],
    ),
    (PacketType::PubAck, &[0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99]),
    (PacketType::PubRec, &[0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99]),
    (PacketType::PubRel, &[0x00, 0x92]),
    (PacketType::PubComp, &[0x00, 0x92]),
    (PacketType::SubAck, &[0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2]),
    (PacketType::UnsubAck, &[0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91]),
    (
        PacketType::Disconnect,
        // 0x8C is in the table of section 2.4 only.
        &[
            0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8C, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96,
            0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2,
        ],
    ),
    (PacketType::Auth, &[0x00, 0x18, 0x19]),
];

#[test]
fn each_packet_carries_the_codes_of_its_chapter() {
    for packet in PacketType::ALL {
        let chapter = CHAPTERS.iter().find(|(other, _)| *other == packet);
        let listed = chapter.map_or(&[][..], |(_, codes)| codes);
        let allowed: Vec<u8> =
            ReasonCode::ALL.iter().filter(|code| code.allowed_in(packet)).map(|code| code.byte()).collect();
        assert_eq!(allowed, listed, "{packet}");
    }
}

#[test]
fn numbers_are_unique_and_in_order() {
    let numbers: Vec<u8> = ReasonCode::ALL.iter().map(|code| code.byte()).collect();
    let set: BTreeSet<u8> = numbers.iter().copied().collect();
    assert_eq!(numbers, set.into_iter().collect::<Vec<_>>());
    assert_eq!(numbers.len(), 43);
}

#[test]
fn numbers_lead_back_to_codes() {
    for byte in 0..=u8::MAX {
        let code = ReasonCode::from_byte(byte);
        assert!(code.is_none_or(|code| code.byte() == byte && code.is_error() == (byte >= 0x80)));
        assert_eq!(code.is_some(), ReasonCode::ALL.iter().any(|code| code.byte() == byte));
    }
}

#[test]
fn texts_are_unique_and_plain() {
    let texts: BTreeSet<&str> = ReasonCode::ALL.iter().map(|code| code.text()).collect();
    assert_eq!(texts.len(), ReasonCode::ALL.len());
    for text in texts {
        assert!(text.starts_with(|first: char| first.is_lowercase() || first == 'Q'));
        assert!(!text.ends_with('.'), "{text}");
    }
    assert_eq!(ReasonCode::SessionTakenOver.to_string(), "session taken over");
}

#[test]
fn zero_has_three_names() {
    assert_eq!(ReasonCode::default(), ReasonCode::Success);
    assert_eq!(ReasonCode::NORMAL_DISCONNECTION, ReasonCode::Success);
    assert_eq!(ReasonCode::GRANTED_QOS_0, ReasonCode::Success);
}

/// [MQTT-3.8.4-7].
#[test]
fn granting_names_the_qos() {
    for bits in 0..3 {
        let qos = QoS::from_bits(bits).unwrap();
        assert_eq!(ReasonCode::granted(qos).byte(), bits);
    }
}

#[test]
fn a_list_of_codes_keeps_its_order() {
    let codes = [ReasonCode::GrantedQos2, ReasonCode::Success, ReasonCode::NotAuthorized];
    let list = ReasonCodes::new(&codes);
    assert_eq!(list.len(), 3);
    assert!(!list.is_empty());
    assert!(list.iter().eq(codes));
    assert_eq!(format!("{list:?}"), format!("{codes:?}"));
    assert!(ReasonCodes::default().is_empty());
    assert_ne!(list, ReasonCodes::EMPTY);
}
