//! Whole conversations as bytes: the packets of a client and a server in their order.

use tidegate_mqtt::{
    ConnAck, Connect, Disconnect, MAX_PACKET_SIZE, Packet, PingReq, PingResp, PubAck, PubComp, PubRec, PubRel, Publish,
    PublishProperties, QoS, ReasonCode, SubAck, Subscribe, SubscriptionOptions, Subscriptions, TopicFilters, UnsubAck,
    Unsubscribe, UserProperties, Version, split_frame,
};

use crate::check::{ALL, filter, id, name};
use crate::connect::plain;
use crate::wire::{bytes, hex};

/// A packet and its bytes in each version, in the order of [`ALL`].
struct Line<'a> {
    packet: Packet<'a>,
    wire: [&'a str; 3],
}

/// The lines are sent one after the other and received as one stream.
fn check(version: Version, lines: &[Line<'_>]) {
    let index = ALL.iter().position(|&other| other == version).unwrap();
    let mut stream = Vec::new();
    for line in lines {
        let start = stream.len();
        line.packet.encode(version, &mut stream).unwrap();
        assert_eq!(hex(&stream[start..]), hex(&bytes(line.wire[index])), "{:?} in {version}", line.packet);
    }
    let mut rest = stream.as_slice();
    for line in lines {
        let frame = split_frame(rest, MAX_PACKET_SIZE).unwrap().unwrap();
        assert_eq!(Packet::decode(version, &frame), Ok(line.packet), "in {version}");
        rest = &rest[frame.total_len..];
    }
    assert!(rest.is_empty());
}

fn publish(qos: QoS, packet_id: u16) -> Packet<'static> {
    Packet::Publish(Publish {
        dup: false,
        qos,
        retain: false,
        topic: Some(name("t")),
        packet_id: (qos > QoS::AtMostOnce).then(|| id(packet_id)),
        properties: PublishProperties::default(),
        payload: b"m",
    })
}

fn connect(version: Version) -> Line<'static> {
    Line {
        packet: Packet::Connect(Connect { clean_start: false, ..plain(version) }),
        wire: ["10 0f <MQIsdp> 03 00 003c <c>", "10 0d <MQTT> 04 00 003c <c>", "10 0e <MQTT> 05 00 003c 00 <c>"],
    }
}

#[test]
fn a_client_subscribes_and_leaves() {
    for version in ALL {
        let subscriptions = [(filter("t"), SubscriptionOptions::new(QoS::ExactlyOnce))];
        let filters = [filter("t")];
        let granted = [ReasonCode::GrantedQos2];
        let ended: &[ReasonCode] = if version.is_v5() { &[ReasonCode::Success] } else { &[] };
        let subscribe = Subscribe {
            packet_id: id(1),
            subscription_identifier: None,
            user_properties: UserProperties::EMPTY,
            subscriptions: Subscriptions::new(&subscriptions),
        };
        let unsubscribe = Unsubscribe {
            packet_id: id(2),
            user_properties: UserProperties::EMPTY,
            topic_filters: TopicFilters::new(&filters),
        };
        check(
            version,
            &[
                connect(version),
                Line {
                    packet: Packet::ConnAck(ConnAck::default()),
                    wire: ["20 02 00 00", "20 02 00 00", "20 03 00 00 00"],
                },
                Line {
                    packet: Packet::Subscribe(subscribe),
                    wire: ["82 06 0001 <t> 02", "82 06 0001 <t> 02", "82 07 0001 00 <t> 02"],
                },
                Line {
                    packet: Packet::SubAck(SubAck::new(id(1), &granted)),
                    wire: ["90 03 0001 02", "90 03 0001 02", "90 04 0001 00 02"],
                },
                Line { packet: Packet::PingReq(PingReq), wire: ["c0 00"; 3] },
                Line { packet: Packet::PingResp(PingResp), wire: ["d0 00"; 3] },
                Line {
                    packet: Packet::Unsubscribe(unsubscribe),
                    wire: ["a2 05 0002 <t>", "a2 05 0002 <t>", "a2 06 0002 00 <t>"],
                },
                Line {
                    packet: Packet::UnsubAck(UnsubAck::new(id(2), ended)),
                    wire: ["b0 02 0002", "b0 02 0002", "b0 04 0002 00 00"],
                },
                Line { packet: Packet::Disconnect(Disconnect::default()), wire: ["e0 00"; 3] },
            ],
        );
    }
}

/// [MQTT-2.2.1-5]: one identifier goes through the whole of a flow.
#[test]
fn messages_of_each_qos() {
    let success = ReasonCode::Success;
    let lines = [
        Line { packet: publish(QoS::AtMostOnce, 0), wire: ["30 04 <t> 'm'", "30 04 <t> 'm'", "30 05 <t> 00 'm'"] },
        Line {
            packet: publish(QoS::AtLeastOnce, 7),
            wire: ["32 06 <t> 0007 'm'", "32 06 <t> 0007 'm'", "32 07 <t> 0007 00 'm'"],
        },
        Line { packet: Packet::PubAck(PubAck::new(id(7), success)), wire: ["40 02 0007"; 3] },
        Line {
            packet: publish(QoS::ExactlyOnce, 8),
            wire: ["34 06 <t> 0008 'm'", "34 06 <t> 0008 'm'", "34 07 <t> 0008 00 'm'"],
        },
        Line { packet: Packet::PubRec(PubRec::new(id(8), success)), wire: ["50 02 0008"; 3] },
        Line { packet: Packet::PubRel(PubRel::new(id(8), success)), wire: ["62 02 0008"; 3] },
        Line { packet: Packet::PubComp(PubComp::new(id(8), success)), wire: ["70 02 0008"; 3] },
    ];
    for version in ALL {
        check(version, &lines);
    }
}
