//! Times. A day has 86,400 seconds, as in Unix time.

use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock, Unix milliseconds.
pub(crate) fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The first millisecond of the year 0.
const FIRST: i64 = -62_167_219_200_000;
/// The last millisecond of the year 9999.
const LAST: i64 = 253_402_300_799_999;
/// Milliseconds of a day.
const DAY: i64 = 86_400_000;
/// Days of 400 years, after which the calendar repeats itself.
const DAYS_OF_ERA: i64 = 146_097;
/// Days from 1 March of the year 0 to 1970.
const DAYS_BEFORE_UNIX: i64 = 719_468;

/// Unix milliseconds as `2026-01-02T03:04:05.678Z`.
pub fn rfc3339(millis: u64) -> String {
    written(i64::try_from(millis).unwrap_or(LAST).min(LAST))
}

/// The same, also before 1970; nothing where the year is not 0 to 9999.
pub(crate) fn rfc3339_of(millis: i64) -> Option<String> {
    (FIRST..=LAST).contains(&millis).then(|| written(millis))
}

fn written(millis: i64) -> String {
    let ((year, month, day), of_day) = (date_of(millis.div_euclid(DAY)), millis.rem_euclid(DAY));
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// A time of RFC 3339 in Unix nanoseconds; negative before 1970. Nothing when the text is no such time.
pub(crate) fn nanoseconds_of(text: &str) -> Option<i128> {
    let (date, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.strip_prefix(['T', 't', ' '])?.split_at_checked(8)?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let days = days_of(year, month, day);
    let is_there = date_of(days) == (year, month, day) && (1..=12).contains(&month);
    if !is_there || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|one: char| !one.is_ascii_digit())?),
        None => ("0", rest),
    };
    let fraction: i128 = format!("{fraction:0<9}").get(..9).filter(|_| !fraction.is_empty())?.parse().ok()?;
    // Unix time has no leap seconds.
    let of_day = (hour * 60 + minute - minutes_east(zone)?) * 60 + second.min(59);
    Some(i128::from(days * (DAY / 1_000) + of_day) * 1_000_000_000 + fraction)
}

/// The minutes of a zone, such as `Z` or `-03:30`.
pub(crate) fn minutes_east(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = zone.strip_prefix('+').map(|rest| (1, rest)).or_else(|| Some((-1, zone.strip_prefix('-')?)))?;
    let [hours, minutes] = numbers(rest, ':', [2, 2])?;
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 60 + minutes))
}

/// Numbers with these numbers of digits.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let (mut numbers, mut parts) = ([0; N], text.split(between));
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits && part.bytes().all(|one| one.is_ascii_digit()))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

/// The days from 1970 to a date. Years begin in March here, so that a leap day is the last of its year.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * DAYS_OF_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - DAYS_BEFORE_UNIX
}

/// The date of a day after 1970: year, month and day.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_UNIX;
    let (era, of_era) = (days.div_euclid(DAYS_OF_ERA), days.rem_euclid(DAYS_OF_ERA));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let place = (5 * of_year + 2) / 153;
    let month = if place < 10 { place + 3 } else { place - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * place + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_written_time_is_read_as_the_same(millis in FIRST..=LAST) {
            let text = rfc3339_of(millis).unwrap();
            prop_assert_eq!(nanoseconds_of(&text), Some(i128::from(millis) * 1_000_000), "{}", text);
        }

        #[test]
        fn no_text_breaks_the_reader(text in ".{0,40}") {
            nanoseconds_of(&text);
        }
    }

    #[test]
    fn times_agree_with_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29t23:59:59z", 951_868_799),
            ("2026-03-01 00:00:01+00:00", 1_772_323_201),
            ("1969-07-20T20:17:40Z", -14_182_940),
            ("1985-04-12T23:20:50-03:30", 482_208_650),
            ("1990-12-31T23:59:60Z", 662_687_999),
            ("0000-03-01T00:00:00Z", -62_162_035_200),
        ] {
            assert_eq!(nanoseconds_of(text), Some(seconds * 1_000_000_000), "{text}");
        }
        assert_eq!(nanoseconds_of("1970-01-01T00:00:00.0000000019Z"), Some(1));
        assert_eq!(rfc3339(u64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!((rfc3339_of(FIRST - 1), rfc3339_of(LAST + 1)), (None, None));
    }

    #[test]
    fn a_text_that_is_no_time_is_refused() {
        for text in [
            "",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:61Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.5",
            "2026-01-01T00:00:00+1:00",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00Zx",
            "+026-01-01T00:00:00Z",
        ] {
            assert_eq!(nanoseconds_of(text), None, "{text}");
        }
    }
}
