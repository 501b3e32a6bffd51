//! UNSUBSCRIBE packets.

use tidegate_mqtt::{
    DecodeError, EncodeError, Packet, PacketType, StringError, TopicError, TopicFilter, TopicFilters, Unsubscribe,
    UserProperties, Version,
};

use crate::check::{ALL, BEFORE_5, INVALID_FILTERS, encodes, filter, framed, id, packet, refuses, rejects};
use crate::wire::{bytes, hex};

fn unsubscribe<'a>(filters: &'a [TopicFilter<'a>]) -> Unsubscribe<'a> {
    Unsubscribe {
        packet_id: id(0x0102),
        user_properties: UserProperties::EMPTY,
        topic_filters: TopicFilters::new(filters),
    }
}

#[test]
fn one_filter_in_every_version() {
    let filters = [filter("a/#")];
    let one = Packet::Unsubscribe(unsubscribe(&filters));
    for version in BEFORE_5 {
        packet("one filter", version, "a2 07 0102 <a/#>", one);
    }
    packet("one filter", Version::V5, "a2 08 0102 00 <a/#>", one);
}

#[test]
fn several_filters_keep_their_order() {
    let filters = [filter("b"), filter("$share/g/a"), filter("b")];
    let several = Packet::Unsubscribe(unsubscribe(&filters));
    for version in BEFORE_5 {
        packet("several", version, "a2 14 0102 <b> <$share/g/a> <b>", several);
    }
    packet("several", Version::V5, "a2 15 0102 00 <b> <$share/g/a> <b>", several);
}

#[test]
fn v5_properties() {
    let filters = [filter("a")];
    let with = Unsubscribe { user_properties: UserProperties::new(&[("k", "v"), ("k", "w")]), ..unsubscribe(&filters) };
    let wire = "a2 14 0102 0e | 26 <k> <v> | 26 <k> <w> | <a>";
    packet("properties", Version::V5, wire, Packet::Unsubscribe(with));
    for version in BEFORE_5 {
        encodes("properties", version, Packet::Unsubscribe(with), "a2 05 0102 <a>");
    }
}

/// [MQTT-3.10.3-2].
#[test]
fn there_is_at_least_one_filter() {
    let kind = PacketType::Unsubscribe;
    let error = DecodeError::NoTopicFilter { packet: kind };
    rejects("none", Version::V31, "a2 02 0102", error);
    rejects("none", Version::V311, "a2 02 0102", error);
    rejects("none", Version::V5, "a2 03 0102 00", error);
    for version in ALL {
        let none = Packet::Unsubscribe(unsubscribe(&[]));
        let error = EncodeError::NoTopicFilter { packet: kind };
        refuses("none", version, none, error);
    }
}

/// [MQTT-4.7.1-1], [MQTT-4.7.1-2], [MQTT-4.7.3-1], [MQTT-4.8.2-1], [MQTT-4.8.2-2].
#[test]
fn an_invalid_filter_makes_the_packet_malformed() {
    for (text, error) in INVALID_FILTERS {
        let error = DecodeError::InvalidTopicFilter { error: *error };
        for version in ALL {
            let properties = if version.is_v5() { "00" } else { "" };
            let wire = framed(0xA2, &bytes(&format!("0102 {properties} <a> {text}")));
            rejects("second", version, &hex(&wire), error);
        }
    }
}

#[test]
fn a_filter_that_is_shared_twice_is_reported() {
    for version in ALL {
        let properties = if version.is_v5() { "00" } else { "" };
        let body = bytes(&format!("0102 {properties} <$share/g/$share/h/b> <a>"));
        let unsubscribe = Unsubscribe::decode(version, 0xA2, &body).unwrap();
        let filters: Vec<_> = unsubscribe.filters().map(|filter| filter.map(TopicFilter::as_str)).collect();
        assert_eq!(filters, [Err(TopicError::NestedShare), Ok("a")]);
        assert_eq!((&unsubscribe.topic_filters).into_iter().count(), 2);
        let error = EncodeError::InvalidTopicFilter { error: TopicError::NestedShare };
        assert_eq!(unsubscribe.encode(version, &mut Vec::new()), Err(error));
    }
}

/// [MQTT-3.10.3-1].
#[test]
fn a_filter_that_is_not_text_spoils_the_packet() {
    for (text, error) in [("0001 ff", StringError::IllFormed), ("0001 00", StringError::Null)] {
        let error = DecodeError::InvalidString { field: "topic filter", error };
        for version in BEFORE_5 {
            let wire = format!("a2 08 0102 <a> {text}");
            rejects("second", version, &wire, error);
        }
        let wire = format!("a2 09 0102 00 <a> {text}");
        rejects("second", Version::V5, &wire, error);
    }
}

#[test]
fn lengths() {
    for version in BEFORE_5 {
        let missing = |field| DecodeError::Truncated { field };
        rejects("empty", version, "a2 00", missing("packet identifier"));
        rejects("cut short", version, "a2 05 0102 0002 'a'", missing("topic filter"));
        let zero = DecodeError::ZeroPacketId { packet: PacketType::Unsubscribe };
        rejects("identifier 0", version, "a2 05 0000 <a>", zero);
    }
}
