//! PINGREQ and PINGRESP packets.

use tidegate_mqtt::{DecodeError, Packet, PacketType, PingReq, PingResp};

use crate::check::{ALL, packet, rejects};

#[test]
fn in_every_version() {
    for version in ALL {
        packet("ping", version, "c0 00", Packet::PingReq(PingReq));
        packet("ping", version, "d0 00", Packet::PingResp(PingResp));
    }
}

#[test]
fn they_are_constants() {
    assert_eq!(PingReq::BYTES, [0xC0, 0]);
    assert_eq!(PingResp::BYTES, [0xD0, 0]);
}

#[test]
fn they_are_empty() {
    for version in ALL {
        let error = |packet| DecodeError::TrailingBytes { packet, count: 1 };
        rejects("body", version, "c0 01 00", error(PacketType::PingReq));
        rejects("body", version, "d0 01 00", error(PacketType::PingResp));
    }
}
