//! Strategies for valid packets. What packets borrow is leaked, which is little and ends with the test.

use std::num::{NonZeroU16, NonZeroU32};

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use tidegate_mqtt::{
    Auth, ConnAck, ConnAckProperties, Connect, ConnectProperties, ConnectReturnCode, Disconnect,
    MAX_SUBSCRIPTION_IDENTIFIER, Packet, PacketId, PacketType, PayloadFormat, PingReq, PingResp, PubAck, PubComp,
    PubRec, PubRel, Publish, PublishProperties, QoS, ReasonCode, RetainHandling, SubAck, Subscribe,
    SubscriptionIdentifiers, SubscriptionOptions, Subscriptions, TopicFilter, TopicFilters, TopicName, UnsubAck,
    Unsubscribe, UserProperties, Version, Will, WillProperties,
};

pub(crate) fn version() -> impl Strategy<Value = Version> {
    prop::sample::select(vec![Version::V31, Version::V311, Version::V5])
}

fn qos() -> impl Strategy<Value = QoS> {
    prop::sample::select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce])
}

fn packet_id() -> impl Strategy<Value = PacketId> {
    any::<NonZeroU16>().prop_map(|number| PacketId::new(number.get()).unwrap())
}

fn text() -> impl Strategy<Value = &'static str> {
    "[^\0]{0,6}".prop_map(|text| &*text.leak())
}

fn data() -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), 0..6).prop_map(|data| &*data.leak())
}

fn payload() -> impl Strategy<Value = &'static [u8]> {
    let len = prop_oneof![4 => 0..40_usize, 1 => 100..300_usize];
    len.prop_flat_map(|len| vec(any::<u8>(), len)).prop_map(|payload| &*payload.leak())
}

fn topic_name() -> impl Strategy<Value = TopicName<'static>> {
    "[^\0+#]{1,8}".prop_map(|text| TopicName::new(text.leak()).unwrap())
}

fn topic_filter() -> impl Strategy<Value = TopicFilter<'static>> {
    "(\\$share/[a-c]/)?(\\+/|[a-c]/|/){0,3}([a-c]|#|\\+)".prop_map(|text| TopicFilter::new(text.leak()).unwrap())
}

fn user_properties() -> impl Strategy<Value = UserProperties<'static>> {
    vec((text(), text()), 0..4).prop_map(|pairs| UserProperties::new(pairs.leak()))
}

fn payload_format() -> impl Strategy<Value = PayloadFormat> {
    any::<bool>().prop_map(|utf8| if utf8 { PayloadFormat::Utf8 } else { PayloadFormat::Unspecified })
}

/// A Reason Code that the packet may carry.
fn reason_code(packet: PacketType) -> impl Strategy<Value = ReasonCode> {
    let codes = ReasonCode::ALL.iter().copied();
    let codes: Vec<_> = codes.filter(|code| code.allowed_in(packet)).collect();
    prop::sample::select(codes)
}

fn publish_properties() -> impl Strategy<Value = PublishProperties<'static>> {
    let identifiers = vec(1..=MAX_SUBSCRIPTION_IDENTIFIER, 0..3)
        .prop_map(|identifiers| SubscriptionIdentifiers::new(identifiers.leak()));
    (
        of(payload_format()),
        any::<Option<u32>>(),
        any::<Option<NonZeroU16>>(),
        of(topic_name()),
        of(data()),
        of(text()),
        identifiers,
        user_properties(),
    )
        .prop_map(|fields| PublishProperties {
            payload_format: fields.0,
            message_expiry: fields.1,
            topic_alias: fields.2,
            response_topic: fields.3,
            correlation_data: fields.4,
            content_type: fields.5,
            subscription_identifiers: fields.6,
            user_properties: fields.7,
            raw: &[],
        })
}

pub(crate) fn publish(version: Version) -> impl Strategy<Value = Publish<'static>> {
    (any::<bool>(), qos(), any::<bool>(), of(topic_name()), packet_id(), publish_properties(), payload(), topic_name())
        .prop_map(move |(dup, qos, retain, topic, packet_id, properties, payload, other)| {
            let properties = if version.is_v5() { properties } else { PublishProperties::default() };
            Publish {
                dup: dup && qos > QoS::AtMostOnce,
                qos,
                retain,
                topic: match properties.topic_alias {
                    Some(_) => topic,
                    None => Some(topic.unwrap_or(other)),
                },
                packet_id: (qos > QoS::AtMostOnce).then_some(packet_id),
                properties,
                payload,
            }
        })
}

