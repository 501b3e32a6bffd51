//! A record on the bus: bytes of a file, a change of a name, or a list of files.
//!
//! ```text
//! checksum u32 | version u8 | kind u8 | incarnation u64 | sequence u64 | offset u64 | body of the kind
//! ```

use std::collections::BTreeMap;

use tidegate_bus::Position;

use crate::error::Damage;
use crate::extents::{Extent, Extents};
use crate::files::{FileId, FileState, Files, Mark};

/// The format that this version reads and writes.
pub(crate) const VERSION: u8 = 1;
/// Bytes before the body.
const HEADER: usize = 4 + 1 + 1 + 8 + 8 + 8;
/// Bytes of a record of data beside the data.
pub(crate) const DATA_HEADER: usize = HEADER + 8 + 8 + 8;

/// The writer of a record, and the record's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The life of the mirror that wrote it: a random number.
    pub(crate) incarnation: u64,
    /// Consecutive over all lives, from 1 on; 0 in claims, which are not numbered.
    pub(crate) sequence: u64,
    /// Bytes of the log before this record, since the log began. In claims the epoch of the fence: 0 for an owner.
    pub(crate) offset: u64,
}

impl Origin {
    /// That of a claim. With an epoch it fences only members of the cluster at that epoch, and its writer reads the log
    /// once; without one its writer is the new owner.
    pub(crate) fn claim(incarnation: u64, epoch: Option<u64>) -> Self {
        Self { incarnation, sequence: 0, offset: epoch.unwrap_or(0) }
    }

    /// The epoch of a claim that fences the members of that time only.
    pub(crate) fn fence_of(self, body: &Body<'_>) -> Option<u64> {
        (*body == Body::Claim && self.offset > 0).then_some(self.offset)
    }
}

