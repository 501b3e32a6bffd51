//! Values of flags as people write them.

use std::time::Duration;

use tidegate_units::duration;

/// Why the value of a flag is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlagError {
    /// It is no length of time.
    #[error("`{0}` is no length of time: write 15s, 2m or 1h 30m")]
    Time(String),
    /// It has parts of a second.
    #[error("`{0}` is no whole number of seconds")]
    Seconds(String),
    /// It is no fraction.
    #[error("`{0}` is no fraction: write a number from 0 to 1, such as 0.7, or a percentage, such as 70%")]
    Fraction(String),
    /// It is no signal with its full value.
    #[error(
        "`{0}` is no signal: write cpu, message_rate=N, queue_depth=N, waiting=TIME, drops=N or memory=SIZE, with N above 0"
    )]
    Signal(String),
}

/// `15s`, `1h 30m`, or a plain number of seconds.
pub(super) fn time(text: &str) -> Result<Duration, FlagError> {
    let millis = text.parse::<u32>().map(|seconds| u64::from(seconds) * 1000).ok().or_else(|| duration::parse(text));
    millis.map(Duration::from_millis).ok_or_else(|| FlagError::Time(text.to_owned()))
}

/// The same, without parts of a second.
pub(super) fn seconds(text: &str) -> Result<u64, FlagError> {
    let time = time(text)?;
    if time.subsec_nanos() == 0 { Ok(time.as_secs()) } else { Err(FlagError::Seconds(text.to_owned())) }
}

/// `0.7` or `70%`, which are the same. A number above 1 needs its `%`: `1.5` may be meant as 150 % as well as 1.5 %.
pub(super) fn fraction(text: &str) -> Result<f64, FlagError> {
    let problem = || FlagError::Fraction(text.to_owned());
    let (digits, percent) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
    let number: f64 = digits.trim().parse().map_err(|_| problem())?;
    let fraction = if percent { number / 100.0 } else { number };
    if (0.0..=1.0).contains(&fraction) { Ok(fraction) } else { Err(problem()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_or_are_seconds() {
        assert_eq!(time("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(time("1h 30m"), Ok(Duration::from_secs(5400)));
        assert!(time("-1").is_err() && time("soon").is_err());
        assert_eq!(seconds("2m"), Ok(120));
        assert!(seconds("1500ms").is_err());
    }

    #[test]
    fn fractions_may_be_percents() {
        let read = ["0.5", "50%", "1", "1.5%"].map(fraction);
        assert_eq!(read, [Ok(0.5), Ok(0.5), Ok(1.0), Ok(0.015)]);
        for text in ["1.5", "50", "150%", "-0.1", "x", "NaN"] {
            assert!(fraction(text).is_err(), "{text}");
        }
    }
}
