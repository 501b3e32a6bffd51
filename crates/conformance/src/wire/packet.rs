//! Packets from the broker, read strictly: whatever the specification forbids a server to send is a fault.

use super::packet_type::PacketType;
use super::properties::{self, Property};
use super::publish::Publish;
use super::reader::{Fault, Reader, read_variable};
use super::reason_codes;
use crate::version::Version;

/// A packet with a packet identifier and reason codes: PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK or UNSUBACK. Before
/// MQTT 5 only SUBACK has codes (its return codes); the others read as the single code 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub(crate) packet_id: u16,
    pub(crate) codes: Vec<u8>,
    pub(crate) properties: Vec<Property>,
}

impl Acknowledgement {
    /// The only reason code, or the first of several.
    pub(crate) fn code(&self) -> u8 {
        self.codes.first().copied().unwrap_or_default()
    }
}

/// A received packet. In a packet with a reason code the code is the first field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Connack { session_present: bool, code: u8, properties: Vec<Property> },
    Publish(Publish),
    Acknowledgement(PacketType, Acknowledgement),
    Pingresp,
    Disconnect { code: u8, properties: Vec<Property> },
    Auth { code: u8, properties: Vec<Property> },
}

impl Packet {
    /// The packet's type.
    pub(crate) fn packet_type(&self) -> PacketType {
        match self {
            Self::Connack { .. } => PacketType::Connack,
            Self::Publish(_) => PacketType::Publish,
            Self::Acknowledgement(packet_type, _) => *packet_type,
            Self::Pingresp => PacketType::Pingresp,
            Self::Disconnect { .. } => PacketType::Disconnect,
            Self::Auth { .. } => PacketType::Auth,
        }
    }

    /// The properties, empty before MQTT 5.
    pub(crate) fn properties(&self) -> &[Property] {
        match self {
            Self::Connack { properties, .. } | Self::Disconnect { properties, .. } | Self::Auth { properties, .. } => {
                properties
            }
            Self::Publish(publish) => &publish.properties,
            Self::Acknowledgement(_, acknowledgement) => &acknowledgement.properties,
            Self::Pingresp => &[],
        }
    }

    /// Reads one packet whose frame is complete.
    pub(crate) fn decode(first_byte: u8, body: &[u8], version: Version) -> Result<Self, Fault> {
        let Some(packet_type) = PacketType::of(first_byte) else {
            return Err(Fault::ReservedType);
        };
        if packet_type != PacketType::Publish {
            check_flags(packet_type, first_byte)?;
        }
        match packet_type {
            PacketType::Connack => decode_connack(body, version),
            PacketType::Publish => Publish::decode(first_byte, body, version).map(Self::Publish),
            PacketType::Puback | PacketType::Pubrec => {
                decode_acknowledgement(packet_type, body, version, reason_codes::PUBACK)
            }
            PacketType::Pubrel | PacketType::Pubcomp => {
                decode_acknowledgement(packet_type, body, version, reason_codes::PUBREL)
            }
            PacketType::Suback => decode_suback(body, version),
            PacketType::Unsuback => decode_unsuback(body, version),
            PacketType::Pingresp => {
                Reader::new(body).finish("PINGRESP")?;
                Ok(Self::Pingresp)
            }
            PacketType::Disconnect if version == Version::V5 => decode_disconnect(body),
            PacketType::Auth if version == Version::V5 => decode_auth(body),
            other => Err(Fault::NeverSent { version, packet_type: other }),
        }
    }
}

/// A complete packet that was not read yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) first_byte: u8,
    pub(crate) body: &'a [u8],
    /// Bytes of the whole packet on the wire.
    pub(crate) length: usize,
}

