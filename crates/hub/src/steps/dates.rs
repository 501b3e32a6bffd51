//! Dates in forms of their own, as functions of EMQX write and read them: `%Y-%m-%d %H:%M:%S`.

use std::fmt::Write;

use serde_json::Value;

use super::error::{ComputeError, MAX_RESULT};
use super::unit::{MILLISECOND, Unit};
use super::values::{number_of, text_of};
use crate::time::{minutes_east, nanoseconds_of, rfc3339_of};

/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

/// A part of a form.
#[derive(Clone, Copy)]
enum Piece {
    Literal(char),
    /// The place of digits within `2026-01-02T03:04:05`.
    Digits(usize, usize),
    /// Digits of the fraction of the second.
    Fraction(usize),
    /// The zone, and whether it has a colon.
    Zone(bool),
}

/// The parts of a form. An unknown letter stays as it is.
fn pieces(form: &str) -> Vec<Piece> {
    let codes = [
        ("%Y", Piece::Digits(0, 4)),
        ("%m", Piece::Digits(5, 2)),
        ("%d", Piece::Digits(8, 2)),
        ("%H", Piece::Digits(11, 2)),
        ("%M", Piece::Digits(14, 2)),
        ("%S", Piece::Digits(17, 2)),
        ("%3N", Piece::Fraction(3)),
        ("%6N", Piece::Fraction(6)),
        ("%N", Piece::Fraction(9)),
        ("%:z", Piece::Zone(true)),
        ("%z", Piece::Zone(false)),
    ];
    let (mut rest, mut pieces) = (form, Vec::new());
    while let Some(first) = rest.chars().next() {
        let code = codes.iter().find_map(|(code, piece)| Some((rest.strip_prefix(code)?, piece)));
        let literal = (&rest[first.len_utf8()..], Piece::Literal(first));
        let (left, piece) = code.map_or(literal, |(left, piece)| (left, *piece));
        rest = left;
        pieces.push(piece);
    }
    pieces
}

/// The minutes of a zone: `+08:00`, `+0800`, `Z`, or a number of seconds.
fn zone(value: &Value) -> Result<i64, ComputeError> {
    let text = text_of(value);
    let minutes = match value {
        Value::Null => Some(0),
        Value::Number(seconds) => seconds.as_i64().map(|seconds| seconds / 60),
        _ if text.len() == 5 => {
            text.split_at_checked(3).and_then(|(hours, rest)| minutes_east(&format!("{hours}:{rest}")))
        }
        _ => minutes_east(&text),
    };
    minutes.filter(|minutes| minutes.abs() < 24 * 60).ok_or(ComputeError::NotZone(text))
}

/// `format_date(UNIT, ZONE, FORM, TIME)`.
pub(super) fn written(values: &[Value]) -> Result<Value, ComputeError> {
    let [unit, offset, form, time] = values else { return Ok(Value::Null) };
    let not_time = || ComputeError::NotTime(text_of(time));
    let minutes = zone(offset)?;
    let unit = Unit::of(unit)?;
    let nanoseconds = if let Some(whole) = time.as_i64() {
        i128::from(whole) * unit.nanoseconds()
    } else {
        i128::from(unit.milliseconds(number_of(time)?).ok_or_else(not_time)?) * MILLISECOND
    };
    let local = nanoseconds.saturating_add(i128::from(minutes) * 60 * SECOND);
    let millis = i64::try_from(local.div_euclid(MILLISECOND)).ok();
    let text = millis.and_then(rfc3339_of).ok_or_else(not_time)?;
    let fraction = format!("{:09}", local.rem_euclid(SECOND));
    let form = text_of(form);
    let mut out = String::new();
    for piece in pieces(&form) {
        match piece {
            Piece::Literal(one) => out.push(one),
            Piece::Digits(at, len) => out.push_str(&text[at..at + len]),
            Piece::Fraction(len) => out.push_str(&fraction[..len]),
            Piece::Zone(has_colon) => {
                let (sign, colon) = (if minutes < 0 { '-' } else { '+' }, if has_colon { ":" } else { "" });
                let minutes = minutes.abs();
                let _ = write!(out, "{sign}{:02}{colon}{:02}", minutes / 60, minutes % 60);
            }
        }
    }
    if out.len() > MAX_RESULT { Err(ComputeError::TooLong) } else { Ok(out.into()) }
}

/// `date_to_unix_ts(UNIT, FORM, TEXT)` and `date_to_unix_ts(UNIT, ZONE, FORM, TEXT)`.
pub(super) fn read(values: &[Value]) -> Result<Value, ComputeError> {
    let (unit, offset, form, date) = match values {
        [unit, form, date] => (unit, &Value::Null, form, date),
        [unit, offset, form, date] => (unit, offset, form, date),
        _ => return Ok(Value::Null),
    };
    let (form, date) = (text_of(form), text_of(date));
    let minutes = zone(offset)?;
    let time = read_as(&form, &date, minutes).ok_or(ComputeError::NotDate { text: date, form })?;
    Unit::of(unit)?.value(time)
}

fn read_as(form: &str, date: &str, minutes: i64) -> Option<i128> {
    let (mut text, mut fraction, mut minutes) = ("1970-01-01T00:00:00".to_owned(), 0, minutes);
    let mut rest = date;
    for piece in pieces(form) {
        match piece {
            Piece::Literal(one) => rest = rest.strip_prefix(one)?,
            Piece::Digits(at, len) => {
                let (digits, left) = rest.split_at_checked(len)?;
                text.replace_range(at..at + len, digits);
                rest = left;
            }
            Piece::Fraction(len) => {
                let (digits, left) = rest.split_at_checked(len)?;
                fraction = format!("{digits:0<9}").parse().ok()?;
                rest = left;
            }
            Piece::Zone(has_colon) => {
                let (written, left) = rest.split_at_checked(if has_colon { 6 } else { 5 })?;
                minutes = zone(&written.into()).ok()?;
                rest = left;
            }
        }
    }
    let time = nanoseconds_of(&format!("{text}Z"))?;
    rest.is_empty().then(|| time + fraction - i128::from(minutes) * 60 * SECOND)
}
