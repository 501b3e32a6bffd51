//! Times of certificates as seconds since 1970.

use std::ops::Range;

/// Days since 1970-01-01 of a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Reads `YYMMDDHHMMSSZ` (`UTCTime`) or `YYYYMMDDHHMMSSZ` (`GeneralizedTime`), the only forms that certificates use
/// [RFC 5280, section 4.1.2.5].
pub fn parse(text: &[u8]) -> Option<i64> {
    let digits = text.strip_suffix(b"Z")?;
    let number = |range: Range<usize>| {
        let part = digits.get(range)?;
        part.iter().try_fold(0_i64, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
    };
    let (year, rest) = match digits.len() {
        12 => (number(0..2).map(|year| if year < 50 { 2000 + year } else { 1900 + year })?, 2),
        14 => (number(0..4)?, 4),
        _ => return None,
    };
    let part = |position: usize| number(rest + 2 * position..rest + 2 * position + 2);
    let (month, day) = (part(0)?, part(1)?);
    let (hour, minute, second) = (part(2)?, part(3)?, part(4)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn both_forms_are_read() {
        assert_eq!(parse(b"700101000000Z"), Some(0));
        assert_eq!(parse(b"19700101000000Z"), Some(0));
        assert_eq!(parse(b"000229123456Z"), Some(951_827_696));
        assert_eq!(parse(b"20240301000000Z"), Some(1_709_251_200));
        assert_eq!(parse(b"491231235959Z"), Some(2_524_607_999));
        assert_eq!(parse(b"500101000000Z"), Some(-631_152_000));
        assert_eq!(parse(b"99991231235959Z"), Some(253_402_300_799));
    }

    #[test]
    fn other_text_is_no_time() {
        for text in
            [&b""[..], b"Z", b"700101000000", b"7001010000Z", b"70010100000xZ", b"701301000000Z", b"700100000000Z"]
        {
            assert_eq!(parse(text), None);
        }
        for text in [b"700101240000Z", b"700101006000Z", b"700101000060Z"] {
            assert_eq!(parse(text), None, "a part of the time of day is out of its range");
        }
    }
}
