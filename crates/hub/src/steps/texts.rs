//! Functions of SQL that take texts apart and put them together, by the names and with the results that they have in EMQX.

use std::fmt::Write;

use serde_json::Value;

use super::error::{ComputeError, MAX_RESULT};
use super::values::{kind, number_of, text_of};

/// Most digits behind the point of a number.
const MAX_DIGITS: usize = 100;

/// A number of characters or digits; 0 below it.
fn count(number: f64) -> usize {
    usize::try_from(number as i64).unwrap_or_default()
}

/// A text, unless it is too long.
pub(super) fn bounded(text: String) -> Result<Value, ComputeError> {
    if text.len() > MAX_RESULT { Err(ComputeError::TooLong) } else { Ok(text.into()) }
}

/// The direction from which a text is searched, and whether empty parts stay.
struct Way {
    is_from_end: bool,
    is_once: bool,
    keeps_empty: bool,
}

impl Way {
    fn of(value: Option<&Value>) -> Result<Self, ComputeError> {
        let (name, keeps_empty) = match value.and_then(Value::as_str).map(|name| (name, name.strip_suffix("_notrim"))) {
            _ if value.is_none() => ("", false),
            Some(("notrim", _)) => ("", true),
            Some((_, Some(name))) => (name, true),
            Some((name, None)) => (name, false),
            None => ("?", false),
        };
        let needed = "the way is 'leading', 'trailing', 'notrim', 'leading_notrim' or 'trailing_notrim'";
        match name {
            "" => Ok(Self { is_from_end: false, is_once: false, keeps_empty }),
            "leading" | "trailing" => Ok(Self { is_from_end: name == "trailing", is_once: true, keeps_empty }),
            _ => Err(ComputeError::Kind { needed, found: kind(value.unwrap_or(&Value::Null)) }),
        }
    }
}

/// `split(TEXT, SEPARATOR)` and `split(TEXT, SEPARATOR, WAY)`. Without a way, empty parts are left out.
pub(super) fn split(text: &str, by: &str, way: Option<&Value>) -> Result<Value, ComputeError> {
    let way = Way::of(way)?;
    let once = if way.is_from_end { text.rsplit_once(by) } else { text.split_once(by) };
    let parts: Vec<&str> = match once.filter(|_| way.is_once) {
        Some((first, rest)) => vec![first, rest],
        None if way.is_once => vec![text],
        None => text.split(by).collect(),
    };
    Ok(parts.into_iter().filter(|part| way.keeps_empty || !part.is_empty()).collect())
}

/// `tokens(TEXT, SEPARATORS)`: the parts between any of these characters, without empty ones.
pub(super) fn tokens(text: &str, separators: &str) -> Value {
    let parts = text.split(|one: char| separators.contains(one));
    parts.filter(|part| !part.is_empty()).collect()
}

/// `find(TEXT, PART)` and `find(TEXT, PART, WAY)`: the text from the part on, and without it an empty text.
pub(super) fn find(text: &str, part: &str, way: Option<&Value>) -> Result<Value, ComputeError> {
    let at = if Way::of(way)?.is_from_end { text.rfind(part) } else { text.find(part) };
    Ok(at.and_then(|at| text.get(at..)).unwrap_or_default().into())
}

/// `pad(TEXT, LENGTH)`, and with a third value at its `trailing` end (as without), its `leading` one or `both`, and with a
/// fourth one by another character than a blank.
pub(super) fn pad(text: &str, values: &[Value]) -> Result<Value, ComputeError> {
    let wanted = count(values.get(1).map_or(Ok(0.0), number_of)?);
    let missing = wanted.saturating_sub(text.chars().count());
    let by = values.get(3).map_or_else(|| " ".to_owned(), text_of);
    let before = match values.get(2).map_or("trailing", |way| way.as_str().unwrap_or_default()) {
        "trailing" => 0,
        "leading" => missing,
        "both" => missing / 2,
        _ => {
            let found = kind(values.get(2).unwrap_or(&Value::Null));
            return Err(ComputeError::Kind { needed: "`pad` needs 'leading', 'trailing' or 'both'", found });
        }
    };
    if text.len() + missing.saturating_mul(by.len()) > MAX_RESULT {
        return Err(ComputeError::TooLong);
    }
    Ok(format!("{}{text}{}", by.repeat(before), by.repeat(missing - before)).into())
}

