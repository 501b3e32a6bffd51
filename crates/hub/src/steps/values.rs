//! Values: their kinds, their order, and their forms as numbers and texts.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::error::ComputeError;

/// An element by its number, from 1, or from the end below 0.
pub(super) fn element(items: &[Value], at: i64) -> Option<&Value> {
    let back = usize::try_from(at.unsigned_abs()).ok()?;
    match at.cmp(&0) {
        Ordering::Greater => items.get(back - 1),
        Ordering::Less => items.get(items.len().checked_sub(back)?),
        Ordering::Equal => None,
    }
}

/// The elements from one number to another one, which count as in [`element`].
pub(super) fn elements(items: &[Value], from: i64, to: i64) -> Value {
    let len = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let place = |at: i64| if at < 0 { len.saturating_add(at).saturating_add(1) } else { at };
    let (from, to) = (place(from).max(1), place(to).min(len));
    let range = usize::try_from(from - 1).ok().zip(usize::try_from(to).ok()).map(|(from, to)| from..to);
    range.and_then(|range| items.get(range)).unwrap_or_default().iter().cloned().collect()
}

/// How many values it has: itself, and all within it.
pub(super) fn count(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        Value::Array(elements) => 1 + elements.iter().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// A value as text; text without quotes.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// How two values stand to each other. A text is compared with a number as a number, and with a truth value as its text.
pub(super) fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
        },
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        (Value::Number(_), Value::String(text)) => order(left, &number_in(text)?),
        (Value::String(text), Value::Number(_)) => order(&number_in(text)?, right),
        (Value::Bool(one), Value::String(text)) => Some(truth(*one).cmp(text)),
        (Value::String(text), Value::Bool(other)) => Some(text.as_str().cmp(truth(*other))),
        _ => (left == right).then_some(Ordering::Equal),
    }
}

/// The number that a text says.
fn number_in(text: &str) -> Option<Value> {
    let text = text.trim();
    let whole = text.parse::<i64>().ok().map(Value::from);
    whole.or_else(|| Number::from_f64(text.parse().ok()?).map(Value::Number))
}

const fn truth(truth: bool) -> &'static str {
    if truth { "true" } else { "false" }
}

/// A number, also from a text.
pub(super) fn number_of(value: &Value) -> Result<f64, ComputeError> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        _ => None,
    };
    number.ok_or_else(|| ComputeError::Kind { needed: "a number is needed", found: kind(value) })
}

/// The kind of a value and its beginning, for people.
pub(super) fn kind(value: &Value) -> String {
    let text: String = value.to_string().chars().take(40).collect();
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => format!("the truth value {text}"),
        Value::Number(_) => format!("the number {text}"),
        Value::String(_) => format!("the text {text}"),
        Value::Array(_) => format!("the array {text}"),
        Value::Object(_) => format!("the object {text}"),
    }
}

/// A number as a value, whole where it was computed of whole ones.
pub(super) fn real(number: f64) -> Result<Value, ComputeError> {
    Number::from_f64(number).map(Value::Number).ok_or(ComputeError::NotFinite)
}

/// A number without a fraction, as a whole one.
pub(super) fn whole(number: f64) -> Result<Value, ComputeError> {
    // Beyond it a real number cannot say each whole one.
    if number.abs() < 9e15 { Ok(Value::from(number as i64)) } else { real(number) }
}
