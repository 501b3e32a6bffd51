//! Small valid inputs, from which the corpus is written.

use std::num::{NonZeroU16, NonZeroU32};

use tidegate_mqtt::{
    Auth, ConnAck, ConnAckProperties, Connect, ConnectProperties, Disconnect, Packet, PacketId, PacketType,
    PayloadFormat, PingReq, PingResp, PubAck, PubComp, PubRec, PubRel, Publish, PublishProperties, QoS, ReasonCode,
    RetainHandling, SubAck, Subscribe, SubscriptionIdentifiers, SubscriptionOptions, Subscriptions, TopicFilter,
    TopicFilters, TopicName, UnsubAck, Unsubscribe, UserProperties, Version, Will, WillProperties,
};
use tidegate_node::NodeName;
use tidegate_node::cluster::wire::{Frame, Hello, NONCE_BYTES, PROOF_BYTES, Part, Portion, Refusal, put_frame};

use crate::version_byte;

/// A seed and the name of its file.
type Seed = (String, Vec<u8>);

const VERSIONS: [(Version, &str); 3] = [(Version::V31, "v31"), (Version::V311, "v311"), (Version::V5, "v5")];

const PAIRS: UserProperties<'static> = UserProperties::new(&[("k", "v"), ("k", "w")]);

/// Seeds of the target `packet`: each packet, plain and with all it can hold, in each version.
pub fn packet() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (version, label) in VERSIONS {
        for (name, wire) in wires(version) {
            let mut input = vec![version_byte(version), wire[0]];
            input.extend_from_slice(body(&wire));
            seeds.push((format!("{label}-{name}"), input));
        }
    }
    seeds
}

/// Seeds of the target `publish`: those of `packet` that are PUBLISH packets.
pub fn publish() -> Vec<Seed> {
    let is_publish =
        |input: &[u8]| input.get(1).and_then(|&byte| PacketType::from_first_byte(byte)) == Some(PacketType::Publish);
    packet().into_iter().filter(|(_, input)| is_publish(input)).collect()
}

/// Seeds of the target `frames`: all packets of a version, at once and in small chunks.
pub fn frames() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (version, label) in VERSIONS {
        let stream: Vec<u8> = wires(version).into_iter().flat_map(|(_, wire)| wire).collect();
        for (max, chunk) in [(0xFF, 0xFF), (0xFF, 1), (0x10, 7), (0x02, 3)] {
            let input = [&[max, chunk], stream.as_slice()].concat();
            seeds.push((format!("{label}-max-{max}-chunk-{chunk}"), input));
        }
    }
    seeds
}

/// Seeds of the target `topic_filter`.
pub fn topic_filter() -> Vec<Seed> {
    let cases = [
        ("plain", "a/b/c\na/b/c"),
        ("hash", "sport/tennis/#\nsport/tennis"),
        ("hash-alone", "#\n/"),
        ("plus", "+/b/+\na/b/c"),
        ("plus-empty-level", "/+\n/"),
        ("plus-and-hash", "+/+/#\na/b/c/d"),
        ("dollar", "$SYS/#\n$SYS/broker/uptime"),
        ("dollar-escapes", "#\n$SYS"),
        ("shared", "$share/group/a/+\na/b"),
        ("shared-dollar", "$share/g/#\n$SYS"),
        ("shared-no-filter", "$share/group\n"),
        ("shared-no-group", "$share//a\na"),
        ("shared-nested", "$share/g/$share/h/a\na"),
        ("misplaced-hash", "a#/b\na"),
        ("misplaced-plus", "a+/b\na"),
        ("text", "gr\u{FC}n/\u{1F30A}\ngr\u{FC}n/\u{1F30A}"),
        ("null", "a\0\na\0"),
    ];
    cases.map(|(name, input)| (name.to_owned(), input.as_bytes().to_vec())).to_vec()
}