/// `join_to_string(SEPARATOR, LIST)` and `join_to_string(LIST)`.
pub(super) fn join(first: &Value, second: Option<&Value>) -> Result<Value, ComputeError> {
    let (by, list) = second.map_or((", ".to_owned(), first), |list| (text_of(first), list));
    let Value::Array(items) = list else {
        return Err(ComputeError::Kind { needed: "`join_to_string` needs an array", found: kind(list) });
    };
    let mut joined = String::new();
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            joined.push_str(&by);
        }
        joined.push_str(&text_of(item));
        if joined.len() > MAX_RESULT {
            return Err(ComputeError::TooLong);
        }
    }
    Ok(joined.into())
}

/// Bytes as hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// The text that hexadecimal digits say.
pub(super) fn text_of_digits(digits: &str) -> Result<Value, ComputeError> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4) | digit(*low)?);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    let Some(bytes) = bytes.filter(|_| rest.is_empty()) else {
        let found = kind(&digits.into());
        return Err(ComputeError::Kind { needed: "pairs of hexadecimal digits are needed", found });
    };
    String::from_utf8(bytes).map(Value::from).map_err(|_| ComputeError::NotText)
}

/// `float2str(NUMBER, DIGITS)`: at most this number of digits behind the point.
pub(super) fn decimal(number: f64, digits: f64) -> Value {
    let digits = count(digits).min(MAX_DIGITS);
    let text = format!("{number:.digits$}");
    let Some((whole, fraction)) = text.split_once('.') else { return text.into() };
    let fraction = fraction.trim_end_matches('0');
    format!("{whole}.{}", if fraction.is_empty() { "0" } else { fraction }).into()
}

/// `sprintf('~s has ~.2f', name, number)`, in the forms of Erlang that EMQX has.
pub(super) fn sprintf(values: &[Value]) -> Result<Value, ComputeError> {
    let Some((form, values)) = values.split_first() else { return Ok(Value::Null) };
    let form = text_of(form);
    let wrong = || ComputeError::NotForm(form.clone());
    let (mut out, mut values, mut rest) = (String::new(), values.iter(), form.as_str());
    while let Some((before, behind)) = rest.split_once('~') {
        out.push_str(before);
        let digits = behind.strip_prefix('.').map(|digits| digits.trim_start_matches(|one: char| one.is_ascii_digit()));
        let behind_digits = digits.unwrap_or(behind);
        let precision = behind[..behind.len() - behind_digits.len()].strip_prefix('.').map(str::parse);
        let precision: Option<usize> = precision.transpose().map_err(|_| wrong())?;
        let mut control = behind_digits.chars();
        let letter = control.next().ok_or_else(wrong)?;
        let mut value = || values.next().ok_or_else(wrong);
        match letter {
            '~' => out.push('~'),
            'n' => out.push('\n'),
            's' | 'p' | 'w' if precision.is_none() => out.push_str(&text_of(value()?)),
            'b' | 'B' | 'd' if precision.is_none() => drop(write!(out, "{:.0}", number_of(value()?)?.trunc())),
            'f' => drop(write!(out, "{:.*}", precision.unwrap_or(6).min(MAX_DIGITS), number_of(value()?)?)),
            _ => return Err(wrong()),
        }
        if out.len() > MAX_RESULT {
            return Err(ComputeError::TooLong);
        }
        rest = control.as_str();
    }
    out.push_str(rest);
    if values.next().is_some() { Err(wrong()) } else { bounded(out) }
}
