//! Times, sizes and rates as people write them in files: `30s`, `1h 30m`, `64MiB`, `100Mbit`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use tidegate_units::{duration, size};

/// A length of time, read from text such as `1m 30s` or from a number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0.as_secs_f64()
    }

    /// Longer or shorter by a factor.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self(self.0.mul_f64(factor.max(0.0)))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.seconds())
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Seconds(f64),
        }
        match Written::deserialize(deserializer)? {
            Written::Text(text) => duration::parse_length(&text)
                .map(Self)
                .ok_or_else(|| de::Error::custom(format!("`{text}` is no time such as \"30s\""))),
            Written::Seconds(seconds) => Duration::try_from_secs_f64(seconds)
                .map(Self)
                .map_err(|_| de::Error::custom(format!("{seconds} is no number of seconds"))),
        }
    }
}

/// A number of bytes, read from text such as `64MiB` or from a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_text(deserializer, size::parse, "size such as \"64MiB\"").map(Self)
    }
}

/// Bits in a second, read from text such as `100Mbit` or from a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct BitRate(pub u64);

impl BitRate {
    /// Text such as `100 Mbit/s`.
    pub fn words(self) -> String {
        match self.0 {
            bits if bits.is_multiple_of(1_000_000) => format!("{} Mbit/s", bits / 1_000_000),
            bits if bits.is_multiple_of(1_000) => format!("{} kbit/s", bits / 1_000),
            bits => format!("{bits} bit/s"),
        }
    }
}

impl<'de> Deserialize<'de> for BitRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_text(deserializer, parse_rate, "rate such as \"100Mbit\"").map(Self)
    }
}

fn parse_rate(text: &str) -> Option<u64> {
    with_unit(text, &[("bit", 1), ("kbit", 1_000), ("Mbit", 1_000_000), ("Gbit", 1_000_000_000)])
}

/// Reads a number as it is, and text as `parse` does.
fn number_or_text<'de, D: Deserializer<'de>>(
    deserializer: D,
    parse: fn(&str) -> Option<u64>,
    kind: &str,
) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }
    match Written::deserialize(deserializer)? {
        Written::Number(number) => Ok(number),
        Written::Text(text) => parse(&text).ok_or_else(|| de::Error::custom(format!("`{text}` is no {kind}"))),
    }
}

/// Reads a whole number with one of these units behind it.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.trim().trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = text.trim().strip_prefix(digits)?.trim();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    digits.trim().parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_unit() {
        assert_eq!(parse_rate("100Mbit"), Some(100_000_000));
        assert_eq!(parse_rate("64 kbit"), Some(64_000));
        assert_eq!((parse_rate("10MB"), parse_rate("64"), parse_rate("")), (None, None, None));
        assert_eq!(parse_rate("99999999999Gbit"), None);
    }

    #[test]
    fn times_are_text_or_seconds() {
        #[derive(Deserialize)]
        struct Table {
            a: Span,
            b: Span,
        }
        let table: Table = toml::from_str("a = \"1m 30s\"\nb = 0.5").unwrap();
        assert_eq!((table.a.seconds(), table.b.seconds()), (90.0, 0.5));
        assert_eq!(table.a.times(0.1), Span(Duration::from_secs(9)));
    }
}
