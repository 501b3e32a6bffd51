//! Any packet.

use crate::{
    Auth, ConnAck, Connect, DecodeError, Disconnect, EncodeError, Frame, PacketType, PingReq, PingResp, PubAck,
    PubComp, PubRec, PubRel, Publish, SubAck, Subscribe, UnsubAck, Unsubscribe, Version,
};

/// A packet of any type, decoded and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// CONNECT.
    Connect(Connect<'a>),
    /// CONNACK.
    ConnAck(ConnAck<'a>),
    /// PUBLISH.
    Publish(Publish<'a>),
    /// PUBACK.
    PubAck(PubAck<'a>),
    /// PUBREC.
    PubRec(PubRec<'a>),
    /// PUBREL.
    PubRel(PubRel<'a>),
    /// PUBCOMP.
    PubComp(PubComp<'a>),
    /// SUBSCRIBE.
    Subscribe(Subscribe<'a>),
    /// SUBACK.
    SubAck(SubAck<'a>),
    /// UNSUBSCRIBE.
    Unsubscribe(Unsubscribe<'a>),
    /// UNSUBACK.
    UnsubAck(UnsubAck<'a>),
    /// PINGREQ.
    PingReq(PingReq),
    /// PINGRESP.
    PingResp(PingResp),
    /// DISCONNECT.
    Disconnect(Disconnect<'a>),
    /// AUTH.
    Auth(Auth<'a>),
}

impl<'a> Packet<'a> {
    /// Decodes a frame. `version` is that of the connection; a CONNECT packet brings its own.
    ///
    /// # Errors
    ///
    /// When the packet is malformed or a protocol error.
    pub fn decode(version: Version, frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let (first_byte, body) = (frame.first_byte, frame.body);
        Ok(match frame.packet_type() {
            PacketType::Connect => Self::Connect(Connect::decode(first_byte, body)?),
            PacketType::ConnAck => Self::ConnAck(ConnAck::decode(version, first_byte, body)?),
            PacketType::Publish => Self::Publish(Publish::decode(version, first_byte, body)?),
            PacketType::PubAck => Self::PubAck(PubAck::decode(version, first_byte, body)?),
            PacketType::PubRec => Self::PubRec(PubRec::decode(version, first_byte, body)?),
            PacketType::PubRel => Self::PubRel(PubRel::decode(version, first_byte, body)?),
            PacketType::PubComp => Self::PubComp(PubComp::decode(version, first_byte, body)?),
            PacketType::Subscribe => Self::Subscribe(Subscribe::decode(version, first_byte, body)?),
            PacketType::SubAck => Self::SubAck(SubAck::decode(version, first_byte, body)?),
            PacketType::Unsubscribe => Self::Unsubscribe(Unsubscribe::decode(version, first_byte, body)?),
            PacketType::UnsubAck => Self::UnsubAck(UnsubAck::decode(version, first_byte, body)?),
            PacketType::PingReq => Self::PingReq(PingReq::decode(version, first_byte, body)?),
            PacketType::PingResp => Self::PingResp(PingResp::decode(version, first_byte, body)?),
            PacketType::Disconnect => Self::Disconnect(Disconnect::decode(version, first_byte, body)?),
            PacketType::Auth => Self::Auth(Auth::decode(version, first_byte, body)?),
        })
    }

    /// Decodes a frame of a server, whose acknowledgements may have any Reason Code: see [`PubAck::decode_of_server`].
    ///
    /// # Errors
    ///
    /// When the packet is malformed or a protocol error.
    pub fn decode_of_server(version: Version, frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let (first_byte, body) = (frame.first_byte, frame.body);
        Ok(match frame.packet_type() {
            PacketType::PubAck => Self::PubAck(PubAck::decode_of_server(version, first_byte, body)?),
            PacketType::PubRec => Self::PubRec(PubRec::decode_of_server(version, first_byte, body)?),
            PacketType::PubRel => Self::PubRel(PubRel::decode_of_server(version, first_byte, body)?),
            PacketType::PubComp => Self::PubComp(PubComp::decode_of_server(version, first_byte, body)?),
            _ => return Self::decode(version, frame),
        })
    }

    /// Appends the packet. A CONNECT packet is encoded in its own version.
    ///
    /// # Errors
    ///
    /// As the `encode` of the packet's type.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Self::Connect(packet) => packet.encode(out),
            Self::ConnAck(packet) => packet.encode(version, out),
            Self::Publish(packet) => packet.encode(version, out),
            Self::PubAck(packet) => packet.encode(version, out),
            Self::PubRec(packet) => packet.encode(version, out),
            Self::PubRel(packet) => packet.encode(version, out),
            Self::PubComp(packet) => packet.encode(version, out),
            Self::Subscribe(packet) => packet.encode(version, out),
            Self::SubAck(packet) => packet.encode(version, out),
            Self::Unsubscribe(packet) => packet.encode(version, out),
            Self::UnsubAck(packet) => packet.encode(version, out),
            Self::PingReq(packet) => {
                packet.encode(out);
                Ok(())
            }
            Self::PingResp(packet) => {
                packet.encode(out);
                Ok(())
            }
            Self::Disconnect(packet) => packet.encode(version, out),
            Self::Auth(packet) => packet.encode(version, out),
        }
    }

    /// The type of the packet.
    pub const fn packet_type(&self) -> PacketType {
        match self {
            Self::Connect(_) => PacketType::Connect,
            Self::ConnAck(_) => PacketType::ConnAck,
            Self::Publish(_) => PacketType::Publish,
            Self::PubAck(_) => PacketType::PubAck,
            Self::PubRec(_) => PacketType::PubRec,
            Self::PubRel(_) => PacketType::PubRel,
            Self::PubComp(_) => PacketType::PubComp,
            Self::Subscribe(_) => PacketType::Subscribe,
            Self::SubAck(_) => PacketType::SubAck,
            Self::Unsubscribe(_) => PacketType::Unsubscribe,
            Self::UnsubAck(_) => PacketType::UnsubAck,
            Self::PingReq(_) => PacketType::PingReq,
            Self::PingResp(_) => PacketType::PingResp,
            Self::Disconnect(_) => PacketType::Disconnect,
            Self::Auth(_) => PacketType::Auth,
        }
    }
}