fn will(version: Version) -> impl Strategy<Value = Will<'static>> {
    let properties = (
        any::<Option<u32>>(),
        of(payload_format()),
        any::<Option<u32>>(),
        of(text()),
        of(topic_name()),
        of(data()),
        user_properties(),
    )
        .prop_map(|fields| WillProperties {
            delay_interval: fields.0,
            payload_format: fields.1,
            message_expiry: fields.2,
            content_type: fields.3,
            response_topic: fields.4,
            correlation_data: fields.5,
            user_properties: fields.6,
            raw: &[],
        });
    (topic_name(), data(), qos(), any::<bool>(), properties).prop_map(
        move |(topic, payload, qos, retain, properties)| Will {
            topic,
            payload,
            qos,
            retain,
            properties: if version.is_v5() { properties } else { WillProperties::default() },
        },
    )
}

fn connect_properties() -> impl Strategy<Value = ConnectProperties<'static>> {
    (
        any::<Option<u32>>(),
        any::<Option<NonZeroU16>>(),
        any::<Option<NonZeroU32>>(),
        any::<Option<u16>>(),
        any::<Option<bool>>(),
        any::<Option<bool>>(),
        user_properties(),
        of(text()),
        of(data()),
    )
        .prop_map(|fields| ConnectProperties {
            session_expiry_interval: fields.0,
            receive_maximum: fields.1,
            maximum_packet_size: fields.2,
            topic_alias_maximum: fields.3,
            request_response_information: fields.4,
            request_problem_information: fields.5,
            user_properties: fields.6,
            authentication_method: fields.7,
            authentication_data: fields.7.and(fields.8),
        })
}

fn connect(version: Version) -> impl Strategy<Value = Packet<'static>> {
    let head = (any::<bool>(), any::<u16>(), text());
    (head, of(will(version)), of(text()), of(data()), connect_properties()).prop_map(
        move |((clean_start, keep_alive, client_id), will, username, password, properties)| {
            let v5 = version.is_v5();
            Packet::Connect(Connect {
                version,
                bridge: false,
                clean_start,
                keep_alive,
                client_id,
                will,
                username,
                password: if v5 { password } else { username.and(password) },
                properties: if v5 { properties } else { ConnectProperties::default() },
            })
        },
    )
}

fn connack_properties() -> impl Strategy<Value = ConnAckProperties<'static>> {
    let limits = (
        any::<Option<u32>>(),
        any::<Option<NonZeroU16>>(),
        of(prop::sample::select(vec![QoS::AtMostOnce, QoS::AtLeastOnce])),
        any::<Option<NonZeroU32>>(),
        any::<Option<u16>>(),
        any::<Option<u16>>(),
    );
    let flags = prop::array::uniform4(any::<Option<bool>>());
    let texts = prop::array::uniform5(of(text()));
    (limits, flags, texts, of(data()), user_properties()).prop_map(|(limits, flags, texts, data, pairs)| {
        ConnAckProperties {
            session_expiry_interval: limits.0,
            receive_maximum: limits.1,
            maximum_qos: limits.2,
            retain_available: flags[0],
            maximum_packet_size: limits.3,
            assigned_client_identifier: texts[0],
            topic_alias_maximum: limits.4,
            reason_string: texts[1],
            user_properties: pairs,
            wildcard_subscription_available: flags[1],
            subscription_identifier_available: flags[2],
            shared_subscription_available: flags[3],
            server_keep_alive: limits.5,
            response_information: texts[2],
            server_reference: texts[3],
            authentication_method: texts[4],
            authentication_data: data,
        }
    })
}

fn connack(version: Version) -> BoxedStrategy<Packet<'static>> {
    if version.is_v5() {
        let code = reason_code(PacketType::ConnAck);
        return (any::<bool>(), code, connack_properties())
            .prop_map(|(present, reason_code, properties)| {
                Packet::ConnAck(ConnAck {
                    session_present: present && reason_code == ReasonCode::Success,
                    reason_code,
                    properties,
                })
            })
            .boxed();
    }
    (any::<bool>(), 0..=5_u8)
        .prop_map(move |(present, code)| {
            let session_present = present && code == 0 && version == Version::V311;
            let reason_code = ConnectReturnCode::from_byte(code).unwrap().reason();
            let properties = ConnAckProperties::default();
            Packet::ConnAck(ConnAck { session_present, reason_code, properties })
        })
        .boxed()
}

macro_rules! ack {
    ($name:ident, $version:expr) => {{
        let v5 = $version.is_v5();
        let code = reason_code(PacketType::$name);
        (packet_id(), code, of(text()), user_properties()).prop_map(
            move |(packet_id, code, reason_string, user_properties)| {
                Packet::$name(if v5 {
                    $name { reason_string, user_properties, ..$name::new(packet_id, code) }
                } else {
                    $name::new(packet_id, ReasonCode::Success)
                })
            },
        )
    }};
}

fn subscription_options(version: Version) -> impl Strategy<Value = SubscriptionOptions> {
    let handling = prop::sample::select(vec![
        RetainHandling::SendAtSubscribe,
        RetainHandling::SendIfNew,
        RetainHandling::DoNotSend,
    ]);
    (qos(), any::<bool>(), any::<bool>(), handling).prop_map(
        move |(qos, no_local, retain_as_published, retain_handling)| {
            if version.is_v5() {
                SubscriptionOptions { qos, no_local, retain_as_published, retain_handling }
            } else {
                SubscriptionOptions::new(qos)
            }
        },
    )
}

