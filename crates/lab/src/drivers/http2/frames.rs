//! Frames of HTTP/2 [RFC 9113, 4], and as much of the compression of heads [RFC 7541] as it takes to ask, and to read a
//! status.

use crate::drivers::Problem;

/// The size of a frame's header.
const HEAD_LEN: usize = 9;
/// The longest frame that is taken: the least that everybody has to take [RFC 9113, 4.2].
pub(super) const FRAME_MAX: usize = 16_384;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;

/// Of SETTINGS and PING.
pub(super) const ACK: u8 = 1;
/// Of DATA and HEADERS.
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
/// The size of a priority before the fields of a head.
const PRIORITY_LEN: usize = 5;

pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame at the begin of some bytes and its length, once all of it is there.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, Problem> {
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_LEN>() else { return Ok(None) };
        let [len @ .., kind, flags, a, b, c, d] = *head;
        let len = len.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        if len > FRAME_MAX {
            return Err(Problem::new(
                "the server does not speak HTTP/2; check the port, and whether it has TLS (h2s://)",
            ));
        }
        let stream = u32::from_be_bytes([a, b, c, d]) & 0x7FFF_FFFF;
        Ok(rest.get(..len).map(|payload| (Frame { kind, flags, stream, payload }, HEAD_LEN + len)))
    }

    pub(super) const fn is_last(&self) -> bool {
        self.flags & END_STREAM != 0
    }

    /// The content of DATA and HEADERS, without padding and priority.
    pub(super) fn content(&self) -> Result<&'a [u8], Problem> {
        let mut content = Some(self.payload);
        if self.flags & PADDED != 0 {
            content = self.payload.split_first().and_then(|(padding, rest)| {
                let len = rest.len().checked_sub(usize::from(*padding))?;
                Some(&rest[..len])
            });
        }
        if self.kind == HEADERS && self.flags & PRIORITY != 0 {
            content = content.and_then(|content| content.get(PRIORITY_LEN..));
        }
        content.ok_or_else(|| Problem::new("a frame is shorter than its padding"))
    }

    /// The first number of its payload.
    pub(super) fn number(&self) -> Result<u32, Problem> {
        let number = self.payload.first_chunk().ok_or_else(|| Problem::new("a frame ends too early"))?;
        Ok(u32::from_be_bytes(*number))
    }
}

/// Appends a frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// A field of a head that is one of the table that everybody has [RFC 7541, appendix A].
pub(super) fn known(index: u8, head: &mut Vec<u8>) {
    head.push(0x80 | index);
}

/// A field whose name is in that table, and whose value must not be indexed.
pub(super) fn field(index: u8, value: &str, head: &mut Vec<u8>) {
    let never_indexed = 0x10;
    if index < 15 {
        head.push(never_indexed | index);
    } else {
        head.extend_from_slice(&[never_indexed | 15, index - 15]);
    }
    match value.len() {
        len @ 0..127 => head.push(len as u8),
        len => {
            head.push(127);
            let mut rest = len - 127;
            while rest >= 128 {
                head.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            head.push(rest as u8);
        }
    }
    head.extend_from_slice(value.as_bytes());
}

/// The status of an answer, its first field [RFC 9113, 8.3]. Dynamic indexing is not supported, and was disabled by our
/// settings.
pub(super) fn status(head: &[u8]) -> Result<u16, Problem> {
    let wrong = || Problem::new("an answer of HTTP/2 does not begin with its status");
    let mut head = head;
    // The peer acknowledges the requested size of its table.
    while let [0x20..=0x3F, rest @ ..] = head {
        head = rest;
    }
    let (first, rest) = head.split_first().ok_or_else(wrong)?;
    let in_the_table = [200, 204, 206, 304, 400, 404, 500];
    let name = match *first {
        indexed @ 0x88..=0x8E => return Ok(in_the_table[usize::from(indexed - 0x88)]),
        name @ 0x40..=0x7F => name & 0x3F,
        name @ 0..=0x1E => name & 0x0F,
        _ => return Err(wrong()),
    };
    let value = match rest {
        [3, digits @ ..] => digits.get(..3).map(<[u8]>::to_vec),
        [packed @ 0x82..=0x83, digits @ ..] => digits.get(..usize::from(packed & 0x7F)).and_then(unpacked),
        _ => None,
    };
    let value = value.filter(|_| (8..=14).contains(&name)).ok_or_else(wrong)?;
    std::str::from_utf8(&value).ok().and_then(|digits| digits.parse().ok()).ok_or_else(wrong)
}

/// Three digits in Huffman's code [RFC 7541, appendix B]: 0 to 2 have five bits, the others six.
fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    let bits = packed.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
    let mut left = packed.len() as u32 * 8;
    let mut digits = Vec::new();
    while digits.len() < 3 {
        left = left.checked_sub(5)?;
        let mut code = bits >> left & 0x1F;
        if code < 3 {
            digits.push(b'0' + code as u8);
            continue;
        }
        left = left.checked_sub(1)?;
        code = bits >> left & 0x3F;
        digits.push(b'0' + u8::try_from(code).ok()?.checked_sub(0x16).filter(|digit| (3..=9).contains(digit))?);
    }
    Some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_in_each_way_to_write_it() {
        let ways: [(&[u8], u16); 7] = [
            (&[0x88, 0x40], 200),
            (&[0x20, 0x8D], 404),
            (b"\x08\x03201x", 201),
            (b"\x48\x03401", 401),
            // The examples of RFC 7541, C.6.1 and C.6.2: 302 and 307.
            (&[0x48, 0x82, 0x64, 0x02, 0x58], 302),
            (&[0x48, 0x83, 0x64, 0x0E, 0xFF], 307),
            (&[0x3F, 0x00, 0x88], 0),
        ];
        for (head, expected) in ways {
            assert_eq!(status(head).unwrap_or(0), expected, "{head:02x?}");
        }
        assert!(status(b"\x40\x01a\x01b").is_err(), "another field first");
    }

    #[test]
    fn a_frame_is_taken_when_complete_and_without_padding() {
        let mut bytes = Vec::new();
        frame(DATA, PADDED | END_STREAM, 3, b"\x02hello..", &mut bytes);
        for end in 0..bytes.len() {
            assert!(Frame::read(&bytes[..end]).unwrap().is_none());
        }
        let (read, len) = Frame::read(&bytes).unwrap().unwrap();
        assert_eq!((read.stream, read.is_last(), read.content().unwrap(), len), (3, true, &b"hello"[..], bytes.len()));
        assert!(Frame::read(b"HTTP/1.1 400 Bad Request").is_err());
    }

    #[test]
    fn long_values_have_their_length_in_several_bytes() {
        let mut head = Vec::new();
        field(23, &"x".repeat(127 + 128 + 5), &mut head);
        assert_eq!(head[..5], [0x1F, 8, 127, 0x85, 1]);
        field(4, "/", &mut head);
        assert!(head.ends_with(&[0x14, 1, b'/']));
    }
}
