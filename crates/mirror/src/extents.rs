//! The written parts of a file, with a checksum each. The bytes between them are zero.

/// Parts of a file above which they are merged into one without a checksum.
const MAX_EXTENTS: usize = 1_024;

/// A part of a file that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Its beginning, bytes.
    pub(crate) at: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// The CRC-32C of its content; `None` where a part of it was written twice.
    pub(crate) checksum: Option<u32>,
}

impl Extent {
    pub(crate) fn end(&self) -> u64 {
        self.at.saturating_add(self.length)
    }
}

/// All parts, in ascending order, with unwritten bytes between any two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extents(Vec<Extent>);

impl Extents {
    pub(crate) fn from_parts(parts: Vec<Extent>) -> Self {
        Self(parts)
    }

    pub(crate) fn parts(&self) -> &[Extent] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|extent| extent.length).sum()
    }

    pub(crate) fn end(&self) -> u64 {
        self.0.last().map_or(0, Extent::end)
    }

    /// Whether any byte between two offsets was written.
    pub(crate) fn touches(&self, from: u64, to: u64) -> bool {
        self.0.iter().any(|extent| extent.at < to && from < extent.end())
    }

    /// Notes that bytes were written at a place.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut written = Extent { at, length: bytes.len() as u64, checksum: Some(0) };
        // All that overlap or touch become one.
        let first = self.0.partition_point(|extent| extent.end() < at);
        let behind = self.0.partition_point(|extent| extent.at <= written.end());
        let met: Vec<Extent> = self.0.drain(first..behind).collect();
        let before = met.first().filter(|extent| extent.end() == at);
        let after = met.last().filter(|extent| extent.at == written.end());
        let appended = met.len() == usize::from(before.is_some()) + usize::from(after.is_some());
        written.checksum = if appended {
            // If the write continues a part, only the new bytes are added to its checksum.
            let begun = before.map_or(Some(0), |before| before.checksum);
            let checksum = begun.map(|begun| crc32c::crc32c_append(begun, bytes));
            match after {
                None => checksum,
                Some(after) => checksum.zip(after.checksum).map(|(one, next)| {
                    crc32c::crc32c_combine(one, next, usize::try_from(after.length).unwrap_or(usize::MAX))
                }),
            }
        } else {
            None
        };
        let end = met.iter().map(Extent::end).max().unwrap_or(0).max(written.end());
        written.at = met.iter().map(|extent| extent.at).min().unwrap_or(at).min(at);
        written.length = end - written.at;
        self.0.insert(first, written);
        if self.0.len() > MAX_EXTENTS {
            self.join();
        }
    }

    fn join(&mut self) {
        let (Some(first), end) = (self.0.first().copied(), self.end()) else { return };
        self.0 = vec![Extent { at: first.at, length: end - first.at, checksum: None }];
    }

    /// Notes that the file ends at a place.
    pub(crate) fn cut(&mut self, length: u64) {
        self.0.retain(|extent| extent.at < length);
        if let Some(last) = self.0.last_mut().filter(|last| last.end() > length) {
            last.length = length - last.at;
            last.checksum = None;
        }
    }

    /// Whether both are the same parts with, where they are known, the same checksums.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let same = |(one, next): (&Extent, &Extent)| {
            let known = one.checksum.zip(next.checksum);
            one.at == next.at && one.length == next.length && known.is_none_or(|(one, next)| one == next)
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(at: u64, bytes: &[u8]) -> Extent {
        Extent { at, length: bytes.len() as u64, checksum: Some(crc32c::crc32c(bytes)) }
    }

    #[test]
    fn adjacent_writes_form_one_part() {
        let mut extents = Extents::default();
        extents.write(10, b"one");
        extents.write(13, b"two");
        extents.write(20, b"four");
        assert_eq!(extents.parts(), [extent(10, b"onetwo"), extent(20, b"four")]);
        extents.write(16, b"-3--");
        assert_eq!(extents.parts(), [extent(10, b"onetwo-3--four")]);
        extents.write(7, b"abc");
        assert_eq!(extents.parts(), [extent(7, b"abconetwo-3--four")]);
        assert_eq!((extents.bytes(), extents.end()), (17, 24));
        assert!(extents.touches(0, 8) && !extents.touches(0, 7) && !extents.touches(24, 30));
    }

    #[test]
    fn bytes_written_twice_have_no_checksum() {
        let mut extents = Extents::default();
        extents.write(0, b"0123456789");
        extents.write(4, b"x");
        assert_eq!(extents.parts(), [Extent { at: 0, length: 10, checksum: None }]);
        extents.write(10, b"more");
        assert_eq!(extents.parts(), [Extent { at: 0, length: 14, checksum: None }]);
        extents.write(20, b"0123456789");
        extents.write(12, b"0123456789abcdefghijk");
        assert_eq!(extents.parts(), [Extent { at: 0, length: 33, checksum: None }]);
    }

    #[test]
    fn a_shorter_file_has_less() {
        let mut extents = Extents::default();
        extents.write(0, b"0123");
        extents.write(10, b"0123");
        extents.cut(12);
        assert_eq!(extents.parts(), [extent(0, b"0123"), Extent { at: 10, length: 2, checksum: None }]);
        extents.cut(10);
        assert_eq!(extents.parts(), [extent(0, b"0123")]);
        extents.cut(0);
        assert!(extents.is_empty());
    }

    #[test]
    fn very_many_parts_are_taken_for_one() {
        let mut extents = Extents::default();
        for part in 0..=MAX_EXTENTS as u64 {
            extents.write(part * 2, b"x");
        }
        assert_eq!(extents.parts(), [Extent { at: 0, length: 2 * MAX_EXTENTS as u64 + 1, checksum: None }]);
    }

    #[test]
    fn parts_agree_where_nothing_says_otherwise() {
        let mut one = Extents::default();
        one.write(0, b"0123");
        let mut next = one.clone();
        assert!(one.agrees(&next));
        next.write(1, b"1");
        assert!(one.agrees(&next), "bytes written twice have no checksum");
        let mut other = Extents::default();
        other.write(0, b"0124");
        assert!(!one.agrees(&other));
        other.write(4, b"5");
        assert!(!one.agrees(&other));
    }
}
