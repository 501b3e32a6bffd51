//! Names in a command's output: a topic may be as long as a book.

use std::fmt;

/// Longest part of a name that is shown, bytes.
const MAX_SHOWN_BYTES: usize = 100;

/// A topic name or filter in quotes, and of a long one the beginning and the length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        if text.len() <= MAX_SHOWN_BYTES {
            return write!(f, "'{text}'");
        }
        let end = (0..=MAX_SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end));
        let shown = text.get(..end.unwrap_or_default()).unwrap_or_default();
        write!(f, "'{shown}...' ({} bytes)", text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_name_the_beginning_is_shown_in_whole_characters() {
        assert_eq!(Quoted("a/b").to_string(), "'a/b'");
        let (fits, long) = ("x".repeat(MAX_SHOWN_BYTES), "\u{e4}".repeat(32_767));
        assert_eq!(Quoted(&fits).to_string(), format!("'{fits}'"));
        assert_eq!(Quoted(&long).to_string(), format!("'{}...' (65534 bytes)", "\u{e4}".repeat(50)));
        let odd = format!("x{long}");
        assert_eq!(Quoted(&odd).to_string(), format!("'x{}...' (65535 bytes)", "\u{e4}".repeat(49)));
    }
}
