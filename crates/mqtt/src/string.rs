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
    if text.as_bytes().contains(&0) {
        return Err(StringError::Null);
    }
    Ok(text)
}
