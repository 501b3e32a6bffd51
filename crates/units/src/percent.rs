//! Text as a part of an address: characters with a meaning there are written as `%XX` [RFC 3986, section 2.1].

use std::fmt::Write;

/// Leaves letters, digits and `-._~` as they are [RFC 3986, section 2.3], and escapes every other byte.
pub fn escape(text: &str) -> String {
    escape_except(text, b"-._~")
}

/// Leaves letters, digits and these ASCII characters as they are, and escapes every other byte.
pub fn escape_except(text: &str, kept: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// Text with its escapes resolved; `None` for a damaged escape, or bytes that are not UTF-8.
pub fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            bytes.push(digit(rest.next())? << 4 | digit(rest.next())?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_characters_of_an_address_are_escaped() {
        assert_eq!(escape("a-Z_0.~"), "a-Z_0.~");
        assert_eq!(escape("p@ss:w/\u{e4}%"), "p%40ss%3Aw%2F%C3%A4%25");
        assert_eq!(escape_except("a/b~c", b"/"), "a/b%7Ec");
        assert_eq!(unescape("p%40ss%3Aw%2F%C3%a4%25").as_deref(), Some("p@ss:w/\u{e4}%"));
        for damaged in ["%4", "%x0", "%+f", "%ff"] {
            assert_eq!(unescape(damaged), None, "{damaged}");
        }
    }
}
