//! Text in quotes, as TOML and JSON both read it.

use std::fmt::Write;

use crate::visible::is_hidden;

/// The text in quotes, with quotes, backslashes and hidden characters escaped: it cannot end the line or the quotes.
/// JSON and TOML have no common escape beyond 16 bits, so such characters stay.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            hidden if is_hidden(hidden) && u32::from(hidden) <= 0xffff => {
                let _ = write!(out, "\\u{:04x}", u32::from(hidden));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_quotes_are_escaped() {
        // TOML does not allow a raw DEL, which JSON does.
        assert_eq!(quoted("a\"\\\n\r\t\u{1}\u{7f}ü"), r#""a\"\\\n\r\t\u0001\u007fü""#);
        assert_eq!(quoted("a\u{202e}b\u{2028}"), r#""a\u202eb\u2028""#);
    }
}
