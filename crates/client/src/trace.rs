//! Packets as text, for people who look for a fault.

use std::fmt::Write;

use tidegate_mqtt::{Packet, PacketId, ReasonCode, Version, split_frame};

/// The most important fields of the packet in `bytes`; empty when it cannot be decoded.
pub(crate) fn describe_bytes(version: Version, bytes: &[u8]) -> Option<(Packet<'_>, String)> {
    let frame = split_frame(bytes, u32::MAX).ok()??;
    let packet = Packet::decode_of_server(version, &frame).ok()?;
    let detail = describe(&packet);
    Some((packet, detail))
}

/// The most telling fields of a packet; may be empty. Never a password.
pub(crate) fn describe(packet: &Packet<'_>) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = match packet {
        Packet::Connect(packet) => write!(
            text,
            "MQTT {}, client id '{}', clean start {}, keep alive {}",
            packet.version,
            packet.client_id,
            u8::from(packet.clean_start),
            packet.keep_alive
        ),
        Packet::ConnAck(packet) => {
            write!(text, "{}, session present {}", packet.reason_code, u8::from(packet.session_present))
        }
        Packet::Publish(packet) => write!(
            text,
            "dup {}, QoS {}, retain {}, packet id {}, topic '{}', {} bytes",
            u8::from(packet.dup),
            packet.qos.bits(),
            u8::from(packet.retain),
            packet.packet_id.map_or(0, PacketId::get),
            packet.topic.map_or("", |topic| topic.as_str()),
            packet.payload.len()
        ),
        Packet::PubAck(packet) => return acknowledgement(packet.packet_id, packet.reason_code),
        Packet::PubRec(packet) => return acknowledgement(packet.packet_id, packet.reason_code),
        Packet::PubRel(packet) => return acknowledgement(packet.packet_id, packet.reason_code),
        Packet::PubComp(packet) => return acknowledgement(packet.packet_id, packet.reason_code),
        Packet::Subscribe(packet) => {
            let filters = packet
                .filters()
                .filter_map(|(filter, options)| Some(format!("'{}' at QoS {}", filter.ok()?, options.qos.bits())));
            write!(text, "packet id {}, {}", packet.packet_id, list(filters))
        }
        Packet::SubAck(packet) => {
            let codes = packet.reason_codes.iter().map(|code| code.to_string());
            write!(text, "packet id {}, {}", packet.packet_id, list(codes))
        }
        Packet::Unsubscribe(packet) => {
            let filters = packet.filters().filter_map(Result::ok);
            let filters = filters.map(|filter| format!("'{filter}'"));
            write!(text, "packet id {}, {}", packet.packet_id, list(filters))
        }
        Packet::UnsubAck(packet) => write!(text, "packet id {}", packet.packet_id),
        Packet::Disconnect(packet) => write!(text, "{}", packet.reason_code),
        Packet::Auth(packet) => write!(text, "{}", packet.reason_code),
        Packet::PingReq(_) | Packet::PingResp(_) => Ok(()),
    };
    text
}

fn acknowledgement(packet_id: PacketId, reason_code: ReasonCode) -> String {
    format!("packet id {packet_id}, {reason_code}")
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}
