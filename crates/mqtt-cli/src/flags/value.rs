//! Values of flags, and their faults.

use std::time::Duration;

use tidegate_client::{QoS, RetainHandling, Version};

/// The fault of the flags as a whole; clap reports the fault of a single one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(String);

impl UsageError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Why the value of one flag is refused; clap names the flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    /// No QoS of MQTT.
    #[error("the QoS is 0, 1 or 2")]
    Qos,
    /// No version of MQTT that the client speaks.
    #[error("the version is 5, 311 or 31")]
    Version,
    /// No version of TLS that the client speaks.
    #[error("the version is tlsv1.2 or tlsv1.3; older ones are not safe")]
    TlsVersion,
    /// No time.
    #[error("a number of seconds, such as 2 or 0.5")]
    Seconds,
    /// No expiry interval.
    #[error("0 to 4294967295 seconds, or -1 for ever")]
    Expiry,
    /// No handling of retained messages.
    #[error("retained messages are sent always, new or never")]
    RetainHandling,
    /// No percentage, or one out of range.
    #[error("a percentage from 0.1 to 100")]
    Percentage,
}

/// `0`, `1` or `2`.
pub(crate) fn parse_qos(text: &str) -> Result<QoS, ValueError> {
    let number = text.parse().ok();
    number.and_then(QoS::from_bits).ok_or(ValueError::Qos)
}

/// `5`, `311`, `31`, or one of these after `mqttv`.
pub(super) fn parse_version(text: &str) -> Result<Version, ValueError> {
    match text.strip_prefix("mqttv").unwrap_or(text) {
        "5" => Ok(Version::V5),
        "311" => Ok(Version::V311),
        "31" => Ok(Version::V31),
        _ => Err(ValueError::Version),
    }
}

/// Seconds that need not be whole.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, ValueError> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or(ValueError::Seconds)
}

/// Seconds, or `-1` and `∞` for ever.
pub(super) fn parse_expiry(text: &str) -> Result<u32, ValueError> {
    match text {
        "-1" | "∞" => Ok(u32::MAX),
        number => number.parse().map_err(|_| ValueError::Expiry),
    }
}

/// `always`, `new` or `never`.
pub(crate) fn parse_retain_handling(text: &str) -> Result<RetainHandling, ValueError> {
    match text {
        "always" => Ok(RetainHandling::SendAtSubscribe),
        "new" => Ok(RetainHandling::SendIfNew),
        "never" => Ok(RetainHandling::DoNotSend),
        _ => Err(ValueError::RetainHandling),
    }
}

/// A percentage from 0.1 to 100.
pub(crate) fn parse_percentage(text: &str) -> Result<f64, ValueError> {
    match text.parse::<f64>() {
        Ok(chance) if (0.1..=100.0).contains(&chance) => Ok(chance),
        _ => Err(ValueError::Percentage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(parse_qos("2"), Ok(QoS::ExactlyOnce));
        assert!(parse_qos("3").is_err() && parse_qos("-1").is_err() && parse_qos("").is_err());
        assert_eq!(parse_version("mqttv311"), Ok(Version::V311));
        assert_eq!(parse_version("5"), Ok(Version::V5));
        assert!(parse_version("4").is_err());
        assert_eq!(parse_seconds("0.25"), Ok(Duration::from_millis(250)));
        assert!(parse_seconds("-1").is_err() && parse_seconds("nan").is_err() && parse_seconds("1e99").is_err());
        assert_eq!(parse_expiry("-1"), Ok(u32::MAX));
        assert_eq!(parse_expiry("∞"), Ok(u32::MAX));
        assert_eq!(parse_expiry("60"), Ok(60));
        assert!(parse_expiry("4294967296").is_err() && parse_expiry("-2").is_err());
        assert_eq!(parse_percentage("0.1"), Ok(0.1));
        assert!(parse_percentage("0").is_err() && parse_percentage("101").is_err());
    }
}