/// The first packet in these bytes, or nothing when it is not complete yet.
pub(crate) fn frame(bytes: &[u8]) -> Result<Option<Frame<'_>>, Fault> {
    let Some((first_byte, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    let Some((remaining, taken)) = read_variable(rest)? else {
        return Ok(None);
    };
    let body = rest.get(taken..taken + remaining);
    Ok(body.map(|body| Frame { first_byte: *first_byte, body, length: 1 + taken + remaining }))
}

fn check_flags(packet_type: PacketType, first_byte: u8) -> Result<(), Fault> {
    let expected = if packet_type == PacketType::Pubrel { 0x02 } else { 0x00 };
    if first_byte & 0x0f == expected {
        return Ok(());
    }
    Err(Fault::Flags { packet_type, found: first_byte & 0x0f, expected })
}

fn check_code(packet_type: PacketType, code: u8, allowed: &[u8]) -> Result<(), Fault> {
    if allowed.contains(&code) {
        return Ok(());
    }
    Err(Fault::ReasonCode { packet_type, code })
}

fn decode_connack(body: &[u8], version: Version) -> Result<Packet, Fault> {
    let mut reader = Reader::new(body);
    let flags = reader.byte("the connect acknowledge flags")?;
    let code = reader.byte("the code of CONNACK")?;
    // A broker that refuses the protocol version may answer in the form of an older version, which has no properties.
    let old_form = version != Version::V5 || (code != 0 && reader.is_empty());
    let properties = if old_form {
        if code > 5 {
            return Err(Fault::ReturnCode(code));
        }
        Vec::new()
    } else {
        check_code(PacketType::Connack, code, reason_codes::CONNACK)?;
        properties::read(&mut reader, properties::IN_CONNACK)?
    };
    reader.finish("CONNACK")?;
    if flags & 0xfe != 0 {
        return Err(Fault::ConnectFlags(flags));
    }
    if code != 0 && flags != 0 {
        return Err(Fault::SessionBesideError);
    }
    Ok(Packet::Connack { session_present: flags & 1 != 0, code, properties })
}

fn packet_identifier(reader: &mut Reader<'_>) -> Result<u16, Fault> {
    match reader.two("the packet identifier")? {
        0 => Err(Fault::NoPacketIdentifier),
        packet_id => Ok(packet_id),
    }
}

fn decode_acknowledgement(kind: PacketType, body: &[u8], version: Version, allowed: &[u8]) -> Result<Packet, Fault> {
    let mut reader = Reader::new(body);
    let packet_id = packet_identifier(&mut reader)?;
    let (mut code, mut properties) = (0, Vec::new());
    if version == Version::V5 && !reader.is_empty() {
        code = reader.byte("the reason code")?;
        check_code(kind, code, allowed)?;
        if !reader.is_empty() {
            properties = properties::read(&mut reader, properties::IN_ACKNOWLEDGEMENT)?;
        }
    }
    reader.finish(&kind.to_string())?;
    let codes = vec![code];
    Ok(Packet::Acknowledgement(kind, Acknowledgement { packet_id, codes, properties }))
}

fn decode_suback(body: &[u8], version: Version) -> Result<Packet, Fault> {
    let mut reader = Reader::new(body);
    let packet_id = packet_identifier(&mut reader)?;
    let (properties, allowed): (_, &[u8]) = match version {
        Version::V5 => {
            let properties = properties::read(&mut reader, properties::IN_ACKNOWLEDGEMENT)?;
            (properties, reason_codes::SUBACK)
        }
        Version::V311 => (Vec::new(), &[0x00, 0x01, 0x02, 0x80]),
        Version::V31 => (Vec::new(), &[0x00, 0x01, 0x02]),
    };
    let codes = reader.rest().to_vec();
    for code in &codes {
        check_code(PacketType::Suback, *code, allowed)?;
    }
    Ok(Packet::Acknowledgement(PacketType::Suback, Acknowledgement { packet_id, codes, properties }))
}

fn decode_unsuback(body: &[u8], version: Version) -> Result<Packet, Fault> {
    let mut reader = Reader::new(body);
    let packet_id = packet_identifier(&mut reader)?;
    let (mut codes, mut properties) = (vec![0], Vec::new());
    if version == Version::V5 {
        properties = properties::read(&mut reader, properties::IN_ACKNOWLEDGEMENT)?;
        codes = reader.rest().to_vec();
        for code in &codes {
            check_code(PacketType::Unsuback, *code, reason_codes::UNSUBACK)?;
        }
    }
    reader.finish("UNSUBACK")?;
    Ok(Packet::Acknowledgement(PacketType::Unsuback, Acknowledgement { packet_id, codes, properties }))
}

fn decode_disconnect(body: &[u8]) -> Result<Packet, Fault> {
    let mut reader = Reader::new(body);
    let (mut code, mut properties) = (0, Vec::new());
    if !reader.is_empty() {
        code = reader.byte("the reason code")?;
        check_code(PacketType::Disconnect, code, reason_codes::DISCONNECT)?;
        if !reader.is_empty() {
            properties = properties::read(&mut reader, properties::IN_DISCONNECT)?;
        }
    }
    reader.finish("DISCONNECT")?;
    Ok(Packet::Disconnect { code, properties })
}

fn decode_auth(body: &[u8]) -> Result<Packet, Fault> {
    let mut reader = Reader::new(body);
    let (mut code, mut properties) = (0, Vec::new());
    if !reader.is_empty() {
        code = reader.byte("the reason code")?;
        check_code(PacketType::Auth, code, reason_codes::AUTH)?;
        properties = properties::read(&mut reader, properties::IN_AUTH)?;
    }
    reader.finish("AUTH")?;
    Ok(Packet::Auth { code, properties })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_when_they_are_complete() {
        assert_eq!(frame(&[0xd0]), Ok(None));
        assert_eq!(frame(&[0x40, 2, 0]), Ok(None));
        let expected = Frame { first_byte: 0x40, body: &[0, 7], length: 4 };
        assert_eq!(frame(&[0x40, 2, 0, 7, 0xd0]), Ok(Some(expected)));
    }

    #[test]
    fn well_formed_packets_are_read() {
        let connack = Packet::decode(0x20, &[1, 0], Version::V311);
        let expected = Packet::Connack { session_present: true, code: 0, properties: Vec::new() };
        assert_eq!(connack, Ok(expected));
        let puback = Packet::decode(0x40, &[0, 7, 0x10], Version::V5);
        assert!(matches!(puback, Ok(Packet::Acknowledgement(PacketType::Puback, ack)) if ack.code() == 0x10));
        let suback = Packet::decode(0x90, &[0, 7, 0, 1, 0x8f], Version::V5);
        assert!(matches!(suback, Ok(Packet::Acknowledgement(_, ack)) if ack.codes == [1, 0x8f]));
    }

    #[test]
    fn packets_of_clients_from_a_server_are_faults() {
        assert!(Packet::decode(0x20, &[2, 0], Version::V311).is_err(), "reserved flag");
        assert!(Packet::decode(0x20, &[1, 2], Version::V311).is_err(), "session present beside an error");
        assert!(Packet::decode(0x20, &[0, 0], Version::V5).is_err(), "no property length");
        assert!(Packet::decode(0x60, &[0, 1], Version::V311).is_err(), "flags of PUBREL");
        assert!(Packet::decode(0x40, &[0, 0], Version::V311).is_err(), "packet identifier 0");
        assert!(Packet::decode(0xe0, &[], Version::V311).is_err(), "DISCONNECT to a 3.1.1 client");
        assert!(Packet::decode(0x10, &[], Version::V5).is_err(), "CONNECT from a server");
    }
}
