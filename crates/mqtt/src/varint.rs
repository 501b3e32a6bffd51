//! Variable Byte Integers: one to four bytes of seven bits each, least significant first.

/// The greatest value that four bytes can hold: 268,435,455.
pub const MAX_VARINT: u32 = 268_435_455;

/// Why bytes are not a Variable Byte Integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarintError {
    /// The fourth byte announces a fifth.
    #[error("a variable byte integer is longer than four bytes")]
    TooLong,
    /// Fewer bytes would do ([MQTT-1.5.5-1]).
    #[error("a variable byte integer is not encoded in the fewest bytes")]
    NotMinimal,
}

/// Reads the Variable Byte Integer at the start of `bytes`: its value and its size in bytes. `Ok(None)` means that more
/// bytes are needed.
///
/// # Errors
///
/// As soon as the bytes at hand show that no valid integer can follow.
#[inline]
pub fn decode(bytes: &[u8]) -> Result<Option<(u32, usize)>, VarintError> {
    match *bytes {
        [] => Ok(None),
        [byte, ..] if byte < 0x80 => Ok(Some((u32::from(byte), 1))),
        [low, high, ..] if (1..0x80).contains(&high) => Ok(Some((u32::from(low & 0x7F) | u32::from(high) << 7, 2))),
        _ => decode_long(bytes),
    }
}

fn decode_long(bytes: &[u8]) -> Result<Option<(u32, usize)>, VarintError> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(4).enumerate() {
        value |= u32::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            if byte == 0 && index > 0 {
                return Err(VarintError::NotMinimal);
            }
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() < 4 { Ok(None) } else { Err(VarintError::TooLong) }
}

/// How many bytes `value` takes: 1 to 4. Values above [`MAX_VARINT`] have no encoding and count as 4.
#[inline]
pub const fn len(value: u32) -> usize {
    match value {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x001F_FFFF => 3,
        _ => 4,
    }
}

/// An encoded Variable Byte Integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Varint {
    bytes: [u8; 4],
    len: usize,
}

impl Varint {
    /// The bytes, 1 to 4 of them.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

/// Encodes `value`; `None` for values above [`MAX_VARINT`].
#[inline]
pub const fn encode(value: u32) -> Option<Varint> {
    const MORE: u8 = 0x80;
    let first = value as u8 & 0x7F;
    let second = (value >> 7) as u8 & 0x7F;
    let third = (value >> 14) as u8 & 0x7F;
    let fourth = (value >> 21) as u8;
    let len = len(value);
    let bytes = match len {
        1 => [first, 0, 0, 0],
        2 => [first | MORE, second, 0, 0],
        3 => [first | MORE, second | MORE, third, 0],
        _ if value <= MAX_VARINT => [first | MORE, second | MORE, third | MORE, fourth],
        _ => return None,
    };
    Some(Varint { bytes, len })
}