fn subscribe(version: Version) -> impl Strategy<Value = Packet<'static>> {
    let subscription = (topic_filter(), subscription_options(version)).prop_map(|(filter, mut options)| {
        options.no_local &= filter.shared().is_none();
        (filter, options)
    });
    let subscriptions = vec(subscription, 1..4);
    let identifier = of(1..=MAX_SUBSCRIPTION_IDENTIFIER);
    (packet_id(), identifier, user_properties(), subscriptions).prop_map(
        move |(packet_id, identifier, pairs, subscriptions)| {
            let v5 = version.is_v5();
            Packet::Subscribe(Subscribe {
                packet_id,
                subscription_identifier: identifier.filter(|_| v5),
                user_properties: if v5 { pairs } else { UserProperties::EMPTY },
                subscriptions: Subscriptions::new(subscriptions.leak()),
            })
        },
    )
}

fn unsubscribe(version: Version) -> impl Strategy<Value = Packet<'static>> {
    (packet_id(), user_properties(), vec(topic_filter(), 1..4)).prop_map(move |(packet_id, pairs, filters)| {
        Packet::Unsubscribe(Unsubscribe {
            packet_id,
            user_properties: if version.is_v5() { pairs } else { UserProperties::EMPTY },
            topic_filters: TopicFilters::new(filters.leak()),
        })
    })
}

fn suback(version: Version) -> impl Strategy<Value = Packet<'static>> {
    let codes = vec(reason_code(PacketType::SubAck), 0..4);
    (packet_id(), codes, of(text()), user_properties()).prop_map(
        move |(packet_id, mut codes, reason_string, user_properties)| {
            if version.is_v5() {
                let plain = SubAck::new(packet_id, codes.leak());
                return Packet::SubAck(SubAck { reason_string, user_properties, ..plain });
            }
            for code in codes.iter_mut().filter(|code| code.is_error()) {
                *code = match version {
                    Version::V31 => ReasonCode::GRANTED_QOS_0,
                    _ => ReasonCode::UnspecifiedError,
                };
            }
            Packet::SubAck(SubAck::new(packet_id, codes.leak()))
        },
    )
}

fn unsuback(version: Version) -> impl Strategy<Value = Packet<'static>> {
    let codes = vec(reason_code(PacketType::UnsubAck), 0..4);
    (packet_id(), codes, of(text()), user_properties()).prop_map(
        move |(packet_id, codes, reason_string, user_properties)| {
            Packet::UnsubAck(if version.is_v5() {
                let plain = UnsubAck::new(packet_id, codes.leak());
                UnsubAck { reason_string, user_properties, ..plain }
            } else {
                UnsubAck::new(packet_id, &[])
            })
        },
    )
}

fn disconnect(version: Version) -> impl Strategy<Value = Packet<'static>> {
    let code = reason_code(PacketType::Disconnect);
    (code, any::<Option<u32>>(), of(text()), user_properties(), of(text())).prop_map(
        move |(reason_code, expiry, reason_string, user_properties, server_reference)| {
            Packet::Disconnect(if version.is_v5() {
                Disconnect {
                    reason_code,
                    session_expiry_interval: expiry,
                    reason_string,
                    user_properties,
                    server_reference,
                }
            } else {
                Disconnect::default()
            })
        },
    )
}

fn auth() -> impl Strategy<Value = Packet<'static>> {
    let code = reason_code(PacketType::Auth);
    (code, text(), of(data()), of(text()), user_properties()).prop_map(
        |(reason_code, method, authentication_data, reason_string, user_properties)| {
            Packet::Auth(Auth {
                reason_code,
                authentication_method: Some(method),
                authentication_data,
                reason_string,
                user_properties,
            })
        },
    )
}

/// Any packet of the version, as a receiver decodes it: fields that the version does not have are absent.
pub(crate) fn packet(version: Version) -> BoxedStrategy<Packet<'static>> {
    let packets = prop_oneof![
        connect(version),
        connack(version),
        publish(version).prop_map(Packet::Publish),
        ack!(PubAck, version),
        ack!(PubRec, version),
        ack!(PubRel, version),
        ack!(PubComp, version),
        subscribe(version),
        suback(version),
        unsubscribe(version),
    ];
    let others = prop_oneof![
        unsuback(version),
        Just(Packet::PingReq(PingReq)),
        Just(Packet::PingResp(PingResp)),
        disconnect(version),
    ];
    if version.is_v5() {
        prop_oneof![10 => packets, 4 => others, 1 => auth()].boxed()
    } else {
        prop_oneof![10 => packets, 4 => others].boxed()
    }
}

pub(crate) fn version_and_packet() -> impl Strategy<Value = (Version, Packet<'static>)> {
    version().prop_flat_map(|version| (Just(version), packet(version)))
}
