//! Values of theirs as values of ours.

use tidegate_conversion::Value;

use crate::lines::Line;

/// A translated value, and its difference.
pub(crate) struct Translated {
    pub(crate) value: Value,
    /// Why it differs from the original.
    pub(crate) changed: Option<String>,
}

/// Why Mosquitto does not start with a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Invalid {
    #[error("it has no value")]
    Missing,
    #[error("{0:?} is neither true nor false")]
    Truth(String),
    #[error("{0:?} is no number")]
    Number(String),
    #[error("Mosquitto 2.0 reads {0:?} as another number than 2.1; write it in decimal digits")]
    TwoReadings(String),
    #[error("{0} is out of range")]
    Range(i64),
    #[error("{number} is not from {least} to {most}")]
    Bounds { number: i64, least: i64, most: i64 },
    #[error("{0} is no QoS")]
    Qos(i64),
    #[error("{0:?} is no number of s, h, d, w, m (months) or y")]
    Expiration(String),
    /// A text with more bytes than this limit.
    #[error("its value has more than {0} bytes")]
    TextLength(usize),
    #[error("its value has the control character {0:?}")]
    Character(char),
    #[error("{0:?} is no port")]
    Port(String),
    #[error("{0:?} is neither ipv4 nor ipv6")]
    Domain(String),
    #[error("either certificates or pre-shared keys")]
    TwoProofs,
    #[error("{0:?} is no version of TLS")]
    TlsVersion(String),
    #[error("it is no SHA-1 in hexadecimal")]
    Hash,
}

/// A value that says the same.
fn exactly(value: Value) -> Translated {
    Translated { value, changed: None }
}

/// A truth as Mosquitto reads it.
pub(crate) fn truth(line: &Line<'_>) -> Result<bool, Invalid> {
    match line.word() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        other => Err(Invalid::Truth(other.to_owned())),
    }
}

pub(crate) fn boolean(line: &Line<'_>) -> Result<Translated, Invalid> {
    Ok(exactly(Value::Truth(truth(line)?)))
}

/// The number that a word begins with, as C's `atoi` reads it; `None` without a digit.
pub(crate) fn leading_number(word: &str) -> Option<i64> {
    let word = word.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let signed = word.get(..word.len() - digits.len() + end)?;
    (end > 0).then(|| signed.parse().unwrap_or(if signed.starts_with('-') { i64::MIN } else { i64::MAX }))
}

/// Refuses a word that both versions of Mosquitto take for a number, and not for the same: 2.1 reads `0x10` and `010` as C
/// has them, 2.0 the decimal digits at the beginning.
pub(crate) fn read_alike(word: &str) -> Result<(), Invalid> {
    let unsigned = word.trim_start().trim_start_matches(['-', '+']);
    let of_c = match unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16),
        None if unsigned.starts_with('0') => i64::from_str_radix(unsigned, 8),
        None => return Ok(()),
    };
    let differs = of_c.is_ok_and(|number| leading_number(unsigned) != Some(number));
    if differs { Err(Invalid::TwoReadings(word.to_owned())) } else { Ok(()) }
}

/// A number as Mosquitto reads it: the beginning of the first word. A word without a number is an error here.
fn number(line: &Line<'_>) -> Result<i64, Invalid> {
    let word = line.word();
    read_alike(word)?;
    leading_number(word).ok_or_else(|| Invalid::Number(word.to_owned()))
}

/// A number within our range, or the nearest.
fn within(number: u64, least: u64, most: u64) -> (u64, Option<String>) {
    let nearest = number.clamp(least, most);
    (nearest, (nearest != number).then(|| format!("{nearest} is the nearest that is taken here")))
}

fn bounded(line: &Line<'_>, none: Option<u64>, least: u64, most: u64) -> Result<Translated, Invalid> {
    let asked = number(line)?;
    let Ok(asked @ 1..) = u64::try_from(asked) else {
        let none = none.ok_or(Invalid::Range(asked))?;
        return Ok(exactly(Value::Number(none)));
    };
    let (value, changed) = within(asked, least, most);
    Ok(Translated { value: Value::Number(value), changed })
}

/// Connections of a listener or the broker; -1 is no limit there, 0 here.
pub(crate) fn connections(line: &Line<'_>) -> Result<Translated, Invalid> {
    bounded(line, Some(0), 1, 10_000_000)
}

pub(crate) fn sessions(line: &Line<'_>) -> Result<Translated, Invalid> {
    bounded(line, Some(0), 1, 100_000_000)
}