/// The body of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// A life begins, or a taker fences the owner.
    Claim,
    /// A file has these bytes at a place, and is so long then.
    Data { file: FileId, at: u64, length: u64, bytes: &'a [u8] },
    /// The file has this length; new bytes are zero.
    Length { file: FileId, length: u64 },
    /// An empty file replaces the file with this name.
    Link { file: FileId, name: &'a str },
    /// The file gets another name and replaces the file with that name.
    Rename { from: &'a str, to: &'a str },
    /// The file is removed.
    Unlink { name: &'a str },
    /// These are all files.
    Index(Files),
}

const CLAIM: u8 = 0;
const DATA: u8 = 1;
const LENGTH: u8 = 2;
const LINK: u8 = 3;
const RENAME: u8 = 4;
const UNLINK: u8 = 5;
const INDEX: u8 = 6;

/// A record as bytes.
pub(crate) fn encode(origin: Origin, body: &Body<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(match body {
        Body::Data { bytes, .. } => DATA_HEADER + bytes.len(),
        _ => HEADER + 64,
    });
    bytes.extend_from_slice(&[0; 4]);
    bytes.push(VERSION);
    bytes.push(match body {
        Body::Claim => CLAIM,
        Body::Data { .. } => DATA,
        Body::Length { .. } => LENGTH,
        Body::Link { .. } => LINK,
        Body::Rename { .. } => RENAME,
        Body::Unlink { .. } => UNLINK,
        Body::Index(_) => INDEX,
    });
    for number in [origin.incarnation, origin.sequence, origin.offset] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    match body {
        Body::Claim => {}
        Body::Data { file, at, length, bytes: data } => {
            put_numbers(&mut bytes, &[*file, *at, *length]);
            bytes.extend_from_slice(data);
        }
        Body::Length { file, length } => put_numbers(&mut bytes, &[*file, *length]),
        Body::Link { file, name } => {
            put_numbers(&mut bytes, &[*file]);
            put_text(&mut bytes, name);
        }
        Body::Rename { from, to } => {
            put_text(&mut bytes, from);
            put_text(&mut bytes, to);
        }
        Body::Unlink { name } => put_text(&mut bytes, name),
        Body::Index(files) => put_files(&mut bytes, files),
    }
    let checksum = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

fn put_numbers(bytes: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
}

/// Names of files are far shorter than the limit of the length field.
fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

fn put_files(bytes: &mut Vec<u8>, files: &Files) {
    put_numbers(bytes, &[files.next(), files.len() as u64]);
    for (id, file) in files.iter() {
        let first = file.first.unwrap_or_default();
        put_numbers(bytes, &[id, file.length, first.position.0, first.offset, file.extents.parts().len() as u64]);
        put_text(bytes, file.name.as_deref().unwrap_or_default());
        for extent in file.extents.parts() {
            put_numbers(bytes, &[extent.at, extent.length]);
            bytes.push(u8::from(extent.checksum.is_some()));
            bytes.extend_from_slice(&extent.checksum.unwrap_or(0).to_le_bytes());
        }
    }
}

/// Reads a record.
///
/// # Errors
/// The damage of a record that cannot be read.
pub(crate) fn decode(record: &[u8]) -> Result<(Origin, Body<'_>), Damage> {
    let mut rest = Rest(record);
    let checksum = rest.word()?;
    if crc32c::crc32c(rest.0) != checksum {
        return Err(Damage::Checksum);
    }
    let version = rest.byte()?;
    if version != VERSION {
        return Err(Damage::Format { found: version, reads: VERSION });
    }
    let kind = rest.byte()?;
    let origin = Origin { incarnation: rest.number()?, sequence: rest.number()?, offset: rest.number()? };
    let body = match kind {
        CLAIM => Body::Claim,
        DATA => Body::Data {
            file: rest.number()?,
            at: rest.number()?,
            length: rest.number()?,
            bytes: std::mem::take(&mut rest.0),
        },
        LENGTH => Body::Length { file: rest.number()?, length: rest.number()? },
        LINK => Body::Link { file: rest.number()?, name: rest.text()? },
        RENAME => Body::Rename { from: rest.text()?, to: rest.text()? },
        UNLINK => Body::Unlink { name: rest.text()? },
        INDEX => Body::Index(rest.files()?),
        kind => return Err(Damage::Kind(kind)),
    };
    if rest.0.is_empty() { Ok((origin, body)) } else { Err(Damage::TooLong) }
}

/// The unread bytes of a record.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Damage::TooShort)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        self.take(N)?.try_into().map_err(|_| Damage::TooShort)
    }

    fn byte(&mut self) -> Result<u8, Damage> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn word(&mut self) -> Result<u32, Damage> {
        self.array().map(u32::from_le_bytes)
    }

    fn number(&mut self) -> Result<u64, Damage> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<&'a str, Damage> {
        let length = u16::from_le_bytes(self.array()?);
        let text = std::str::from_utf8(self.take(usize::from(length))?).map_err(|_| Damage::NotText)?;
        // A name becomes one of a file here: it must not lead anywhere else.
        if text.is_empty() || text.contains('/') || text == "." || text == ".." {
            return Err(Damage::Name(text.to_owned()));
        }
        Ok(text)
    }

    fn files(&mut self) -> Result<Files, Damage> {
        let (next, count) = (self.number()?, self.number()?);
        let mut files = BTreeMap::new();
        for _ in 0..count {
            let [id, length, position, offset, parts] =
                [self.number()?, self.number()?, self.number()?, self.number()?, self.number()?];
            let name = Some(self.text()?.to_owned());
            let mut extents: Vec<Extent> = Vec::new();
            for _ in 0..parts {
                let (at, length, known) = (self.number()?, self.number()?, self.byte()? != 0);
                let checksum = Some(self.word()?).filter(|_| known);
                extents.push(Extent { at, length, checksum });
            }
            if !extents.is_sorted_by(|one, next| one.end() < next.at) || id >= next {
                return Err(Damage::Order);
            }
            let extents = Extents::from_parts(extents);
            let first =
                Some(Mark { position: Position(position), offset }).filter(|mark| mark.position > Position::START);
            files.insert(id, FileState { name, length, extents, first });
        }
        Ok(Files::new(files, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Files {
        let mut files = Files::default();
        files.link(3, "MANIFEST");
        files.link(7, "journal-000000000007.log");
        let file = files.reach(7);
        file.length = 8_192;
        file.extents.write(0, b"header");
        file.extents.write(4_096, b"frames");
        file.extents.write(4_097, b"r");
        file.first = Some(Mark { position: Position(12), offset: 4_000 });
        files
    }

    #[test]
    fn a_record_is_read_back_and_every_flipped_bit_is_found() {
        let origin = Origin { incarnation: u64::MAX - 1, sequence: 12, offset: 1 << 40 };
        let bodies = [
            Body::Claim,
            Body::Data { file: 1, at: 2, length: 9, bytes: b"data" },
            Body::Data { file: 1, at: 2, length: 2, bytes: b"" },
            Body::Length { file: 1, length: 3 },
            Body::Link { file: 1, name: "a" },
            Body::Rename { from: "a", to: "b" },
            Body::Unlink { name: "b" },
            Body::Index(Files::default()),
            Body::Index(index()),
        ];
        for body in bodies {
            let bytes = encode(origin, &body);
            assert_eq!(decode(&bytes).unwrap(), (origin, body.clone()));
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&damaged).is_err(), "bit {bit} of {body:?}");
            }
            for end in 0..bytes.len() {
                assert!(decode(&bytes[..end]).is_err());
            }
        }
    }

    /// The records that the fixture has, one of each kind.
    fn kinds() -> [Body<'static>; 8] {
        [
            Body::Claim,
            Body::Data { file: 1, at: 2, length: 9, bytes: b"data" },
            Body::Length { file: 1, length: 3 },
            Body::Link { file: 1, name: "a" },
            Body::Rename { from: "a", to: "b" },
            Body::Unlink { name: "b" },
            Body::Index(Files::default()),
            Body::Index(index()),
        ]
    }

    /// Each line of the fixture is a record in hexadecimal digits. A new format gets a new file; this one stays.
    #[test]
    fn records_of_format_1_are_read_with_their_exact_content() {
        let origin = Origin { incarnation: 77, sequence: 12, offset: 1 << 40 };
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat() + "\n";
        let written: String = kinds().iter().map(|body| hex(&encode(origin, body))).collect();
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/fixtures/records-1.txt");
        if std::env::var_os("UPDATE_FIXTURES").is_some() && !path.exists() {
            std::fs::write(&path, &written).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), kinds().len());
        for (line, body) in text.lines().zip(kinds()) {
            let byte = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..line.len()).step_by(2).map(byte).collect();
            assert_eq!(decode(&bytes).unwrap(), (origin, body));
        }
        assert_eq!(written, text, "a mirror of this format has to read it");
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        let origin = Origin { incarnation: 1, sequence: 1, offset: 0 };
        for name in ["", ".", "..", "../x", "/etc/x", "a/b"] {
            assert!(decode(&encode(origin, &Body::Unlink { name })).is_err(), "{name}");
        }
    }
}
