//! Reading and writing of data that leaves the engine but is not MQTT: records between shards and images of partitions.
//!
//! Numbers are little-endian, text and bytes carry a 32-bit length.

use tidegate_mqtt::PacketId;

/// Bytes that are not a record or an image of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError {
    /// The part that was being read.
    pub reading: &'static str,
}

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the bytes end early or are out of range where {} was expected", self.reading)
    }
}

impl std::error::Error for WireError {}

/// Appends fields to a buffer.
pub(crate) trait WireWrite {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_bytes(&mut self, value: &[u8]);
}

impl WireWrite for Vec<u8> {
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    #[inline]
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    fn put_bytes(&mut self, value: &[u8]) {
        self.put_u32(value.len() as u32);
        self.extend_from_slice(value);
    }
}

/// Takes fields off the front of a buffer.
#[derive(Clone, Debug)]
pub(crate) struct WireReader<'a> {
    rest: &'a [u8],
}

impl<'a> WireReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Takes the next byte if it is this one.
    #[inline]
    pub(crate) fn skip(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize, reading: &'static str) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(WireError { reading })?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, reading: &'static str) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError { reading })?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub(crate) fn u8(&mut self, reading: &'static str) -> Result<u8, WireError> {
        Ok(self.array::<1>(reading)?[0])
    }

    #[inline]
    pub(crate) fn u16(&mut self, reading: &'static str) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.array(reading)?))
    }

    #[inline]
    pub(crate) fn u32(&mut self, reading: &'static str) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array(reading)?))
    }

    #[inline]
    pub(crate) fn u64(&mut self, reading: &'static str) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array(reading)?))
    }

    #[inline]
    pub(crate) fn bytes(&mut self, reading: &'static str) -> Result<&'a [u8], WireError> {
        let len = self.u32(reading)? as usize;
        self.take(len, reading)
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn flag(&mut self, reading: &'static str) -> Result<bool, WireError> {
        match self.u8(reading)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError { reading }),
        }
    }

    /// Text with a 16-bit length.
    pub(crate) fn text16(&mut self, reading: &'static str) -> Result<&'a str, WireError> {
        let len = usize::from(self.u16(reading)?);
        std::str::from_utf8(self.take(len, reading)?).map_err(|_| WireError { reading })
    }

    pub(crate) fn packet_id(&mut self) -> Result<PacketId, WireError> {
        PacketId::new(self.u16("a packet id")?).ok_or(WireError { reading: "a packet id" })
    }

    #[inline]
    pub(crate) fn text(&mut self, reading: &'static str) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes(reading)?).map_err(|_| WireError { reading })
    }
}
