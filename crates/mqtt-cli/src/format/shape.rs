//! The width of a field, and its filling.

use std::iter::Peekable;
use std::str::Chars;

use super::FormatError;

/// The greatest field width and precision.
pub(super) const MAX_WIDTH: usize = 10_000;

/// Characters that may stand between the bytes of `%x` and `%X`.
const SEPARATORS: &str = ":,_/ ";

/// The part between `%` and the letter of a field: `[-][0][WIDTH][.PRECISION][SEPARATOR]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Fill up on the right, with blanks.
    left: bool,
    /// Fill numbers up with zeros.
    zero: bool,
    /// The fewest characters.
    width: usize,
    /// The most characters of text, the most bytes of a payload, the decimals of a number.
    pub(super) precision: Option<usize>,
    /// The separator between the bytes of a hexadecimal payload.
    pub(super) separator: Option<char>,
}

impl Shape {
    pub(super) fn parse(rest: &mut Peekable<Chars<'_>>) -> Result<Self, FormatError> {
        let left = rest.next_if_eq(&'-').is_some();
        let zero = rest.next_if_eq(&'0').is_some();
        let width = number(rest)?.unwrap_or(0);
        let precision = match rest.next_if_eq(&'.') {
            Some(_) => Some(number(rest)?.unwrap_or(0)),
            None => None,
        };
        let separator = rest.next_if(|character| SEPARATORS.contains(*character));
        Ok(Self { left, zero, width, precision, separator })
    }

    /// Appends text, cut to the precision and filled up with blanks to the width. Both count characters.
    pub(super) fn text(&self, text: &str, out: &mut Vec<u8>) {
        let end = self.precision.and_then(|most| text.char_indices().nth(most));
        let text = end.map_or(text, |(end, _)| &text[..end]);
        self.fill(text.as_bytes(), text.chars().count(), b' ', out);
    }

    /// Appends bytes as they are, cut to the precision and filled up with blanks to the width.
    pub(super) fn bytes(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let bytes = self.cut(bytes);
        self.fill(bytes, bytes.len(), b' ', out);
    }

    /// Appends a number, filled up with blanks or zeros.
    pub(super) fn number(&self, number: &str, out: &mut Vec<u8>) {
        match number.strip_prefix('-') {
            // Zeros go behind the sign.
            Some(digits) if self.zero && !self.left => {
                out.push(b'-');
                let shape = Self { width: self.width.saturating_sub(1), ..*self };
                shape.number(digits, out);
            }
            _ => {
                let filler = if self.zero { b'0' } else { b' ' };
                self.fill(number.as_bytes(), number.len(), filler, out);
            }
        }
    }

    /// Appends as much as the width asks for where there is no value.
    pub(super) fn absent_text(&self, out: &mut Vec<u8>) {
        self.fill(b"", 0, b' ', out);
    }

    /// As [`Shape::absent_text`], where the value would be a number.
    pub(super) fn absent_number(&self, out: &mut Vec<u8>) {
        self.number("", out);
    }

    /// The same without a precision.
    pub(super) fn uncut(&self) -> Self {
        Self { precision: None, ..*self }
    }

    /// The first bytes, as many as the precision lets through.
    pub(super) fn cut<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let most = self.precision.unwrap_or(usize::MAX);
        &bytes[..bytes.len().min(most)]
    }

    fn fill(&self, content: &[u8], width: usize, filler: u8, out: &mut Vec<u8>) {
        let missing = self.width.saturating_sub(width);
        if self.left {
            out.extend_from_slice(content);
            out.resize(out.len() + missing, b' ');
        } else {
            out.resize(out.len() + missing, filler);
            out.extend_from_slice(content);
        }
    }
}

fn number(rest: &mut Peekable<Chars<'_>>) -> Result<Option<usize>, FormatError> {
    let mut number = None;
    while let Some(digit) = rest.peek().and_then(|character| character.to_digit(10)) {
        rest.next();
        let value = number.unwrap_or(0) * 10 + digit as usize;
        if value > MAX_WIDTH {
            return Err(FormatError::TooWide);
        }
        number = Some(value);
    }
    Ok(number)
}
