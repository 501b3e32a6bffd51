//! Reading what the broker sent. Every irregularity is a failure of the broker, so the errors are sentences that name
//! the statement.

use std::str::Utf8Error;

use super::packet_type::PacketType;
use crate::version::Version;

/// The fault of a packet, with the broken statement if there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("packet type 0 is reserved")]
    ReservedType,
    #[error("a server of MQTT {version} never sends {packet_type}")]
    NeverSent { version: Version, packet_type: PacketType },
    #[error(
        "MQTT-2.1.3-1 (3.1.1: MQTT-2.2.2-1): the flags of {packet_type} are {found:#06b} instead of {expected:#06b}"
    )]
    Flags { packet_type: PacketType, found: u8, expected: u8 },
    #[error("reason code 0x{code:02x} does not exist for {packet_type}")]
    ReasonCode { packet_type: PacketType, code: u8 },
    #[error("CONNACK return code {0} does not exist")]
    ReturnCode(u8),
    #[error("MQTT-3.2.2-1: reserved connect acknowledge flags are set: {0:#010b}")]
    ConnectFlags(u8),
    #[error("MQTT-3.2.2-6 (3.1.1: MQTT-3.2.2-4): session present is set beside an error")]
    SessionBesideError,
    #[error("packet identifier 0 in an acknowledgement")]
    NoPacketIdentifier,
    #[error("MQTT-2.2.1-4 (3.1.1: MQTT-2.3.1-4): packet identifier 0 on a PUBLISH")]
    NoPublishIdentifier,
    #[error("MQTT-3.3.1-4: both QoS bits of a PUBLISH are set")]
    BothQosBits,
    #[error("MQTT-3.3.1-2: DUP is set on a QoS 0 PUBLISH")]
    DupOfQos0,
    #[error("MQTT-3.3.2-2: the topic name `{0}` contains a wildcard")]
    Wildcard(String),
    #[error("property 0x{0:02x} is unknown or never sent by a server")]
    UnknownProperty(u8),
    #[error("property 0x{0:02x} is not allowed in this packet")]
    ForbiddenProperty(u8),
    #[error("property 0x{0:02x} occurs twice")]
    RepeatedProperty(u8),
    #[error("{field} is {value}, only 0 and 1 exist")]
    Boolean { field: String, value: u8 },
    #[error("the packet ends within {field}: {needed} bytes needed, {left} left")]
    Ends { field: String, needed: usize, left: usize },
    #[error("the packet ends within {0}")]
    EndsWithinNumber(String),
    #[error("MQTT-1.5.4-1: {field} is not well-formed UTF-8: {source}")]
    IllFormed { field: String, source: Utf8Error },
    #[error("MQTT-1.5.4-2: {0} contains U+0000")]
    Null(String),
    #[error("{bytes} bytes after the end of {packet}")]
    Rest { packet: String, bytes: usize },
    #[error("MQTT-1.5.5-1: a variable byte integer uses more bytes than needed")]
    Overlong,
    #[error("a variable byte integer of more than four bytes")]
    LongNumber,
}

/// A cursor over the body of a received packet.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: usize, field: &str) -> Result<&'a [u8], Fault> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(Fault::Ends { field: field.to_owned(), needed: length, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self, field: &str) -> Result<u8, Fault> {
        Ok(self.take(1, field)?.iter().fold(0, |_, byte| *byte))
    }

    pub(crate) fn two(&mut self, field: &str) -> Result<u16, Fault> {
        let bytes = self.take(2, field)?;
        Ok(bytes.iter().fold(0, |value, byte| (value << 8) | u16::from(*byte)))
    }

    pub(crate) fn four(&mut self, field: &str) -> Result<u32, Fault> {
        let bytes = self.take(4, field)?;
        Ok(bytes.iter().fold(0, |value, byte| (value << 8) | u32::from(*byte)))
    }

    /// A Variable Byte Integer, which has to use the fewest bytes [MQTT-1.5.5-1].
    pub(crate) fn variable(&mut self, field: &str) -> Result<usize, Fault> {
        match read_variable(self.rest)? {
            Some((value, length)) => {
                self.take(length, field)?;
                Ok(value)
            }
            None => Err(Fault::EndsWithinNumber(field.to_owned())),
        }
    }

    pub(crate) fn binary(&mut self, field: &str) -> Result<&'a [u8], Fault> {
        let length = self.two(field)?;
        self.take(usize::from(length), field)
    }

    /// A UTF-8 Encoded String: well-formed and without U+0000 [MQTT-1.5.4-1], [MQTT-1.5.4-2].
    pub(crate) fn text(&mut self, field: &str) -> Result<String, Fault> {
        let bytes = self.binary(field)?;
        let text = std::str::from_utf8(bytes).map_err(|source| Fault::IllFormed { field: field.to_owned(), source })?;
        if text.contains('\0') {
            return Err(Fault::Null(field.to_owned()));
        }
        Ok(text.to_owned())
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Fails when bytes are left over.
    pub(crate) fn finish(&self, field: &str) -> Result<(), Fault> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Fault::Rest { packet: field.to_owned(), bytes: self.rest.len() })
    }
}

/// Reads a Variable Byte Integer: its value and how many bytes it took, or nothing when more bytes are needed.
pub(crate) fn read_variable(bytes: &[u8]) -> Result<Option<(usize, usize)>, Fault> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            if *byte == 0 && index > 0 {
                return Err(Fault::Overlong);
            }
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() >= 4 {
        return Err(Fault::LongNumber);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_byte_integers_are_read_strictly() {
        assert_eq!(read_variable(&[0x80]), Ok(None));
        assert_eq!(read_variable(&[0x80, 0x01, 9]), Ok(Some((128, 2))));
        assert!(read_variable(&[0x80, 0x00]).is_err());
        assert!(read_variable(&[0xff, 0xff, 0xff, 0xff]).is_err());
    }

    #[test]
    fn strings_are_checked() {
        assert_eq!(Reader::new(&[0, 2, b'a', b'b']).text("it"), Ok("ab".to_owned()));
        assert!(Reader::new(&[0, 1, 0]).text("it").is_err());
        assert!(Reader::new(&[0, 1, 0xff]).text("it").is_err());
        assert!(Reader::new(&[0, 3, b'a']).text("it").is_err());
    }
}