/// Seeds of the target `proxy_protocol`.
pub fn proxy_protocol() -> Vec<Seed> {
    let second = |command: u8, family: u8, body: &[u8]| {
        [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family, 0, body.len() as u8], body].concat()
    };
    let ipv4 = [192, 0, 2, 1, 198, 51, 100, 7, 0xdd, 0xd5, 0x07, 0x5b];
    let own = [&ipv4[..], &[0x02, 0, 1, b'h']].concat();
    let seeds: [(&str, Vec<u8>); 9] = [
        ("v1-tcp4", b"PROXY TCP4 192.0.2.1 198.51.100.7 56789 1883\r\n".to_vec()),
        ("v1-tcp6", b"PROXY TCP6 2001:db8::1 ::9 1234 1883\r\n\x10".to_vec()),
        ("v1-unknown", b"PROXY UNKNOWN\r\n".to_vec()),
        ("v2-tcp4", second(0x21, 0x11, &ipv4)),
        ("v2-tcp4-tlv", second(0x21, 0x11, &own)),
        ("v2-tcp6", second(0x21, 0x21, &[7; 36])),
        ("v2-unix", second(0x21, 0x31, &[b'/'; 216])),
        ("v2-local", second(0x20, 0x00, &[])),
        ("none", b"\x10\x0c\0\x04MQTT".to_vec()),
    ];
    seeds.map(|(name, input)| (name.to_owned(), input)).to_vec()
}

/// Seeds of the target `cluster_link`: each frame, and a whole session.
///
/// # Panics
/// When the names in it are none of nodes.
pub fn cluster_link() -> Vec<Seed> {
    let name = |name| NodeName::new(name).expect("a name");
    let hello = Hello {
        nonce: [7; NONCE_BYTES],
        name: name("a"),
        to: name("node-b"),
        incarnation: 5,
        shards: 2,
        monotonic: 5_000_001,
        unix: 1_700_000_000_000,
        continues: 0,
    };
    let carried = |part, body| Portion { node: name("node-c"), number: 9, part, body };
    let frames = [
        ("hello", Frame::Hello(hello)),
        ("proof", Frame::Proof([3; PROOF_BYTES])),
        ("refusal", Frame::Refusal(Refusal::Secret)),
        ("batch", Frame::Batch { from: 1, to: 0, batch: b"\x01records" }),
        ("ping", Frame::Ping { sent: 77 }),
        ("pong", Frame::Pong { of: 77 }),
        ("carry", Frame::Carry(carried(Part::Data, &b"bytes"[..]))),
        ("carried", Frame::Carried(carried(Part::Begin, &[]))),
        ("settled", Frame::Settled),
        ("goodbye", Frame::Goodbye),
    ];
    let mut seeds: Vec<Seed> = Vec::new();
    let mut session = Vec::new();
    for (name, frame) in &frames {
        let mut bytes = Vec::new();
        put_frame(frame, &mut bytes);
        session.extend_from_slice(&bytes);
        seeds.push(((*name).to_owned(), bytes));
    }
    seeds.push(("session".to_owned(), session));
    seeds
}

/// The body of a packet that is shorter than 16 KiB.
fn body(wire: &[u8]) -> &[u8] {
    let header_len = if wire[1] < 0x80 { 2 } else { 3 };
    &wire[header_len..]
}

/// The bytes of each packet, with a name.
fn wires(version: Version) -> Vec<Seed> {
    let subscriptions = subscriptions();
    let filters = [filter("a/#"), filter("$share/g/b")];
    let codes = [ReasonCode::Success, ReasonCode::GrantedQos1, ReasonCode::UnspecifiedError];
    let gone = [ReasonCode::Success, ReasonCode::NoSubscriptionExisted];
    let mut packets = connects(version);
    packets.extend(connacks());
    packets.extend(publishes(version));
    packets.extend(acks());
    packets.extend([
        (
            "subscribe",
            Packet::Subscribe(Subscribe {
                packet_id: PacketId::MIN,
                subscription_identifier: NonZeroU32::new(200).map(NonZeroU32::get),
                user_properties: PAIRS,
                subscriptions: Subscriptions::new(&subscriptions),
            }),
        ),
        (
            "unsubscribe",
            Packet::Unsubscribe(Unsubscribe {
                packet_id: PacketId::MIN,
                user_properties: PAIRS,
                topic_filters: TopicFilters::new(&filters),
            }),
        ),
        ("suback", Packet::SubAck(SubAck::new(PacketId::MIN, &codes))),
        ("unsuback", Packet::UnsubAck(UnsubAck::new(PacketId::MIN, &gone))),
        ("pingreq", Packet::PingReq(PingReq)),
        ("pingresp", Packet::PingResp(PingResp)),
        ("disconnect", Packet::Disconnect(Disconnect::default())),
        (
            "disconnect-all",
            Packet::Disconnect(Disconnect {
                reason_code: ReasonCode::UseAnotherServer,
                session_expiry_interval: Some(60),
                reason_string: Some("why"),
                user_properties: PAIRS,
                server_reference: Some("elsewhere"),
            }),
        ),
        (
            "auth",
            Packet::Auth(Auth {
                reason_code: ReasonCode::ContinueAuthentication,
                authentication_method: Some("m"),
                authentication_data: Some(b"\x00\xff"),
                reason_string: Some("why"),
                user_properties: PAIRS,
            }),
        ),
    ]);
    packets.into_iter().filter_map(|(name, packet)| encode(version, name, &packet)).collect()
}

