//! Times of the command line.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A text is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no time; write a date (2026-10-01), a time of UTC (2026-10-01T12:00), Unix seconds, or how long ago it is (24h)"
)]
pub struct TimeError(String);

/// A time in milliseconds since 1970: a date or time of UTC, one with its offset, Unix seconds, or how long ago it is.
///
/// # Errors
/// When the text has another form.
pub fn parse(text: &str) -> Result<u64, TimeError> {
    parse_at(text, Timestamp::now())
}

fn parse_at(text: &str, now: Timestamp) -> Result<u64, TimeError> {
    let millis = if text == "now" {
        Some(now.as_millisecond())
    } else if let Ok(seconds) = text.parse::<i64>() {
        seconds.checked_mul(1000)
    } else if let Ok(time) = text.parse::<Timestamp>() {
        Some(time.as_millisecond())
    } else if let Ok(time) = text.parse::<DateTime>() {
        time.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp().as_millisecond())
    } else {
        let ago = tidegate_units::duration::parse(text).and_then(|ago| i64::try_from(ago).ok());
        ago.map(|ago| now.as_millisecond().saturating_sub(ago).max(0))
    };
    millis.and_then(|millis| u64::try_from(millis).ok()).ok_or_else(|| TimeError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        for (text, seconds) in [
            ("1970-01-02", 86_400),
            ("1970-01-02T01:00", 90_000),
            ("1970-01-02 01:00:05", 90_005),
            ("1970-01-02T01:00:00Z", 90_000),
            ("1970-01-02T01:00:00+01:00", 86_400),
            ("90000", 90_000),
            ("1h", 996_400),
            ("now", 1_000_000),
        ] {
            assert_eq!(parse_at(text, now), Ok(seconds * 1000), "{text}");
        }
        for text in ["yesterday", "-5", "", "1969-01-01"] {
            assert!(parse_at(text, now).is_err(), "{text}");
        }
    }
}
