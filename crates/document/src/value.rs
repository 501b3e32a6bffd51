//! Conversion of TOML values.

use toml::Spanned;
use toml::de::DeValue;

/// Entries that a list may have.
const MAX_ENTRIES: usize = 256;

pub(super) fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A finite number, with or without a fraction.
pub fn float(value: &DeValue<'_>) -> Option<f64> {
    let text = match value {
        DeValue::Float(number) => number.as_str(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        _ => return None,
    };
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

pub(super) fn truth(value: &DeValue<'_>) -> Option<bool> {
    value.as_bool()
}

pub(super) fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    if let Some(text) = value.as_str() {
        return Some(vec![text.to_owned()]);
    }
    let list = value.as_array()?;
    if list.len() > MAX_ENTRIES {
        return None;
    }
    list.iter().map(|element| element.get_ref().as_str().map(str::to_owned)).collect()
}

/// Each text with its place; `offset` is the place of the value.
pub(super) fn texts_with_places(value: &DeValue<'_>, offset: usize) -> Option<Vec<(String, usize)>> {
    if let Some(text) = value.as_str() {
        return Some(vec![(text.to_owned(), offset)]);
    }
    let text =
        |element: &Spanned<DeValue<'_>>| element.get_ref().as_str().map(|text| (text.to_owned(), element.span().start));
    value.as_array()?.iter().map(text).collect()
}

pub(super) fn text_table(value: &DeValue<'_>) -> Option<Vec<(String, String)>> {
    let table = value.as_table()?;
    if table.len() > MAX_ENTRIES {
        return None;
    }
    table.iter().map(|(name, value)| Some((name.get_ref().to_string(), value.get_ref().as_str()?.to_owned()))).collect()
}