pub(crate) fn qos(line: &Line<'_>) -> Result<Translated, Invalid> {
    match number(line)? {
        qos @ 0..=2 => Ok(exactly(Value::Number(qos.unsigned_abs()))),
        other => Err(Invalid::Qos(other)),
    }
}

pub(crate) fn aliases(line: &Line<'_>) -> Result<Translated, Invalid> {
    bounded(line, Some(0), 0, 65_535)
}

pub(crate) fn aliases_out(line: &Line<'_>) -> Result<Translated, Invalid> {
    bounded(line, Some(0), 0, 1_024)
}

/// 0 is no limit there; there is always one here.
pub(crate) fn in_flight(line: &Line<'_>) -> Result<Translated, Invalid> {
    bounded(line, Some(65_535), 1, 65_535)
}

pub(crate) fn queued(line: &Line<'_>) -> Result<Translated, Invalid> {
    bounded(line, Some(1_000_000_000), 1, 1_000_000_000)
}

fn size(line: &Line<'_>, none: Option<u64>, least: u64, most: u64) -> Result<Translated, Invalid> {
    let translated = bounded(line, none, least, most)?;
    let Value::Number(bytes) = translated.value else { return Ok(translated) };
    Ok(Translated { value: Value::Text(format!("{bytes}B")), changed: translated.changed })
}

pub(crate) fn packet_size(line: &Line<'_>) -> Result<Translated, Invalid> {
    size(line, Some(268_435_455), 20, 268_435_455)
}

pub(crate) fn queued_bytes(line: &Line<'_>) -> Result<Translated, Invalid> {
    size(line, Some(1 << 40), 1_024, 1 << 40)
}

pub(crate) fn memory(line: &Line<'_>) -> Result<Translated, Invalid> {
    size(line, Some(0), 1 << 20, 16 << 40)
}

/// A payload; 0 is no limit.
pub(crate) fn payload(line: &Line<'_>) -> Result<Translated, Invalid> {
    size(line, Some(0), 1, 268_435_455)
}

/// The treatment of MQTT 3 clients beyond `max_keepalive`; their CONNACK has no field for it.
const LONGER_KEEP_ALIVE: &str =
    "MQTT 3 clients that ask for more are held to it; Mosquitto 2.1 refuses them, as `keep_alive_refuse = true` does";

pub(crate) fn keep_alive(line: &Line<'_>) -> Result<Translated, Invalid> {
    let asked = number(line)?;
    let seconds = u16::try_from(asked).map_err(|_| Invalid::Range(asked))?;
    if seconds == u16::MAX {
        return Ok(exactly(Value::Text("0s".to_owned())));
    }
    let changed = (seconds > 0).then(|| LONGER_KEEP_ALIVE.to_owned());
    Ok(Translated { value: Value::Text(format!("{seconds}s")), changed })
}

pub(crate) fn seconds(line: &Line<'_>) -> Result<Translated, Invalid> {
    let asked = number(line)?;
    let asked = u64::try_from(asked).map_err(|_| Invalid::Range(asked))?;
    let (seconds, changed) = within(asked, 0, 24 * 3_600);
    Ok(Translated { value: Value::Text(format!("{seconds}s")), changed })
}

/// Seconds of an hour.
const HOUR: u64 = 3_600;

/// A number of seconds (from 2.1 on), hours, days, weeks, months (of 30 days) or years (of 365).
pub(crate) fn expiration(line: &Line<'_>) -> Result<Translated, Invalid> {
    let word = line.word();
    let refusal = || Invalid::Expiration(word.to_owned());
    let (number, unit) = word.split_at_checked(word.len().saturating_sub(1)).ok_or_else(refusal)?;
    let seconds: u64 = match unit {
        "s" => 1,
        "h" => HOUR,
        "d" => HOUR * 24,
        "w" => HOUR * 24 * 7,
        "m" => HOUR * 24 * 30,
        "y" => HOUR * 24 * 365,
        _ => return Err(refusal()),
    };
    // Mosquitto takes no time of 0 either.
    let number = leading_number(number).and_then(|number| u32::try_from(number).ok());
    let number = number.filter(|number| *number > 0).ok_or_else(refusal)?;
    let (seconds, changed) = within(u64::from(number) * seconds, 0, 1_193_046 * HOUR);
    let text = if seconds % HOUR == 0 { format!("{}h", seconds / HOUR) } else { format!("{seconds}s") };
    Ok(Translated { value: Value::Text(text), changed })
}