/// A packet's bytes, when the version has the packet.
fn encode(version: Version, name: &str, packet: &Packet<'_>) -> Option<Seed> {
    let mut wire = Vec::new();
    packet.encode(version, &mut wire).ok()?;
    Some((name.to_owned(), wire))
}

fn topic(text: &str) -> TopicName<'_> {
    TopicName::new(text).expect("a topic name")
}

fn filter(text: &str) -> TopicFilter<'_> {
    TopicFilter::new(text).expect("a topic filter")
}

fn subscriptions() -> [(TopicFilter<'static>, SubscriptionOptions); 3] {
    let all = SubscriptionOptions {
        qos: QoS::ExactlyOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::SendIfNew,
    };
    [
        (filter("a/+/c"), all),
        (filter("$share/g/#"), SubscriptionOptions::new(QoS::AtLeastOnce)),
        (filter("b"), SubscriptionOptions::default()),
    ]
}

fn connects(version: Version) -> Vec<(&'static str, Packet<'static>)> {
    let plain = Connect {
        version,
        bridge: false,
        clean_start: true,
        keep_alive: 60,
        client_id: "client",
        will: None,
        username: None,
        password: None,
        properties: ConnectProperties::default(),
    };
    let will = Will {
        topic: topic("will/topic"),
        payload: b"bye",
        qos: QoS::AtLeastOnce,
        retain: true,
        properties: WillProperties {
            delay_interval: Some(5),
            payload_format: Some(PayloadFormat::Utf8),
            message_expiry: Some(9),
            content_type: Some("text"),
            response_topic: Some(topic("r")),
            correlation_data: Some(b"\x01"),
            user_properties: PAIRS,
            raw: &[],
        },
    };
    let properties = ConnectProperties {
        session_expiry_interval: Some(3_600),
        receive_maximum: NonZeroU16::new(10),
        maximum_packet_size: NonZeroU32::new(1_000),
        topic_alias_maximum: Some(5),
        request_response_information: Some(true),
        request_problem_information: Some(true),
        user_properties: PAIRS,
        authentication_method: Some("m"),
        authentication_data: Some(b"data"),
    };
    let username = Some("user");
    let password = Some(&b"secret"[..]);
    let all = Connect { will: Some(will), username, password, properties, ..plain };
    vec![("connect", Packet::Connect(plain)), ("connect-all", Packet::Connect(all))]
}

fn connacks() -> Vec<(&'static str, Packet<'static>)> {
    let properties = ConnAckProperties {
        session_expiry_interval: Some(60),
        receive_maximum: NonZeroU16::new(10),
        maximum_qos: Some(QoS::AtLeastOnce),
        retain_available: Some(true),
        maximum_packet_size: NonZeroU32::new(1_000),
        assigned_client_identifier: Some("id"),
        topic_alias_maximum: Some(5),
        reason_string: Some("why"),
        user_properties: PAIRS,
        wildcard_subscription_available: Some(true),
        subscription_identifier_available: Some(true),
        shared_subscription_available: Some(false),
        server_keep_alive: Some(30),
        response_information: Some("r/"),
        server_reference: Some("elsewhere"),
        authentication_method: Some("m"),
        authentication_data: Some(b"data"),
    };
    let all = ConnAck { session_present: true, reason_code: ReasonCode::Success, properties };
    vec![
        ("connack", Packet::ConnAck(ConnAck::default())),
        ("connack-refused", Packet::ConnAck(ConnAck::refused(ReasonCode::NotAuthorized))),
        ("connack-all", Packet::ConnAck(all)),
    ]
}

fn publishes(version: Version) -> Vec<(&'static str, Packet<'static>)> {
    let plain = Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: false,
        topic: Some(topic("a/b")),
        packet_id: None,
        properties: PublishProperties::default(),
        payload: b"hello",
    };
    let properties = PublishProperties {
        payload_format: Some(PayloadFormat::Utf8),
        message_expiry: Some(9),
        topic_alias: NonZeroU16::new(3),
        response_topic: Some(topic("r")),
        correlation_data: Some(b"\x01"),
        content_type: Some("text"),
        subscription_identifiers: SubscriptionIdentifiers::new(&[1, 200]),
        user_properties: PAIRS,
        raw: &[],
    };
    let topic_of_all = if version.is_v5() { None } else { plain.topic };
    let all = Publish {
        dup: true,
        qos: QoS::ExactlyOnce,
        retain: true,
        topic: topic_of_all,
        packet_id: Some(PacketId::MAX),
        properties,
        ..plain
    };
    let acknowledged = Publish { qos: QoS::AtLeastOnce, packet_id: Some(PacketId::MIN), payload: b"", ..plain };
    vec![
        ("publish", Packet::Publish(plain)),
        ("publish-qos-1", Packet::Publish(acknowledged)),
        ("publish-all", Packet::Publish(all)),
    ]
}

