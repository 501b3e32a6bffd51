//! Frames of RFC 6455, section 5.2: reading headers, and writing ours.

use super::close_code::{CloseCode, Violation};

/// Longest header: two bytes, eight of extended length, four of mask.
pub(super) const HEADER_MAX: usize = 14;
/// Longest payload of a control frame.
pub(super) const CONTROL_MAX: usize = 125;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    fn of(bits: u8) -> Option<Self> {
        Some(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xa => Self::Pong,
            _ => return None,
        })
    }

    fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xa,
        }
    }

    pub(super) fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// A complete header of a frame from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) last: bool,
    pub(super) opcode: Opcode,
    pub(super) length: u64,
    pub(super) mask: [u8; 4],
}

/// How long the header is that begins with these two bytes, or why no server accepts it.
pub(super) fn header_length(first: u8, second: u8) -> Result<usize, Violation> {
    if first & 0x70 != 0 {
        return Err(Violation::ReservedBits);
    }
    let opcode = Opcode::of(first & 0x0f).ok_or(Violation::UnknownOpcode)?;
    if second & 0x80 == 0 {
        return Err(Violation::NotMasked);
    }
    let short = second & 0x7f;
    if opcode.is_control() && (first & 0x80 == 0 || usize::from(short) > CONTROL_MAX) {
        return Err(Violation::ControlFrame);
    }
    if opcode == Opcode::Text {
        return Err(Violation::TextFrame);
    }
    Ok(match short {
        126 => 8,
        127 => HEADER_MAX,
        _ => 6,
    })
}

/// Reads a header of as many bytes as [`header_length`] said. A length in more bytes than needed is tolerated: it is
/// the sender's fault, but does no harm.
pub(super) fn header(bytes: &[u8]) -> Result<Header, Violation> {
    let (&[first, second], rest) = bytes.split_first_chunk().ok_or(Violation::UnknownOpcode)?;
    let (extended, mask) = rest.split_last_chunk().ok_or(Violation::NotMasked)?;
    let length = match extended {
        [] => u64::from(second & 0x7f),
        _ => extended.iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
    };
    if length >> 63 != 0 {
        return Err(Violation::LengthSign);
    }
    let opcode = Opcode::of(first & 0x0f).ok_or(Violation::UnknownOpcode)?;
    Ok(Header { last: first & 0x80 != 0, opcode, length, mask: *mask })
}

/// Appends the header of an unfragmented frame from the server, which is unmasked.
pub(super) fn put_header(into: &mut Vec<u8>, opcode: Opcode, length: usize) {
    into.push(0x80 | opcode.bits());
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..=125), _) => into.push(short),
        (_, Ok(length)) => {
            into.push(126);
            into.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            into.push(127);
            into.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// Appends a pong with the payload of the ping that it answers.
pub(super) fn put_pong(into: &mut Vec<u8>, payload: &[u8]) {
    put_header(into, Opcode::Pong, payload.len());
    into.extend_from_slice(payload);
}

/// Appends a close frame; one without a code is the answer to one without a code.
pub(super) fn put_close(into: &mut Vec<u8>, code: Option<CloseCode>) {
    match code {
        None => put_header(into, Opcode::Close, 0),
        Some(code) => {
            put_header(into, Opcode::Close, 2);
            into.extend_from_slice(&code.number().to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_in_the_fewest_bytes() {
        let cases: [(usize, &[u8]); 6] = [
            (0, &[0x82, 0]),
            (125, &[0x82, 125]),
            (126, &[0x82, 126, 0, 126]),
            (0xffff, &[0x82, 126, 0xff, 0xff]),
            (0x1_0000, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
            (0x1234_5678, &[0x82, 127, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78]),
        ];
        for (length, expected) in cases {
            let mut bytes = Vec::new();
            put_header(&mut bytes, Opcode::Binary, length);
            assert_eq!(bytes, expected, "length {length}");
        }
    }

    #[test]
    fn headers_of_all_three_sizes_are_read() {
        let cases: [(&[u8], u64); 3] = [
            (&[0x02, 0x85, 1, 2, 3, 4], 5),
            (&[0x02, 0xfe, 1, 0, 1, 2, 3, 4], 256),
            (&[0x02, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4], 1 << 32),
        ];
        for (bytes, length) in cases {
            assert_eq!(header_length(bytes[0], bytes[1]), Ok(bytes.len()));
            let expected = Header { last: false, opcode: Opcode::Binary, length, mask: [1, 2, 3, 4] };
            assert_eq!(header(bytes), Ok(expected));
        }
    }

    #[test]
    fn what_no_server_accepts_is_seen_in_the_first_two_bytes() {
        let cases = [
            (0xc2, 0x80, Violation::ReservedBits),
            (0x92, 0x80, Violation::ReservedBits),
            (0x83, 0x80, Violation::UnknownOpcode),
            (0x8b, 0x80, Violation::UnknownOpcode),
            (0x82, 0x00, Violation::NotMasked),
            (0x09, 0x80, Violation::ControlFrame),
            (0x89, 0xfe, Violation::ControlFrame),
            (0x81, 0x80, Violation::TextFrame),
        ];
        for (first, second, violation) in cases {
            assert_eq!(header_length(first, second), Err(violation), "{first:#x} {second:#x}");
        }
        let mut sign = [0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(header(&sign), Err(Violation::LengthSign));
        sign[2] = 0x7f;
        assert_eq!(header(&sign).unwrap().length, 0x7f00_0000_0000_0000);
    }

    #[test]
    fn control_frames_byte_by_byte() {
        let mut bytes = Vec::new();
        put_pong(&mut bytes, b"hi");
        put_close(&mut bytes, Some(CloseCode::PROTOCOL_ERROR));
        put_close(&mut bytes, None);
        assert_eq!(bytes, [0x8a, 2, b'h', b'i', 0x88, 2, 0x03, 0xea, 0x88, 0]);
    }
}
