//! A place in the bytes of a file.

use crate::DatabaseError;

/// Reads fields one after the other; each read is within the bytes or an error.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The offset of the next field in the file.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: usize, damage: &'static str) -> Result<&'a [u8], DatabaseError> {
        let damaged = DatabaseError::Damaged { at: self.at, damage };
        let end = self.at.checked_add(length).ok_or_else(|| damaged.clone())?;
        let taken = self.bytes.get(self.at..end).ok_or(damaged)?;
        self.at = end;
        Ok(taken)
    }

    /// A cursor over the next `length` bytes, which are then behind this one.
    pub(crate) fn part(&mut self, length: usize, damage: &'static str) -> Result<Self, DatabaseError> {
        let start = self.at;
        self.take(length, damage)?;
        Ok(Self { bytes: &self.bytes[..start + length], at: start })
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        self.at = self.bytes.len();
        rest
    }

    fn array<const N: usize>(&mut self, damage: &'static str) -> Result<[u8; N], DatabaseError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, damage)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, damage: &'static str) -> Result<u8, DatabaseError> {
        self.array::<1>(damage).map(|[byte]| byte)
    }

    /// Big-endian, as sizes are.
    pub(crate) fn u16(&mut self, damage: &'static str) -> Result<u16, DatabaseError> {
        self.array(damage).map(u16::from_be_bytes)
    }

    /// Big-endian, as sizes are.
    pub(crate) fn u32(&mut self, damage: &'static str) -> Result<u32, DatabaseError> {
        self.array(damage).map(u32::from_be_bytes)
    }

    /// Little-endian, as message ids and times are.
    pub(crate) fn u64(&mut self, damage: &'static str) -> Result<u64, DatabaseError> {
        self.array(damage).map(u64::from_le_bytes)
    }

    /// UTF-8 of `length` bytes.
    pub(crate) fn text(&mut self, length: u16, damage: &'static str) -> Result<String, DatabaseError> {
        let at = self.at;
        let bytes = self.take(usize::from(length), damage)?;
        let text =
            std::str::from_utf8(bytes).map_err(|_| DatabaseError::Damaged { at, damage: "a text is not UTF-8" })?;
        Ok(text.to_owned())
    }
}
