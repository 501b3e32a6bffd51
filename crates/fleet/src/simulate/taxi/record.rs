//! One line of the data set.

use std::fmt;

use super::calendar::{date, days_since_1970, length};

/// The position of a taxi at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaxiRecord {
    /// The taxi's number.
    pub taxi: u32,
    /// Microseconds since 1970-01-01 00:00 UTC.
    pub time_us: i64,
    /// Degrees north.
    pub latitude: f64,
    /// Degrees east.
    pub longitude: f64,
}

/// A line that is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not three parts.
    #[error("not three parts separated by `;`")]
    Parts,
    /// The first part.
    #[error("the taxi is not a number")]
    Taxi,
    /// The second part.
    #[error("the time is not written as 2014-02-01 00:00:00.739166+01")]
    Time,
    /// The third part.
    #[error("the place is not written as POINT(latitude longitude)")]
    Place,
    /// The third part, with numbers that are no place.
    #[error("the latitude is not within -90 to 90, or the longitude not within -180 to 180")]
    OffTheMap,
    /// The third part, the wrong way round.
    #[error("latitude and longitude are swapped: the latitude, about 42 in Rome, comes first")]
    Swapped,
}

impl TaxiRecord {
    /// Reads a line, without its end.
    ///
    /// # Errors
    /// When it is not a record.
    pub fn parse(line: &str) -> Result<Self, RecordError> {
        let mut parts = line.trim().split(';');
        let (Some(taxi), Some(time), Some(place), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(RecordError::Parts);
        };
        let taxi = taxi.trim().parse().map_err(|_| RecordError::Taxi)?;
        let time_us = time_us(time.trim()).ok_or(RecordError::Time)?;
        let (latitude, longitude) = point(place.trim()).ok_or(RecordError::Place)?;
        if !(-90.0..=90.0).contains(&latitude) || !(-180.0..=180.0).contains(&longitude) {
            return Err(RecordError::OffTheMap);
        }
        // No position of the data set is near the equator south of Libya, where swapped pairs are.
        if (11.0..14.0).contains(&latitude) && (40.0..44.0).contains(&longitude) {
            return Err(RecordError::Swapped);
        }
        Ok(Self { taxi, time_us, latitude, longitude })
    }
}

fn point(text: &str) -> Option<(f64, f64)> {
    let inside = text.strip_prefix("POINT(")?.strip_suffix(')')?;
    let (latitude, longitude) = inside.trim().split_once(' ')?;
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    Some((number(latitude)?, number(longitude)?))
}

fn time_us(text: &str) -> Option<i64> {
    let (day, rest) = text.split_once([' ', 'T'])?;
    let mut parts = day.splitn(3, '-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let zone = rest.find(['+', '-', 'Z'])?;
    let (clock, zone) = rest.split_at(zone);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.splitn(3, ':').map(digits);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let sound = (1900..=2200).contains(&year) && (1..=12).contains(&month) && (1..=length(year, month)).contains(&day);
    if !sound || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone_s(zone)?;
    Some(seconds * 1_000_000 + microseconds(fraction)?)
}

/// Any number of digits; the first six count.
fn microseconds(fraction: &str) -> Option<i64> {
    digits(fraction.get(..fraction.len().min(9))?)?;
    if fraction.len() > 12 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits(&format!("{fraction:0<6}")[..6])
}

/// `+01`, `+01:00`, `+0100` or `Z`, in seconds east.
fn zone_s(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let (sign, offset) = zone.split_at_checked(1)?;
    let offset = offset.replace(':', "");
    let (hours, minutes) = match offset.len() {
        2 => (offset.as_str(), "0"),
        4 => offset.split_at_checked(2)?,
        _ => return None,
    };
    let seconds = digits(hours)? * 3600 + digits(minutes)? * 60;
    Some(if sign == "-" { -seconds } else { seconds })
}

/// Digits alone, at most 9 of them.
fn digits(text: &str) -> Option<i64> {
    let sound = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    if sound { text.parse().ok() } else { None }
}

impl fmt::Display for TaxiRecord {
    /// As the data set writes it: an hour east of UTC, and no more digits of the second than are needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local_us = self.time_us + 3_600_000_000;
        let (seconds, fraction) = (local_us.div_euclid(1_000_000), local_us.rem_euclid(1_000_000));
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(f, "{};{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}", self.taxi)?;
        if fraction > 0 {
            write!(f, ".{}", format!("{fraction:06}").trim_end_matches('0'))?;
        }
        write!(f, "+01;POINT({} {})", self.latitude, self.longitude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "156;2014-02-01 00:00:00.739166+01;POINT(41.8836718276551 12.4877775603346)";

    #[test]
    fn the_latitude_comes_first_and_the_zone_counts() {
        let record = TaxiRecord::parse(LINE).unwrap();
        assert_eq!((record.taxi, record.latitude, record.longitude), (156, 41.883_671_827_655_1, 12.487_777_560_334_6));
        // 2014-01-31 23:00:00.739166 UTC.
        assert_eq!(record.time_us, 1_391_209_200_739_166);
        assert_eq!(record.to_string(), LINE);
    }

    #[test]
    fn fractions_have_as_many_digits_as_they_need() {
        let at = |time: &str| {
            TaxiRecord::parse(&format!("1;2014-02-01 01:00:00{time};POINT(41.9 12.5)")).map(|it| it.time_us)
        };
        let start = 1_391_212_800_000_000;
        assert_eq!(at("+01"), Ok(start));
        assert_eq!(at(".5+01"), Ok(start + 500_000));
        assert_eq!(at(".05+01:00"), Ok(start + 50_000));
        assert_eq!(at(".123456789+0100"), Ok(start + 123_456));
        assert_eq!(at("Z"), Ok(start + 3_600_000_000));
        assert_eq!(at(".5"), Err(RecordError::Time));
        assert_eq!(at(".x+01"), Err(RecordError::Time));
        let half = TaxiRecord { taxi: 1, time_us: start + 500_000, latitude: 41.9, longitude: 12.5 };
        assert_eq!(half.to_string(), "1;2014-02-01 01:00:00.5+01;POINT(41.9 12.5)");
    }

    #[test]
    fn lines_that_are_no_records_are_named() {
        let problem = |line: &str| TaxiRecord::parse(line).unwrap_err();
        assert_eq!(problem("156,2014"), RecordError::Parts);
        assert_eq!(problem(&LINE.replace("156", "x")), RecordError::Taxi);
        assert_eq!(problem(&LINE.replace("-02-01", "-02-30")), RecordError::Time);
        assert_eq!(problem(&LINE.replace("POINT", "PLACE")), RecordError::Place);
        assert_eq!(problem(&LINE.replace("41.88", "91.88")), RecordError::OffTheMap);
        assert_eq!(problem("1;2014-02-01 01:00:00+01;POINT(12.48 41.88)"), RecordError::Swapped);
    }
}
