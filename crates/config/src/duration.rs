//! Lengths of time with a unit, such as `"30s"`.

/// The units in which a length is written, the longest first, in milliseconds.
const UNITS: &[(&str, u64)] = &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Milliseconds of a text such as `"90s"` or `"1h 30m"`; `None` when it is no duration, `Some(0)` for a bare 0.
pub fn parse(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let length = humantime::parse_duration(text).ok()?;
    // A length that is finer than a millisecond would be cut in silence.
    let whole = length.subsec_nanos() % 1_000_000 == 0;
    u64::try_from(length.as_millis()).ok().filter(|_| whole)
}

/// The text of so many milliseconds, in the longest unit that divides them.
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
    fn what_has_no_unit_or_is_too_fine_is_refused() {
        for text in ["30", "", "s", "-1s", "10 parsecs", "100us"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_as_the_same() {
        for millis in [0, 1, 999, 1_000, 1_500, 60_000, 90_000, 86_400_000, 86_401_000] {
            assert_eq!(parse(&show(millis)), Some(millis));
        }
        assert_eq!(show(0), "0s");
        assert_eq!(show(90_000), "90s");
        assert_eq!(show(300_000), "5m");
    }
}
