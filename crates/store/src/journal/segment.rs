//! A file of the journal: a header, then frames with consecutive numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::frame::{self, FRAME_HEADER, Frame, Header, Salt};
use crate::ReadError;
use crate::disk::{DiskFile, read_part};

/// The format of journal files that this version writes; it reads format 1, too.
pub(crate) const VERSION: u32 = 2;

/// The offset of the first frame: no write of frames touches the header's page.
pub(crate) const FIRST_FRAME: u64 = 4096;

const MAGIC: [u8; 8] = *b"TIDEJRNL";
/// magic, version, salt of headers, id, first number, salt of payloads, checksum.
const HEADER: usize = 8 + 4 + 4 + 8 + 8 + 4 + 4;
/// In format 1 there is one salt.
const HEADER_1: usize = HEADER - 4;

/// A file of the journal that is in use.
pub(crate) struct Segment {
    pub(crate) id: u64,
    /// The number of its first frame. Frames of an older segment from this number on are invalid.
    pub(crate) first: u64,
    pub(crate) salt: Salt,
    pub(crate) file: Arc<dyn DiskFile>,
    /// The end of the committed frames.
    end: AtomicU64,
}

impl Segment {
    pub(crate) fn new(id: u64, first: u64, salt: Salt, file: Arc<dyn DiskFile>, end: u64) -> Self {
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
pub(crate) fn header(id: u64, first: u64, salt: Salt) -> Vec<u8> {
    let (version, salt, payload) = match salt {
        Salt::One(salt) => (1, salt, None),
        Salt::Two { header, payload } => (VERSION, header, Some(payload)),
    };
    let mut bytes = Vec::with_capacity(FIRST_FRAME as usize);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&u32::to_le_bytes(version));
    bytes.extend_from_slice(&salt.to_le_bytes());
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&first.to_le_bytes());
    bytes.extend(payload.iter().flat_map(|salt| salt.to_le_bytes()));
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
    // The version comes first: of others we do not know where the checksum is.
    let (salt, length) = match word(8) {
        1 => (Salt::One(word(12)), HEADER_1),
        VERSION => (Salt::Two { header: word(12), payload: word(32) }, HEADER),
        found => return Err(ReadError::Version { file: name, found, supported: VERSION }),
    };
    if crc32c::crc32c(&bytes[..length - 4]) != word(length - 4) {
        return Err(ReadError::damaged(&name, 0, "the checksum of the header is wrong"));
    }
    if long(16) != id {
        return Err(ReadError::damaged(&name, 16, format!("the header says that this is journal file {}", long(16))));
    }
    Ok(Segment::new(id, long(24), salt, file, FIRST_FRAME))
}

/// The frames of a segment's bytes, from a place and number on, as long as they are right and consecutive.
pub(crate) struct Frames<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) salt: Salt,
    /// The offset of the next frame.
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

/// The bytes after the last valid frame of the newest segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Bytes that look like the beginning of frames that were never synced.
    pub(crate) bytes: u64,
    /// Whole frames among them.
    pub(crate) frames: u64,
    /// The number below which a frame among them says that all was synced: more than the number expected is damage.
    pub(crate) durable: u64,
    /// The offset of that frame.
    pub(crate) witness: u64,
    /// The work done to classify them.
    pub(crate) work: Work,
}

/// The work of a search for frames. It is bounded by the number of bytes, whatever their content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Headers with a possible number: at most one for each byte.
    pub(crate) headers: u64,
    /// Bytes read for the checksums of payloads: at most as many as there are, in format 1
    /// [`FORMAT_1_TIMES`] times as many.
    pub(crate) hashed: u64,
    /// A file of format 1 has so much that looks like headers that not all of it was tried.
    pub(crate) gave_up: bool,
}

/// How many times a file of format 1 is read at most to find frames after a broken one. A header of that format has no
/// checksum of its own, so only its payload can confirm it.
const FORMAT_1_TIMES: u64 = 16;

/// The offset of the zeros at the end, rounded to whole pages: a new file is full of them. No header begins
/// there, though a payload may go on.
fn end_of_headers(bytes: &[u8]) -> usize {
    const PAGE: [u8; 4096] = [0; 4096];
    let mut bytes = bytes;
    while let Some(rest) = bytes.strip_suffix(&PAGE) {
        bytes = rest;
    }
    bytes.len()
}

/// Right frames behind a broken one: each with where it begins.
pub(crate) struct Later<'a> {
    bytes: &'a [u8],
    salt: Salt,
    /// The offset of the broken frame.
    begin: usize,
    /// Its number.
    expected: u64,
    /// The first offset at which the next header may be.
    at: usize,
    /// The offset from which on there are no more.
    until: usize,
    pub(crate) work: Work,
}

impl<'a> Later<'a> {
    pub(crate) fn new(bytes: &'a [u8], begin: usize, expected: u64, salt: Salt) -> Self {
        let until = end_of_headers(bytes);
        Self { bytes, salt, begin, expected, at: begin, until, work: Work::default() }
    }

    /// Whether a frame of this number can be here: those between it and the broken one take room, too.
    fn is_possible(&self, number: u64) -> bool {
        let most = ((self.at - self.begin) / FRAME_HEADER) as u64;
        number > self.expected && number - self.expected <= most
    }

    fn look(&mut self) -> Option<Frame> {
        self.work.headers += 1;
        let header = Header::at(self.bytes, self.at, self.salt)?;
        let hashed = self.work.hashed + header.cost() as u64;
        let is_sure = matches!(self.salt, Salt::Two { .. });
        if !is_sure && hashed > FORMAT_1_TIMES * self.bytes.len() as u64 {
            self.work.gave_up = true;
            return None;
        }
        self.work.hashed = hashed;
        if is_sure {
            // Also when its payload is broken: there is no other frame within it.
            self.at = header.end() - 1;
        }
        header.whole(self.bytes)
    }
}

impl Iterator for Later<'_> {
    type Item = (usize, Frame);

    fn next(&mut self) -> Option<(usize, Frame)> {
        while self.at < self.until {
            let number = frame::number_at(self.bytes, self.at)?;
            let found = if self.is_possible(number) { self.look() } else { None };
            if let Some(frame) = found {
                self.at = frame.payload.end;
                return Some((frame.payload.start - FRAME_HEADER, frame));
            }
            self.at += 1;
        }
        None
    }
}

/// Classifies the bytes after the last valid frame: a write torn by a power loss, or damage.
pub(crate) fn tail(bytes: &[u8], position: usize, expected: u64, salt: Salt) -> Tail {
    let mut tail = Tail { durable: expected, ..Tail::default() };
    let mut end = position;
    // Its payload is broken, since it was not accepted as a frame.
    let begun = match salt {
        Salt::One(_) => frame::number_at(bytes, position).filter(|_| position < end_of_headers(bytes)),
        Salt::Two { .. } => Header::at(bytes, position, salt).map(|header| header.number()),
    };
    if begun == Some(expected) {
        end = position + FRAME_HEADER;
    }
    let mut later = Later::new(bytes, position, expected, salt);
    for (at, frame) in later.by_ref() {
        tail.frames += 1;
        end = frame.payload.end;
        if frame.durable > tail.durable {
            tail.durable = frame.durable;
            tail.witness = at as u64;
        }
    }
    tail.bytes = (end - position) as u64;
    tail.work = later.work;
    tail
}

#[cfg(test)]
mod tests;
