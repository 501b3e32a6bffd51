//! The format language of `-F`: text with sequences that stand for parts of a message, as in `mosquitto_sub`.
//!
//! `%` starts a field of the message, `@` a conversion of strftime, `\` a character that is hard to type.

mod json;
mod render;
mod render_error;
mod shape;
mod time;

use std::iter::Peekable;
use std::str::Chars;

pub(crate) use render_error::RenderError;
use shape::Shape;

/// A format that has been read and found right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Field(Field, Shape),
    /// A conversion of strftime that is known to work.
    Time(String),
}

/// A part of a message, or of the time at which it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    TopicAlias,
    ContentType,
    CorrelationData,
    MessageExpiry,
    PayloadFormat,
    IsoTime,
    JsonText,
    JsonValue,
    PayloadLength,
    PacketId,
    UserProperties,
    Payload,
    QoS,
    ResponseTopic,
    Retain,
    SubscriptionIdentifiers,
    Topic,
    UnixTime,
    HexLower,
    HexUpper,
    Float,
    Double,
}

impl Field {
    const fn from_letter(letter: char) -> Option<Self> {
        Some(match letter {
            'A' => Self::TopicAlias,
            'C' => Self::ContentType,
            'D' => Self::CorrelationData,
            'E' => Self::MessageExpiry,
            'F' => Self::PayloadFormat,
            'I' => Self::IsoTime,
            'j' => Self::JsonText,
            'J' => Self::JsonValue,
            'l' => Self::PayloadLength,
            'm' => Self::PacketId,
            'P' => Self::UserProperties,
            'p' => Self::Payload,
            'q' => Self::QoS,
            'R' => Self::ResponseTopic,
            'r' => Self::Retain,
            'S' => Self::SubscriptionIdentifiers,
            't' => Self::Topic,
            'U' => Self::UnixTime,
            'x' => Self::HexLower,
            'X' => Self::HexUpper,
            'f' => Self::Float,
            'd' => Self::Double,
            _ => return None,
        })
    }
}

/// Why text is no format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormatError {
    /// It ends inside a sequence.
    #[error("the format ends after '{0}'; write '{0}{0}' for the character itself")]
    Incomplete(char),
    /// There is no such field.
    #[error("'%{0}' is no field of a message; the fields are A C D E F I j J l m P p q R r S t U x X f d and %")]
    UnknownField(char),
    /// There is no such conversion.
    #[error("'@{0}' is no conversion of strftime")]
    UnknownTime(char),
    /// There is no such escape.
    #[error("'\\{0}' is no escape; the escapes are \\\\ \\0 \\a \\e \\n \\r \\t and \\v")]
    UnknownEscape(char),
    /// The field width or precision is out of bounds.
    #[error("a field width or precision is greater than {max}", max = shape::MAX_WIDTH)]
    TooWide,
}

impl Template {
    /// Reads a format.
    ///
    /// # Errors
    /// At the first sequence that does not exist.
    pub(crate) fn parse(text: &str) -> Result<Self, FormatError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            let piece = match character {
                '%' => field(&mut rest)?,
                '@' => time(rest.next().ok_or(FormatError::Incomplete('@'))?)?,
                '\\' => escape(rest.next().ok_or(FormatError::Incomplete('\\'))?)?,
                plain => Piece::Literal(plain.to_string()),
            };
            match piece {
                Piece::Literal(text) => literal.push_str(&text),
                piece => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                    }
                    pieces.push(piece);
                }
            }
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Self { pieces })
    }
}

fn field(rest: &mut Peekable<Chars<'_>>) -> Result<Piece, FormatError> {
    let shape = Shape::parse(rest)?;
    match rest.next() {
        Some('%') => Ok(Piece::Literal("%".to_owned())),
        Some(letter) => match Field::from_letter(letter) {
            Some(field) => Ok(Piece::Field(field, shape)),
            None => Err(FormatError::UnknownField(letter)),
        },
        None => Err(FormatError::Incomplete('%')),
    }
}

fn time(letter: char) -> Result<Piece, FormatError> {
    if letter == '@' {
        return Ok(Piece::Literal("@".to_owned()));
    }
    let conversion = match letter {
        // As in the C locale, as scripts can rely on.
        'c' => "%a %b %e %H:%M:%S %Y".to_owned(),
        'x' => "%m/%d/%y".to_owned(),
        letter if letter.is_ascii_alphabetic() => format!("%{letter}"),
        letter => return Err(FormatError::UnknownTime(letter)),
    };
    // Whether a conversion exists does not depend on the time, so the first moment of all will do to find out.
    let start = jiff::Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC);
    match jiff::fmt::strtime::format(&conversion, &start) {
        Ok(_) => Ok(Piece::Time(conversion)),
        Err(_) => Err(FormatError::UnknownTime(letter)),
    }
}

fn escape(letter: char) -> Result<Piece, FormatError> {
    let character = match letter {
        '\\' => '\\',
        '0' => '\0',
        'a' => '\u{7}',
        'e' => '\u{1b}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        other => return Err(FormatError::UnknownEscape(other)),
    };
    Ok(Piece::Literal(character.to_string()))
}

#[cfg(test)]
mod tests;