fn acks() -> Vec<(&'static str, Packet<'static>)> {
    let explained = PubAck {
        reason_string: Some("why"),
        user_properties: PAIRS,
        ..PubAck::new(PacketId::MIN, ReasonCode::QuotaExceeded)
    };
    let success = ReasonCode::Success;
    vec![
        ("puback", Packet::PubAck(PubAck::new(PacketId::MIN, success))),
        ("puback-all", Packet::PubAck(explained)),
        ("pubrec", Packet::PubRec(PubRec::new(PacketId::MIN, ReasonCode::NotAuthorized))),
        ("pubrel", Packet::PubRel(PubRel::new(PacketId::MIN, success))),
        ("pubcomp", Packet::PubComp(PubComp::new(PacketId::MIN, ReasonCode::PacketIdentifierNotFound))),
    ]
}

/// Seeds of the target `coap`: datagrams, each with its length before it.
pub fn coap() -> Vec<Seed> {
    use tidegate_coap::message::{Code, Kind, Message, Token, option};
    let path = [(option::URI_PATH, b"topics".to_vec()), (option::URI_PATH, b"a".to_vec())];
    let message = |kind, code, id, extra: &[(u16, &[u8])], payload: &[u8]| {
        let extra = extra.iter().map(|(number, value)| (*number, value.to_vec()));
        let options = path.iter().cloned().chain(extra).collect();
        let (token, payload) = (Token::new(&[7]), payload.to_vec());
        Message { kind, code, id, token, options, payload }.encode()
    };
    let get = |id, extra: &[(u16, &[u8])]| message(Kind::Confirmable, Code::GET, id, extra, b"");
    let put = |id, extra: &[(u16, &[u8])]| message(Kind::Confirmable, Code::PUT, id, extra, &[1; 16]);
    let cases = [
        ("get", vec![get(1, &[(option::ETAG, b"tag"), (option::ACCEPT, &[50])])]),
        ("put", vec![put(1, &[(option::CONTENT_FORMAT, &[50])]), put(1, &[])]),
        ("post", vec![message(Kind::NonConfirmable, Code::POST, 1, &[(option::URI_QUERY, b"retain=true")], b"x")]),
        ("block1", vec![put(1, &[(option::BLOCK1, &[0x08])]), put(2, &[(option::BLOCK1, &[0x10])])]),
        ("block2", vec![get(1, &[(option::BLOCK2, &[0x06])]), get(2, &[(option::BLOCK2, &[0x16])])]),
        ("observe", vec![get(1, &[(option::OBSERVE, b"")]), get(2, &[(option::OBSERVE, &[1])])]),
        ("empty", vec![Message::empty(Kind::Confirmable, 1).encode(), Message::empty(Kind::Reset, 2).encode()]),
    ];
    let framed = |datagrams: Vec<Vec<u8>>| {
        datagrams.iter().flat_map(|one| std::iter::once(one.len() as u8).chain(one.iter().copied())).collect()
    };
    cases.into_iter().map(|(name, datagrams)| (name.to_owned(), framed(datagrams))).collect()
}

#[cfg(test)]
mod tests {
    use crate::TARGETS;

    #[test]
    fn every_seed_holds_and_is_in_the_corpus() {
        for target in TARGETS {
            for (name, input) in (target.seeds)() {
                (target.fuzz_one)(&input);
                let path = target.corpus().join(&name);
                let file = std::fs::read(&path);
                assert_eq!(file.ok(), Some(input), "{}: run seed_corpus", path.display());
            }
        }
    }

    #[test]
    fn every_type_of_packet_has_a_seed() {
        let seeds = super::packet();
        for number in 1..=15 {
            assert!(seeds.iter().any(|(_, input)| input[1] >> 4 == number), "type {number}");
        }
    }
}
