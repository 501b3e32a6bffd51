//! The last line of an export, a summary of all lines before it. It shows whether an export is complete.

/// Collects the last line when writing, and verifies it when reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ending {
    /// Entries so far.
    pub entries: u64,
    /// CRC-32C over the key and the value of each, both behind their length (u32, little-endian).
    pub crc32c: u32,
}

impl Ending {
    /// One more entry.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries += 1;
        for part in [key, value] {
            self.crc32c = crc32c::crc32c_append(self.crc32c, &(part.len() as u32).to_le_bytes());
            self.crc32c = crc32c::crc32c_append(self.crc32c, part);
        }
    }

    /// The line, without its end.
    pub(super) fn line(&self) -> String {
        format!("{{\"entries\":{},\"crc32c\":\"{:08x}\"}}", self.entries, self.crc32c)
    }

    /// Reads a line, if it is one of these.
    pub(super) fn read(object: &serde_json::Value) -> Option<Self> {
        let entries = object.get("entries")?.as_u64()?;
        let crc32c = u32::from_str_radix(object.get("crc32c")?.as_str()?, 16).ok()?;
        Some(Self { entries, crc32c })
    }
}
