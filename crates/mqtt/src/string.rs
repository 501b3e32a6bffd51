//! UTF-8 Encoded Strings.

/// Why bytes are not a UTF-8 Encoded String.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StringError {
    /// The bytes are not well-formed UTF-8, surrogates included ([MQTT-1.5.4-1]).
    #[error("is not well-formed UTF-8")]
    IllFormed,
    /// The string holds U+0000 ([MQTT-1.5.4-2]).
    #[error("holds the null character")]
    Null,
}

/// Reads `bytes` (without a length prefix) as the characters of a UTF-8 Encoded String. A byte order mark
/// stays as it is ([MQTT-1.5.4-3]).
///
/// # Errors
///
/// For ill-formed UTF-8 and for U+0000; other control characters and non-characters pass.
#[inline]
pub fn from_utf8(bytes: &[u8]) -> Result<&str, StringError> {
    let text = std::str::from_utf8(bytes).map_err(|_| StringError::IllFormed)?;
    if holds_null(bytes) {
        return Err(StringError::Null);
    }
    Ok(text)
}

/// Bytes that are looked at in one step.
const STEP: usize = size_of::<u64>();

/// Whether a byte is 0. Most strings have a few dozen bytes: the set-up of a search for long texts would cost more than the
/// search.
#[inline]
fn holds_null(bytes: &[u8]) -> bool {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    steps.iter().any(|step| has_zero_byte(u64::from_ne_bytes(*step)))
        || match bytes.last_chunk::<STEP>() {
            // Some of these bytes are looked at twice.
            Some(last) => has_zero_byte(u64::from_ne_bytes(*last)),
            None => rest.contains(&0),
        }
}

/// Whether all bytes are ASCII other than 0. Such bytes are a UTF-8 Encoded String.
#[inline]
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    const HIGHEST: u64 = u64::from_ne_bytes([0x80; STEP]);
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let Some(last) = bytes.last_chunk::<STEP>() else {
        return rest.iter().all(|byte| (0x01..0x80).contains(byte));
    };
    // Some of the last bytes are looked at twice. One comparison of all is cheaper than one for each step.
    let seen = steps
        .iter()
        .fold(not_plain(u64::from_ne_bytes(*last)), |seen, step| seen | not_plain(u64::from_ne_bytes(*step)));
    seen & HIGHEST == 0
}

/// Sets the highest bit of a byte unless each of the eight bytes is from 1 to 127: no other byte leaves its highest bit
/// unset both before and after 1 is subtracted. Only a byte that is 0 borrows from the next one.
#[inline]
const fn not_plain(bytes: u64) -> u64 {
    const LOWEST: u64 = u64::from_ne_bytes([0x01; STEP]);
    bytes | bytes.wrapping_sub(LOWEST)
}

/// Whether one of the eight bytes is 0: only then a borrow reaches the highest bit of a byte that did not have it.
#[inline]
const fn has_zero_byte(bytes: u64) -> bool {
    const LOWEST: u64 = u64::from_ne_bytes([0x01; STEP]);
    const HIGHEST: u64 = u64::from_ne_bytes([0x80; STEP]);
    bytes.wrapping_sub(LOWEST) & !bytes & HIGHEST != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_ascii_without_the_null_character() {
        for len in 0..40 {
            for at in 0..len {
                for byte in 0..=u8::MAX {
                    let mut bytes = vec![b'~'; len];
                    bytes[at] = byte;
                    assert_eq!(is_plain(&bytes), (0x01..0x80).contains(&byte), "{byte} at {at} of {len}");
                }
            }
        }
        assert!(is_plain(b""));
    }

    #[test]
    fn the_null_character_is_found_at_each_place() {
        for len in 0..40 {
            for filler in ['\u{1}', '~', '\u{7f}'] {
                let text: String = std::iter::repeat_n(filler, len).collect();
                assert_eq!(from_utf8(text.as_bytes()), Ok(text.as_str()));
                for place in 0..len {
                    let mut bytes = text.clone().into_bytes();
                    bytes[place] = 0;
                    assert_eq!(from_utf8(&bytes), Err(StringError::Null), "{place} of {len}");
                }
            }
        }
        let accents = "\u{80}\u{100}\u{10000}".repeat(5);
        assert_eq!(from_utf8(accents.as_bytes()), Ok(accents.as_str()));
    }
}
