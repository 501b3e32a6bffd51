//! A frame: one batch in the journal, with its number and checksums.
//!
//! ```text
//! header checksum u32 | length u32 | number u64 | unsynced u32 | payload checksum u32 | payload
//! ```
//! Each checksum begins with a salt of the file, and both salts are random. So neither a frame of the file's earlier
//! use nor a payload chosen by a peer has a valid header, and a payload is only read for its checksum after a valid
//! header. `unsynced` is the number of preceding frames that were not synced when the frame was written; damage before
//! those frames is not a torn write.
//!
//! Format 1 had one checksum over all: `crc32c u32 | length u32 | number u64 | durable u64 | payload`. It is read, not
//! written.

use std::ops::Range;

/// Bytes before the payload, in each format.
pub(crate) const FRAME_HEADER: usize = 24;

/// Most bytes in a batch.
pub(crate) const MAX_PAYLOAD: usize = 1 << 30;

/// The start of the checksums of a file's frames, which also determines its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Salt {
    /// Format 1.
    One(u32),
    /// Format 2.
    Two {
        /// For the checksum of the header.
        header: u32,
        /// For that of the payload.
        payload: u32,
    },
}

/// A frame whose checksums are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    /// Frames below were synced when this one was written.
    pub(crate) durable: u64,
    /// The range of the payload in the given bytes.
    pub(crate) payload: Range<usize>,
}

/// Appends a frame. Its checksums come with [`seal`].
pub(crate) fn append(buffer: &mut Vec<u8>, number: u64, payload: &[u8]) {
    buffer.reserve(FRAME_HEADER + payload.len());
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&number.to_le_bytes());
    buffer.extend_from_slice(&[0; 8]);
    buffer.extend_from_slice(payload);
}

/// Makes frames right for a file, whatever file and format they were made for.
pub(crate) fn seal(frames: &mut [u8], salt: Salt, durable: u64) {
    let mut position = 0;
    while let Some(header) = frames.get(position..).and_then(fields) {
        debug_assert!(header.number >= durable, "only unsynced frames are written");
        let end = position + FRAME_HEADER + header.length;
        let Some(frame) = frames.get_mut(position..end) else {
            return;
        };
        seal_one(frame, salt, header.number, durable);
        position = end;
    }
}

fn seal_one(frame: &mut [u8], salt: Salt, number: u64, durable: u64) {
    let Some((header, payload)) = frame.split_first_chunk_mut::<FRAME_HEADER>() else {
        return;
    };
    match salt {
        Salt::One(salt) => {
            header[16..24].copy_from_slice(&durable.to_le_bytes());
            let checksum = crc32c::crc32c_append(crc32c::crc32c_append(salt, &header[4..]), payload);
            header[..4].copy_from_slice(&checksum.to_le_bytes());
        }
        Salt::Two { header: header_salt, payload: payload_salt } => {
            let unsynced = u32::try_from(number.saturating_sub(durable)).unwrap_or(u32::MAX);
            header[16..20].copy_from_slice(&unsynced.to_le_bytes());
            header[20..24].copy_from_slice(&crc32c::crc32c_append(payload_salt, payload).to_le_bytes());
            let checksum = crc32c::crc32c_append(header_salt, &header[4..]);
            header[..4].copy_from_slice(&checksum.to_le_bytes());
        }
    }
}

/// The fields of a header. In format 1 no checksum covers a header.
#[derive(Clone, Copy)]
struct Fields {
    checksum: u32,
    length: usize,
    number: u64,
    /// `durable`, or `unsynced` and the checksum of the payload.
    last: [u8; 8],
}

fn fields(bytes: &[u8]) -> Option<Fields> {
    let (checksum, rest) = bytes.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let last = *rest.first_chunk::<8>()?;
    Some(Fields {
        checksum: u32::from_le_bytes(*checksum),
        length: u32::from_le_bytes(*length) as usize,
        number: u64::from_le_bytes(*number),
        last,
    })
}

