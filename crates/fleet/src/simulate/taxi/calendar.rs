//! Days of the Gregorian calendar, without a library: dates of the format are plain.

/// Days since 1970-01-01.
pub(super) fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
pub(super) fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// Days of a month.
pub(super) fn length(year: i64, month: i64) -> i64 {
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_since_1970(next.0, next.1, 1) - days_since_1970(year, month, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_agree() {
        assert_eq!(days_since_1970(1970, 1, 1), 0);
        assert_eq!(days_since_1970(2014, 2, 1), 16_102);
        assert_eq!(days_since_1970(2000, 2, 29), 11_016);
        for days in (-200_000..200_000).step_by(37) {
            let (year, month, day) = date(days);
            assert_eq!(days_since_1970(year, month, day), days);
            assert!((1..=length(year, month)).contains(&day));
        }
    }
}
