//! The manifest: which files are the store.
//!
//! It is text, one fact a line, with a checksum at the end, written aside and then renamed. A file that it does not
//! name is a leftover; a file that it names has to be there.

use std::fmt::Write;

use crate::disk::{Disk, read_part};
use crate::{OpenError, ReadError};

pub(crate) const NAME: &str = "MANIFEST";
/// Its name while it is being written.
pub(crate) const ASIDE: &str = "MANIFEST.new";
/// The format that this version reads and writes.
const VERSION: u32 = 1;
/// Longest manifest that is read, bytes.
pub(crate) const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The content of the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The generation of the table.
    pub(crate) table: Option<u64>,
    /// The number of the first frame that is not in the table.
    pub(crate) merged: u64,
    /// No file has this number in its name, nor a higher one.
    pub(crate) next: u64,
    /// Id and first frame of each segment, oldest first.
    pub(crate) segments: Vec<(u64, u64)>,
}

impl Manifest {
    /// That of an empty store.
    pub(crate) fn empty() -> Self {
        Self { table: None, merged: 1, next: 1, segments: Vec::new() }
    }

    pub(crate) fn encode(&self) -> String {
        let mut text = format!("tidegate-store {VERSION}\nnext {}\nmerged {}\n", self.next, self.merged);
        if let Some(generation) = self.table {
            let _ = writeln!(text, "table {generation}");
        }
        for (id, first) in &self.segments {
            let _ = writeln!(text, "journal {id} {first}");
        }
        let checksum = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "crc32c {checksum:08x}");
        text
    }

    pub(crate) fn decode(text: &str) -> Result<Self, ReadError> {
        let damaged = |damage: &str| ReadError::damaged(NAME, 0, damage);
        let version = text.lines().next().and_then(|line| line.strip_prefix("tidegate-store "));
        let version: u32 = version.and_then(|text| text.parse().ok()).ok_or_else(|| damaged("it has no first line"))?;
        if version != VERSION {
            return Err(ReadError::Version { file: NAME.to_owned(), found: version, supported: VERSION });
        }
        let (body, checksum) = text.rsplit_once("crc32c ").ok_or_else(|| damaged("it has no checksum"))?;
        if u32::from_str_radix(checksum.trim_end(), 16) != Ok(crc32c::crc32c(body.as_bytes())) {
            return Err(damaged("its checksum is wrong"));
        }
        let mut manifest = Self::default();
        for line in body.lines().skip(1) {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
            let known = match (name, number(), number()) {
                ("next", Some(next), None) => {
                    manifest.next = next;
                    true
                }
                ("merged", Some(merged), None) => {
                    manifest.merged = merged;
                    true
                }
                ("table", Some(generation), None) => {
                    manifest.table = Some(generation);
                    true
                }
                ("journal", Some(id), Some(first)) => {
                    manifest.segments.push((id, first));
                    true
                }
                _ => false,
            };
            if !known {
                return Err(damaged("it has an invalid line"));
            }
        }
        Ok(manifest)
    }

    /// Reads it; `None` when there is no manifest.
    pub(crate) fn load(disk: &dyn Disk) -> Result<Option<Self>, ReadError> {
        let reading = |error| ReadError::reading(NAME, error);
        let file = match disk.open(NAME) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(reading)?,
        };
        let length = file.length().map_err(reading)?;
        if length > MAX_BYTES {
            return Err(ReadError::damaged(NAME, MAX_BYTES, "it is longer than any manifest"));
        }
        let bytes = read_part(&*file, 0, length).map_err(reading)?;
        let text = String::from_utf8(bytes).map_err(|_| ReadError::damaged(NAME, 0, "it is not text"))?;
        Self::decode(&text).map(Some)
    }

    /// Replaces the present manifest. After a failure it is unknown which of the two survives a power loss, so no file
    /// that either names may be removed.
    pub(crate) fn save(&self, disk: &dyn Disk) -> Result<(), OpenError> {
        let writing = |error| OpenError::writing(NAME, error);
        // A new file: after a failed sync, the content of the old one cannot be trusted.
        let _ = disk.remove(ASIDE);
        let file = disk.create(ASIDE).map_err(writing)?;
        file.write_at(self.encode().as_bytes(), 0).map_err(writing)?;
        file.sync_data().map_err(writing)?;
        // The files that it names have to be there before it is.
        disk.sync_directory().map_err(writing)?;
        disk.rename(ASIDE, NAME).map_err(writing)?;
        disk.sync_directory().map_err(writing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_back_and_every_flipped_bit_is_found() {
        let manifest = Manifest { table: Some(7), merged: 100, next: 12, segments: vec![(10, 100), (11, 250)] };
        let text = manifest.encode();
        assert_eq!(Manifest::decode(&text).unwrap(), manifest);
        for bit in 0..(text.len() - 1) * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(text) = String::from_utf8(bytes) {
                // A digit of the checksum may be written in either case.
                let same = Manifest::decode(&text).is_ok_and(|read| read == manifest);
                assert!(same == text.eq_ignore_ascii_case(&manifest.encode()) || Manifest::decode(&text).is_err());
            }
        }
    }
}
