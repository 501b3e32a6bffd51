//! A frame: one batch in the journal, with its number and checksum.
//!
//! ```text
//! crc32c u32 | length u32 | number u64 | durable u64 | payload
//! ```
//! The checksum begins with the segment's salt and covers everything behind it, so that frames of a file's earlier life
//! are none. `durable` says that all frames with lower numbers were synced when this one was written: what is broken
//! below it was once whole.

use std::ops::Range;

/// Bytes before the payload.
pub(crate) const FRAME_HEADER: usize = 24;

/// Most bytes in a batch.
pub(crate) const MAX_PAYLOAD: usize = 1 << 30;

/// A frame whose checksum is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    /// Frames below were synced when this one was written.
    pub(crate) durable: u64,
    /// Where the payload is in the bytes that were looked at.
    pub(crate) payload: Range<usize>,
}

/// Appends a frame.
pub(crate) fn append(buffer: &mut Vec<u8>, salt: u32, number: u64, durable: u64, payload: &[u8]) {
    let begin = buffer.len();
    buffer.reserve(FRAME_HEADER + payload.len());
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&number.to_le_bytes());
    buffer.extend_from_slice(&durable.to_le_bytes());
    buffer.extend_from_slice(payload);
    seal(&mut buffer[begin..], salt);
}

fn seal(frame: &mut [u8], salt: u32) {
    if let Some((crc, rest)) = frame.split_first_chunk_mut::<4>() {
        *crc = crc32c::crc32c_append(salt, rest).to_le_bytes();
    }
}

/// Makes frames that were made for one segment right for another.
pub(crate) fn seal_again(frames: &mut [u8], salt: u32, durable: u64) {
    let mut position = 0;
    while let Some((header, length)) = frames.get(position..).and_then(header) {
        debug_assert!(header.number >= durable, "only what is not synced moves");
        let end = position + FRAME_HEADER + length;
        let Some(frame) = frames.get_mut(position..end) else {
            return;
        };
        frame[16..24].copy_from_slice(&durable.to_le_bytes());
        seal(frame, salt);
        position = end;
    }
}

struct Header {
    crc: u32,
    number: u64,
    durable: u64,
}

fn header(bytes: &[u8]) -> Option<(Header, usize)> {
    let (crc, rest) = bytes.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (durable, _) = rest.split_first_chunk::<8>()?;
    let header = Header {
        crc: u32::from_le_bytes(*crc),
        number: u64::from_le_bytes(*number),
        durable: u64::from_le_bytes(*durable),
    };
    Some((header, u32::from_le_bytes(*length) as usize))
}

/// The frame at a place, when a whole and right one is there.
pub(crate) fn parse(bytes: &[u8], position: usize, salt: u32) -> Option<Frame> {
    let rest = bytes.get(position..)?;
    let (header, length) = header(rest)?;
    let whole = rest.get(4..FRAME_HEADER.checked_add(length)?)?;
    (crc32c::crc32c_append(salt, whole) == header.crc).then(|| Frame {
        number: header.number,
        durable: header.durable,
        payload: position + FRAME_HEADER..position + FRAME_HEADER + length,
    })
}

/// The number that a frame at a place would have.
pub(crate) fn number_at(bytes: &[u8], position: usize) -> Option<u64> {
    let field = bytes.get(position.checked_add(8)?..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_found() {
        let mut bytes = Vec::new();
        append(&mut bytes, 7, 42, 40, b"payload");
        let frame = parse(&bytes, 0, 7).unwrap();
        assert_eq!((frame.number, frame.durable, &bytes[frame.payload]), (42, 40, &b"payload"[..]));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&damaged, 0, 7), None, "bit {bit}");
        }
    }

    #[test]
    fn a_frame_of_another_segment_is_none_until_it_is_sealed_again() {
        let mut bytes = Vec::new();
        append(&mut bytes, 7, 42, 40, b"one");
        append(&mut bytes, 7, 43, 40, b"two");
        assert_eq!(parse(&bytes, 0, 8), None);
        seal_again(&mut bytes, 8, 42);
        let first = parse(&bytes, 0, 8).unwrap();
        let second = parse(&bytes, first.payload.end, 8).unwrap();
        assert_eq!((first.durable, second.number, second.payload.end), (42, 43, bytes.len()));
    }
}
