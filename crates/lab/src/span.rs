//! Times and sizes as people write them in files: `30s`, `1h 30m`, `64MiB`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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
            Written::Text(text) => humantime::parse_duration(&text)
                .map(Self)
                .map_err(|error| de::Error::custom(format!("`{text}` is no time such as \"30s\": {error}"))),
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
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self(number)),
            Written::Text(text) => parse_bytes(&text)
                .map(Self)
                .ok_or_else(|| de::Error::custom(format!("`{text}` is no size such as \"64MiB\""))),
        }
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.trim().trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let unit = match text.trim().strip_prefix(digits)?.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(parse_bytes("64MiB"), Some(64 << 20));
        assert_eq!(parse_bytes("1 GiB"), Some(1 << 30));
        assert_eq!(parse_bytes("17"), Some(17));
        assert_eq!(parse_bytes("64MB"), None, "a unit that means two things is refused");
        assert_eq!(parse_bytes("99999999999GiB"), None);
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
