//! Decodes a PUBLISH packet as the hot path does, and passes it on. An input is the version (one byte), the
//! flags (one byte), and the body.

use tidegate_mqtt::{
    MAX_PACKET_SIZE, PacketType, Publish, PublishHead, PublishProperties, QoS, RawPublish, TopicName, Version,
    split_frame,
};

use crate::take_version;

/// The raw view and the checked one agree, and what is passed on says the same.
///
/// # Panics
///
/// When one of these does not hold.
pub fn fuzz_one(data: &[u8]) {
    let Some((version, [flags, body @ ..])) = take_version(data) else {
        return;
    };
    let first_byte = (PacketType::Publish as u8) << 4 | flags & 0x0F;
    let raw = RawPublish::decode(version, first_byte, body);
    let publish = Publish::decode(version, first_byte, body);
    let (raw, publish) = match (raw, publish) {
        (Ok(raw), Ok(publish)) => (raw, publish),
        (Ok(_), Err(_)) => return,
        (Err(raw), checked) => {
            assert_eq!(checked, Err(raw), "the checked view sees what the raw one does");
            return;
        }
    };
    let topic = publish.topic.map_or("", TopicName::as_str);
    assert_eq!(raw.topic, topic.as_bytes());
    assert_eq!(raw.packet_id, publish.packet_id);
    assert_eq!(raw.properties, publish.properties.raw);
    assert_eq!(raw.payload, publish.payload);
    for receiver in [Version::V31, Version::V311, Version::V5] {
        pass_on(receiver, &publish);
    }
}

/// Sends the message to a receiver as a server does.
fn pass_on(version: Version, received: &Publish<'_>) {
    let mut forwarded = Vec::new();
    received.properties.copy_forwardable(&mut forwarded);
    let head = PublishHead {
        version,
        dup: received.dup,
        qos: received.qos,
        retain: received.retain,
        topic: received.topic.map_or("resolved", TopicName::as_str),
        packet_id: received.packet_id.map_or(0, tidegate_mqtt::PacketId::get),
        forwarded_properties: &forwarded,
        message_expiry: received.properties.message_expiry,
        topic_alias: None,
        subscription_identifiers: &[7],
    };
    let mut wire = Vec::new();
    let offset = head.encode(received.payload.len(), &mut wire);
    assert_eq!(offset.is_some(), received.qos > QoS::AtMostOnce);
    wire.extend_from_slice(received.payload);
    assert_eq!(wire.len(), head.encoded_len(received.payload.len()));

    let frame = split_frame(&wire, MAX_PACKET_SIZE).expect("a frame").expect("a whole frame");
    assert_eq!(frame.total_len, wire.len());
    let sent = Publish::decode(version, frame.first_byte, frame.body).expect("a valid packet");
    assert_eq!(sent.topic.map(TopicName::as_str), Some(head.topic));
    assert_eq!(sent.payload, received.payload);
    assert_eq!(sent.packet_id, received.packet_id);
    assert_eq!((sent.dup, sent.qos, sent.retain), (received.dup, received.qos, received.retain));
    if version.is_v5() {
        assert!(sent.properties.subscription_identifiers.iter().eq([7]));
        let properties = PublishProperties {
            subscription_identifiers: received.properties.subscription_identifiers,
            topic_alias: received.properties.topic_alias,
            ..sent.properties
        };
        assert_eq!(properties, received.properties, "properties are passed on unaltered");
    }
}
