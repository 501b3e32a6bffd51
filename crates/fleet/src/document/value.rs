//! Conversion of TOML values.

use toml::de::DeValue;

/// Entries that a list may have.
const MAX_ENTRIES: usize = 256;

pub(super) fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

pub(super) fn float(value: &DeValue<'_>) -> Option<f64> {
    let text = match value {
        DeValue::Float(number) => number.as_str(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        _ => return None,
    };
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Units of memory, the smallest first.
const UNITS: [(&str, u64); 5] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// `512MiB` in bytes; `None` for an invalid size.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let split = text.find(|first: char| !first.is_ascii_digit())?;
    let (number, unit) = (&text[..split], text[split..].trim_start());
    let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The same with the largest unit that makes it a whole number.
pub(super) fn show_bytes(bytes: u64) -> String {
    let fitting = UNITS.into_iter().rev().find(|(_, factor)| bytes.is_multiple_of(*factor));
    fitting.map_or_else(|| bytes.to_string(), |(unit, factor)| format!("{}{unit}", bytes / factor))
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

pub(super) fn text_table(value: &DeValue<'_>) -> Option<Vec<(String, String)>> {
    let table = value.as_table()?;
    if table.len() > MAX_ENTRIES {
        return None;
    }
    table.iter().map(|(name, value)| Some((name.get_ref().to_string(), value.get_ref().as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit() {
        assert_eq!(bytes("512MiB"), Some(512 << 20));
        assert_eq!(bytes("2 GiB"), Some(2 << 30));
        assert_eq!(bytes("7B").map(show_bytes).as_deref(), Some("7B"));
        assert_eq!(show_bytes(1 << 50), "1024TiB");
        for text in ["", "512", "MiB", "1.5GiB", "-1MiB", "1MB", "99999999999TiB"] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
