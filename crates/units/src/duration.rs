//! Lengths of time with a unit, such as `"30s"`.

use std::time::Duration;

/// The units in which a length is written, the longest first, in milliseconds.
const UNITS: &[(&str, u64)] = &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The length of a text such as `"90s"` or `"1h 30m"`, in whole milliseconds; `None` for an invalid text, zero for a
/// bare 0. A finer length is invalid: it would be truncated.
pub fn parse_length(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    humantime::parse_duration(text).ok().filter(|length| length.subsec_nanos() % 1_000_000 == 0)
}

/// The same in milliseconds.
pub fn parse(text: &str) -> Option<u64> {
    u64::try_from(parse_length(text)?.as_millis()).ok()
}

/// An invalid length of time in a flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no length of time: write 500ms, 15s or 1h 30m")]
pub struct LengthError(String);

/// [`parse_length`] for flags of a command line.
///
/// # Errors
/// When the text is invalid.
pub fn read_flag(text: &str) -> Result<Duration, LengthError> {
    parse_length(text).ok_or_else(|| LengthError(text.to_owned()))
}

/// The text of a length, without the part below a millisecond, in the longest unit that divides it.
pub fn show_length(length: Duration) -> String {
    show(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

/// The text of a number of milliseconds, in the longest unit that divides them.
pub fn show(millis: u64) -> String {
    let unit = UNITS.iter().find(|(_, length)| millis != 0 && millis.is_multiple_of(*length));
    match unit {
        Some((name, length)) => format!("{}{name}", millis / length),
        None => format!("{millis}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        assert_eq!(parse("500ms"), Some(500));
        assert_eq!(parse("30s"), Some(30_000));
        assert_eq!(parse("1h 30m"), Some(5_400_000));
        assert_eq!(parse("7d"), Some(604_800_000));
        assert_eq!(parse("1.5s"), Some(1_500));
        assert_eq!(parse("0"), Some(0));
        assert_eq!(parse("0s"), Some(0));
    }

    #[test]
    fn text_without_a_unit_or_too_fine_is_refused() {
        for text in ["30", "", "s", "-1s", "10 parsecs", "100us"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_shown_value_reads_as_the_same() {
        for millis in [0, 1, 999, 1_000, 1_500, 60_000, 90_000, 86_400_000, 86_401_000] {
            assert_eq!(parse(&show(millis)), Some(millis));
        }
        assert_eq!(show(0), "0s");
        assert_eq!(show(90_000), "90s");
        assert_eq!(show(300_000), "5m");
    }
}
