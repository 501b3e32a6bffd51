//! Messages of CoAP [RFC 7252, 3], as far as they are needed.

use std::fmt;

use crate::drivers::Problem;
use crate::drivers::driver::Bytes;

const OBSERVE: u16 = 6;
const URI_PATH: u16 = 11;
const CONTENT_FORMAT: u16 = 12;
const BLOCK2: u16 = 23;
/// `application/octet-stream`.
const OCTETS: u8 = 42;
/// The marker between options and payload.
const MARKER: u8 = 0xFF;

/// How a message is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Confirmable = 0,
    NonConfirmable = 1,
    Acknowledgement = 2,
    Reset = 3,
}

/// A method or the code of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) u8);

impl Code {
    pub(super) const EMPTY: Self = Self(0);
    pub(super) const GET: Self = Self(1);
    pub(super) const PUT: Self = Self(3);

    pub(super) const fn is_success(self) -> bool {
        self.0 >> 5 == 2
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 >> 5, self.0 & 0x1F)
    }
}

/// A received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) kind: Kind,
    pub(super) code: Code,
    pub(super) id: u16,
    /// 0 for a message of another program.
    pub(super) token: u32,
    pub(super) is_observed: bool,
    /// Whether there are more blocks of the payload.
    pub(super) has_more: bool,
    pub(super) payload: &'a [u8],
}

/// Writes a request, or an empty message, which has neither a token nor options.
#[expect(clippy::too_many_arguments, reason = "these are the parts of a message, and it is written at two places")]
pub(super) fn write(
    kind: Kind,
    code: Code,
    id: u16,
    token: u32,
    observe: bool,
    path: &[String],
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let token = token.to_be_bytes();
    let token = if code == Code::EMPTY { &[][..] } else { &token };
    out.push(0x40 | (kind as u8) << 4 | token.len() as u8);
    out.push(code.0);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(token);
    let mut before = 0;
    if observe {
        option(OBSERVE, &[], &mut before, out);
    }
    for segment in path {
        option(URI_PATH, segment.as_bytes(), &mut before, out);
    }
    if !payload.is_empty() {
        option(CONTENT_FORMAT, &[OCTETS], &mut before, out);
        out.push(MARKER);
        out.extend_from_slice(payload);
    }
}

/// Writes an option whose number is at most 12 above the previous number, and whose value has at most 268 bytes.
fn option(number: u16, value: &[u8], before: &mut u16, out: &mut Vec<u8>) {
    let delta = ((number - *before) as u8) << 4;
    *before = number;
    match value.len() {
        short @ 0..13 => out.push(delta | short as u8),
        long => out.extend_from_slice(&[delta | 0xD, (long - 13) as u8]),
    }
    out.extend_from_slice(value);
}

/// Reads a datagram.
pub(super) fn read(datagram: &[u8]) -> Result<Message<'_>, Problem> {
    let mut bytes = Bytes(datagram);
    let first = bytes.u8()?;
    if first >> 6 != 1 {
        return Err(Problem::new("a datagram is no message of CoAP; check the port"));
    }
    let kind = match (first >> 4) & 3 {
        0 => Kind::Confirmable,
        1 => Kind::NonConfirmable,
        2 => Kind::Acknowledgement,
        _ => Kind::Reset,
    };
    let (code, id) = (Code(bytes.u8()?), bytes.u16()?);
    let token = bytes.take(usize::from(first & 0xF))?;
    let token = token.try_into().map_or(0, u32::from_be_bytes);
    let mut message = Message { kind, code, id, token, is_observed: false, has_more: false, payload: &[] };
    let mut number = 0_u16;
    while let Ok(head) = bytes.u8() {
        if head == MARKER {
            message.payload = bytes.0;
            break;
        }
        number = number.saturating_add(extended(head >> 4, &mut bytes)?);
        let len = extended(head & 0xF, &mut bytes)?;
        let value = bytes.take(usize::from(len))?;
        match number {
            OBSERVE => message.is_observed = true,
            BLOCK2 => message.has_more = value.last().is_some_and(|last| last & 8 != 0),
            _ => {}
        }
    }
    Ok(message)
}

/// A number of four bits, or its extension.
fn extended(nibble: u8, bytes: &mut Bytes<'_>) -> Result<u16, Problem> {
    match nibble {
        13 => Ok(u16::from(bytes.u8()?) + 13),
        14 => Ok(bytes.u16()?.saturating_add(269)),
        15 => Err(Problem::new("an option of CoAP has no length")),
        short => Ok(u16::from(short)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_over_and_the_payload_is_found() {
        let message = read(b"\x54\x45\x12\x34\0\0\0\x09\x61\x07\x61\x2A\xB1\x0E\xFFhi").unwrap();
        assert_eq!((message.kind, message.id, message.token), (Kind::NonConfirmable, 0x1234, 9));
        assert!(message.is_observed && message.has_more, "observe, content format, block 2 with more");
        assert_eq!((message.payload, message.code.to_string()), (&b"hi"[..], "2.05".to_owned()));
        let long = read(b"\x40\x45\0\x01\xDD\x01\x00abcdefghijklm\xFFx").unwrap();
        assert_eq!(long.payload, b"x");
    }

    #[test]
    fn a_long_segment_has_its_length_behind_the_option() {
        let mut out = Vec::new();
        write(Kind::Confirmable, Code::GET, 1, 2, false, &["s".repeat(20)], &[], &mut out);
        assert_eq!(out[..10], [0x44, 1, 0, 1, 0, 0, 0, 2, 0xBD, 7]);
    }

    #[test]
    fn an_invalid_message_is_reported() {
        for datagram in [&b""[..], b"\x80\0\0\0", b"\x44\0\0\0\0", b"\x40\0\0\0\xF0", b"\x40\0\0\0\x03a"] {
            assert!(read(datagram).is_err(), "{datagram:?}");
        }
    }
}
