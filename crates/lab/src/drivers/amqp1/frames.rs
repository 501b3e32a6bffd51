//! Frames of AMQP 1.0 [OASIS AMQP 1.0, 2.3], and the messages in them [3.2].

use super::types::{List, Value, read};
use crate::drivers::Problem;
use crate::drivers::driver::Bytes;

/// The size of a frame's header, in bytes.
const HEAD: usize = 8;
/// The section of a message with bytes, and the section with a value.
const DATA: u64 = 0x75;
const VALUE: u64 = 0x77;

/// The protocol of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Amqp = 0,
    Sasl = 1,
}

/// A received frame: its kind, and its content.
pub(super) struct Frame<'a> {
    pub(super) is_sasl: bool,
    pub(super) body: &'a [u8],
}

/// Writes a frame, on the only channel there is.
pub(super) fn write(kind: Kind, performative: &List, payload: &[&[u8]], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, 2, kind as u8, 0, 0]);
    performative.write(out);
    for part in payload {
        out.extend_from_slice(part);
    }
    let len = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

/// An empty frame: a keep-alive.
pub(super) fn write_empty(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0, 0, HEAD as u8, 2, Kind::Amqp as u8, 0, 0]);
}

/// Takes the next frame off, if it is there as a whole; it has no more than `most` bytes.
pub(super) fn take<'a>(bytes: &mut Bytes<'a>, most: u32) -> Result<Option<Frame<'a>>, Problem> {
    let mut reader = *bytes;
    let Ok(len) = reader.u32() else { return Ok(None) };
    if len < HEAD as u32 || len > most {
        return Err(Problem::new(format!("a frame of {len} bytes: the server does not speak AMQP 1.0")));
    }
    let len = len as usize;
    let Some(frame) = bytes.0.get(..len) else { return Ok(None) };
    let body = frame.get(4 * usize::from(frame[4])..).filter(|_| frame[4] >= 2);
    let body = body.ok_or_else(|| Problem::new("a frame's body begins outside of it"))?;
    bytes.take(len)?;
    Ok(Some(Frame { is_sasl: frame[5] == Kind::Sasl as u8, body }))
}

/// The begin of a message whose only section is a payload of this length.
pub(super) fn data_head(len: usize) -> Vec<u8> {
    match u8::try_from(len) {
        Ok(len) => vec![0, 0x53, DATA as u8, 0xA0, len],
        Err(_) => [&[0, 0x53, DATA as u8, 0xB0][..], &(len as u32).to_be_bytes()].concat(),
    }
}

/// The payload of a message; other sections are skipped.
pub(super) fn payload(message: &[u8]) -> Result<&[u8], Problem> {
    let mut bytes = Bytes(message);
    while !bytes.0.is_empty() {
        if let (Some(DATA | VALUE), Value::Text(payload)) = read(&mut bytes)? {
            return Ok(payload);
        }
    }
    Err(Problem::new("a message has no bytes in it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_begins_with_its_length_and_may_be_empty() {
        let mut out = Vec::new();
        write(Kind::Sasl, &List::new(0x41).symbol("A"), &[b"x"], &mut out);
        assert_eq!(out, [0, 0, 0, 18, 2, 1, 0, 0, 0, 0x53, 0x41, 0xC0, 4, 1, 0xA3, 1, b'A', b'x']);
        write_empty(&mut out);
        let mut bytes = Bytes(&out);
        let frame = take(&mut bytes, 100).unwrap().unwrap();
        assert_eq!((frame.is_sasl, frame.body), (true, &out[8..18]));
        assert!(take(&mut bytes, 100).unwrap().unwrap().body.is_empty());
        assert!(take(&mut bytes, 100).unwrap().is_none());
        assert!(take(&mut Bytes(&[0, 0, 0, 7, 2, 0, 0]), 100).is_err());
        assert!(take(&mut Bytes(b"HTTP/1.1 400"), 1000).is_err());
        assert!(take(&mut Bytes(&[0, 0, 0, 8, 3, 0, 0, 0]), 100).is_err());
    }

    #[test]
    fn the_payload_is_found_behind_headers_and_properties() {
        let header = [0, 0x53, 0x70, 0xC0, 2, 1, 0x42];
        let properties = [0, 0x53, 0x73, 0xC0, 4, 1, 0xA1, 1, b'i'];
        for payload_len in [0, 3, 300] {
            let body = vec![7; payload_len];
            let message = [&header[..], &properties, &data_head(payload_len), &body].concat();
            assert_eq!(payload(&message).unwrap(), body);
        }
        assert_eq!(payload(&[0, 0x53, 0x77, 0xA1, 2, b'h', b'i']).unwrap(), b"hi");
        assert!(payload(&header).is_err());
    }
}
