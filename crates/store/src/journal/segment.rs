//! A file of the journal: a header, then frames with consecutive numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::frame::{self, FRAME_HEADER, Frame};
use crate::ReadError;
use crate::disk::{DiskFile, read_part};

/// The format of journal files that this version reads and writes.
pub(crate) const VERSION: u32 = 1;

/// Where the first frame begins: no write of frames touches the header's page.
pub(crate) const FIRST_FRAME: u64 = 4096;

const MAGIC: [u8; 8] = *b"TIDEJRNL";
/// magic, version, salt, id, first number, checksum.
const HEADER: usize = 8 + 4 + 4 + 8 + 8 + 4;

/// A file of the journal that is in use.
pub(crate) struct Segment {
    pub(crate) id: u64,
    /// The number of its first frame. What an older segment holds from this number on does not count.
    pub(crate) first: u64,
    pub(crate) salt: u32,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Where the committed frames end.
    end: AtomicU64,
}

impl Segment {
    pub(crate) fn new(id: u64, first: u64, salt: u32, file: Arc<dyn DiskFile>, end: u64) -> Self {
        Self { id, first, salt, file, end: AtomicU64::new(end) }
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    pub(crate) fn name(&self) -> String {
        name(self.id)
    }
}

/// The name of the file with this id.
pub(crate) fn name(id: u64) -> String {
    format!("journal-{id:012}.log")
}

/// The header as bytes.
pub(crate) fn header(id: u64, first: u64, salt: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FIRST_FRAME as usize);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&salt.to_le_bytes());
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&first.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes.resize(FIRST_FRAME as usize, 0);
    bytes
}

/// Reads the header of an open file.
pub(crate) fn open(id: u64, file: Arc<dyn DiskFile>) -> Result<Segment, ReadError> {
    let name = name(id);
    let bytes = match read_part(&*file, 0, HEADER as u64) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(ReadError::damaged(&name, 0, "the file is shorter than its header"));
        }
        Err(error) => return Err(ReadError::reading(&name, error)),
    };
    if bytes[..8] != MAGIC {
        return Err(ReadError::damaged(&name, 0, "the header does not begin as a journal's does"));
    }
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    // The checksum comes first only for this version: of others we do not know where it is.
    if word(8) != VERSION {
        return Err(ReadError::Version { file: name, found: word(8), supported: VERSION });
    }
    if crc32c::crc32c(&bytes[..HEADER - 4]) != word(HEADER - 4) {
        return Err(ReadError::damaged(&name, 0, "the checksum of the header is wrong"));
    }
    if long(16) != id {
        return Err(ReadError::damaged(&name, 16, format!("the header says that this is journal file {}", long(16))));
    }
    Ok(Segment::new(id, long(24), word(12), file, FIRST_FRAME))
}

/// The frames of a segment's bytes, from a place and number on, as long as they are right and consecutive.
pub(crate) struct Frames<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) salt: u32,
    /// Where the next frame begins.
    pub(crate) position: usize,
    /// The number that the next frame has.
    pub(crate) expected: u64,
}

impl Iterator for Frames<'_> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        // Looking at the number first spares the checksum where frames end.
        let number = frame::number_at(self.bytes, self.position)?;
        if number != self.expected {
            return None;
        }
        let frame = frame::parse(self.bytes, self.position, self.salt)?;
        self.position = frame.payload.end;
        self.expected += 1;
        Some(frame)
    }
}

/// What lies behind the last right frame of the newest segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Bytes that look like the beginning of frames that were never synced.
    pub(crate) bytes: u64,
    /// Whole frames among them.
    pub(crate) frames: u64,
    /// The number below which a frame among them says that all was synced: more than the number expected is damage.
    pub(crate) durable: u64,
    /// Where that frame is.
    pub(crate) witness: u64,
}

/// Numbers further away than this belong to no frame of the same segment.
const FARTHEST: u64 = 1 << 32;

/// Bytes without the zeros at their end, as far as whole pages of them go: a new file is full of them.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    const PAGE: [u8; 4096] = [0; 4096];
    let mut bytes = bytes;
    while let Some(rest) = bytes.strip_suffix(&PAGE) {
        bytes = rest;
    }
    bytes
}

/// Looks at what lies behind the last right frame: something that power loss left half written, or damage?
pub(crate) fn tail(bytes: &[u8], position: usize, expected: u64, salt: u32) -> Tail {
    let mut tail = Tail { durable: expected, ..Tail::default() };
    let bytes = without_zeros(bytes);
    if bytes.len() <= position {
        return tail;
    }
    let mut end = position;
    if frame::number_at(bytes, position) == Some(expected) {
        end = position + FRAME_HEADER;
    }
    let mut at = position;
    while let Some(number) = frame::number_at(bytes, at) {
        let later = number > expected && number - expected < FARTHEST;
        if later && let Some(frame) = frame::parse(bytes, at, salt) {
            tail.frames += 1;
            end = frame.payload.end;
            if frame.durable > tail.durable {
                tail.durable = frame.durable;
                tail.witness = at as u64;
            }
            at = end;
            continue;
        }
        at += 1;
    }
    tail.bytes = (end - position) as u64;
    tail
}

/// The next right frame behind a broken one: where it is, and its number.
pub(crate) fn next_frame(bytes: &[u8], position: usize, expected: u64, salt: u32) -> Option<(usize, u64)> {
    let bytes = without_zeros(bytes);
    let mut at = position;
    loop {
        let number = frame::number_at(bytes, at)?;
        let later = number > expected && number - expected < FARTHEST;
        if later && frame::parse(bytes, at, salt).is_some() {
            return Some((at, number));
        }
        at += 1;
    }
}