/// A header, whose payload was not looked at yet.
pub(crate) struct Header {
    frame: Frame,
    begin: usize,
    salt: Salt,
    checksum: u32,
}

impl Header {
    /// The header at a place with all bytes of its payload behind it. In format 2 its checksum is right; in format 1
    /// only the payload shows whether it is one.
    pub(crate) fn at(bytes: &[u8], begin: usize, salt: Salt) -> Option<Self> {
        let rest = bytes.get(begin..)?;
        let fields = fields(rest)?;
        let end = begin.checked_add(FRAME_HEADER)?.checked_add(fields.length)?;
        if end > bytes.len() {
            return None;
        }
        let (durable, checksum) = match salt {
            Salt::One(_) => (u64::from_le_bytes(fields.last), fields.checksum),
            Salt::Two { header, .. } => {
                let covered = rest.get(4..FRAME_HEADER)?;
                if crc32c::crc32c_append(header, covered) != fields.checksum {
                    return None;
                }
                let last = u64::from_le_bytes(fields.last);
                (fields.number.saturating_sub(u64::from(last as u32)), (last >> 32) as u32)
            }
        };
        let frame = Frame { number: fields.number, durable, payload: begin + FRAME_HEADER..end };
        Some(Self { frame, begin, salt, checksum })
    }

    /// The number of the frame.
    pub(crate) fn number(&self) -> u64 {
        self.frame.number
    }

    /// The offset of the next frame.
    pub(crate) fn end(&self) -> usize {
        self.frame.payload.end
    }

    /// Bytes that [`Self::whole`] has to read.
    pub(crate) fn cost(&self) -> usize {
        self.end() - self.begin
    }

    /// The frame, if its payload matches the checksum.
    pub(crate) fn whole(self, bytes: &[u8]) -> Option<Frame> {
        let (salt, from) = match self.salt {
            Salt::One(salt) => (salt, self.begin + 4),
            Salt::Two { payload, .. } => (payload, self.frame.payload.start),
        };
        let covered = bytes.get(from..self.frame.payload.end)?;
        (crc32c::crc32c_append(salt, covered) == self.checksum).then_some(self.frame)
    }
}

/// The frame at a place, when a whole and right one is there.
pub(crate) fn parse(bytes: &[u8], position: usize, salt: Salt) -> Option<Frame> {
    Header::at(bytes, position, salt)?.whole(bytes)
}

/// The number that a frame at a place would have.
pub(crate) fn number_at(bytes: &[u8], position: usize) -> Option<u64> {
    let field = bytes.get(position.checked_add(8)?..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALTS: [Salt; 2] = [Salt::One(7), Salt::Two { header: 7, payload: 9 }];

    fn frames(salt: Salt, durable: u64, payloads: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, payload) in (42..).zip(payloads) {
            append(&mut bytes, number, payload);
        }
        seal(&mut bytes, salt, durable);
        bytes
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for salt in SALTS {
            let bytes = frames(salt, 40, &[b"payload"]);
            let frame = parse(&bytes, 0, salt).unwrap();
            assert_eq!((frame.number, frame.durable, &bytes[frame.payload]), (42, 40, &b"payload"[..]));
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(parse(&damaged, 0, salt), None, "{salt:?}, bit {bit}");
            }
        }
    }

    #[test]
    fn a_frame_of_another_segment_is_invalid_until_sealed_again() {
        for salt in SALTS {
            let mut bytes = frames(salt, 40, &[b"one", b"two"]);
            for other in [Salt::One(8), Salt::Two { header: 8, payload: 9 }, Salt::Two { header: 7, payload: 8 }] {
                assert_eq!(parse(&bytes, 0, other), None);
            }
            let other = Salt::Two { header: 8, payload: 1 };
            seal(&mut bytes, other, 42);
            let first = parse(&bytes, 0, other).unwrap();
            let second = parse(&bytes, first.payload.end, other).unwrap();
            assert_eq!((first.durable, second.durable, second.payload.end), (42, 42, bytes.len()));
        }
    }
}
