//! CONNECT: the first packet on a connection, from client to server (section 3.1).

mod flags;
mod properties;
mod will;

pub use properties::ConnectProperties;
pub use will::{Will, WillProperties};

use flags::ConnectFlags;

use crate::reader::{Reader, check_flags};
use crate::version::BRIDGE_BIT;
use crate::writer::{self, Sink};
use crate::{DecodeError, EncodeError, MAX_PACKET_SIZE, PacketType, Version};

/// A CONNECT packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// The protocol version of the connection.
    pub version: Version,
    /// Whether the client is a bridge of another broker, as its Protocol Level says before MQTT 5.0. A bridge must not
    /// receive its own messages, and needs RETAIN as it was published.
    pub bridge: bool,
    /// Clean Start, which is Clean Session before MQTT 5.0: forget the session that may exist
    /// ([MQTT-3.1.2-4]).
    pub clean_start: bool,
    /// The longest time between two packets of the client in seconds; 0 for no limit ([MQTT-3.1.2-22]).
    pub keep_alive: u16,
    /// The Client Identifier; empty asks the server to assign one ([MQTT-3.1.3-6]).
    pub client_id: &'a str,
    /// The message that the server publishes when the connection ends without a farewell.
    pub will: Option<Will<'a>>,
    /// The user name.
    pub username: Option<&'a str>,
    /// The password: bytes of any kind.
    pub password: Option<&'a [u8]>,
    /// The properties; empty before MQTT 5.0.
    pub properties: ConnectProperties<'a>,
}

impl<'a> Connect<'a> {
    /// Decodes the body: the variable header and the payload.
    ///
    /// # Errors
    ///
    /// When the packet is malformed or a protocol error ([MQTT-3.1.4-1]). Whether a Client Identifier is
    /// acceptable is not looked at.
    pub fn decode(first_byte: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let (version, bridge) = read_version(&mut reader)?;
        check_flags(PacketType::Connect, version, first_byte)?;
        let flags = ConnectFlags::decode(version, reader.u8("connect flags")?)?;
        let keep_alive = reader.u16("keep alive")?;
        let properties = if version.is_v5() {
            ConnectProperties::decode(reader.property_block()?)?
        } else {
            ConnectProperties::default()
        };
        let client_id = reader.string("client identifier")?;
        let will = match flags.will {
            Some((qos, retain)) => Some(Will::read(version, qos, retain, &mut reader)?),
            None => None,
        };
        let mut username = None;
        if present(version, flags.username, &reader) {
            username = Some(reader.string("user name")?);
        }
        let mut password = None;
        if present(version, flags.password, &reader) {
            password = Some(reader.data("password")?);
        }
        reader.finish(PacketType::Connect)?;
        let clean_start = flags.clean_start;
        Ok(Self { version, bridge, clean_start, keep_alive, client_id, will, username, password, properties })
    }

    /// Appends the packet in the form of its `version`. Before MQTT 5.0 the properties are left out.
    ///
    /// # Errors
    ///
    /// When there is a password without a user name before MQTT 5.0 ([MQTT-3.1.2-22] of 3.1.1),
    /// authentication data without a method, or a field that cannot be encoded.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = PacketType::Connect;
        if !self.version.is_v5() && self.password.is_some() && self.username.is_none() {
            return Err(EncodeError::MissingField { packet, field: "user name" });
        }
        let properties = &self.properties;
        if properties.authentication_data.is_some() && properties.authentication_method.is_none() {
            return Err(EncodeError::MissingField { packet, field: "authentication method" });
        }
        writer::packet(packet.first_byte(), MAX_PACKET_SIZE, out, |sink| {
            self.write(sink);
        })
    }

    fn write(&self, sink: &mut dyn Sink) {
        let flags = ConnectFlags {
            clean_start: self.clean_start,
            will: self.will.map(|will| (will.qos, will.retain)),
            username: self.username.is_some(),
            password: self.password.is_some(),
        };
        sink.string("protocol name", self.version.protocol_name());
        sink.u8(self.version.protocol_level() | if self.bridge && !self.version.is_v5() { BRIDGE_BIT } else { 0 });
        sink.u8(flags.bits());
        sink.u16(self.keep_alive);
        if self.version.is_v5() {
            sink.properties(|sink| self.properties.write(sink));
        }
        sink.string("client identifier", self.client_id);
        if let Some(will) = &self.will {
            will.write(self.version, sink);
        }
        if let Some(username) = self.username {
            sink.string("user name", username);
        }
        if let Some(password) = self.password {
            sink.data("password", password);
        }
    }
}

impl Version {
    /// The version for a Protocol Name and a Protocol Level. A bridge's level is 131 or 132.
    ///
    /// # Errors
    ///
    /// [`DecodeError::InvalidProtocolName`] for a name that is not MQTT's, and
    /// [`DecodeError::UnsupportedVersion`] for a level that does not exist under the name
    /// ([MQTT-3.1.2-1], [MQTT-3.1.2-2]).
    pub fn from_protocol(name: &[u8], level: u8) -> Result<Self, DecodeError> {
        match (name, level) {
            (b"MQTT", 5) => Ok(Self::V5),
            (b"MQTT", 4) => Ok(Self::V311),
            (b"MQIsdp", 3) => Ok(Self::V31),
            (b"MQIsdp", level) if level == BRIDGE_BIT | 3 => Ok(Self::V31),
            (b"MQTT", level) if level == BRIDGE_BIT | 4 => Ok(Self::V311),
            (b"MQTT" | b"MQIsdp", level) => Err(DecodeError::UnsupportedVersion { level }),
            _ => Err(DecodeError::InvalidProtocolName),
        }
    }
}

/// The version, and whether the level is a bridge's.
fn read_version(reader: &mut Reader<'_>) -> Result<(Version, bool), DecodeError> {
    let name = reader.data("protocol name")?;
    let level = reader.u8("protocol level")?;
    Ok((Version::from_protocol(name, level)?, level & BRIDGE_BIT != 0))
}

/// Whether a field that a flag announces is present. In MQTT 3.1 the Remaining Length decides: a server must accept
/// flags for a user name and a password that are absent.
fn present(version: Version, announced: bool, reader: &Reader<'_>) -> bool {
    announced && !(version == Version::V31 && reader.is_empty())
}
