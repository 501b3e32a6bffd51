//! Keys of another broker: the outcome of each, and whether it restricts access.

use tidegate_conversion::Value;

use crate::entry::Entry;

/// Why a value of another broker cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("{0:?} is neither true nor false")]
    Truth(String),
    #[error("{0:?} is no number")]
    Number(String),
    #[error("{0:?} is no QoS")]
    Qos(String),
    #[error("{0:?} is no size")]
    Size(String),
    #[error("{0:?} is no number of seconds")]
    Seconds(String),
    #[error("{0:?} is no duration")]
    Duration(String),
}

/// A value of ours, with the difference if there is one.
pub(crate) type Translated = Result<(Value, Option<String>), ValueError>;

/// How a key is treated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// The broker's module puts it together with others.
    Part,
    /// A key of a section that occurs once.
    Broker(&'static str, &'static str, fn(&Entry) -> Translated),
    /// A key of each listener.
    EveryListener(&'static str, fn(&Entry) -> Translated),
    /// It restricts nothing, and the result does it in another way.
    Changed,
    /// It restricts nothing, and the result lacks it.
    Refused,
    /// It restricts access and cannot be carried over: all listeners are left out, unless it has this value.
    ClosesUnless(&'static str),
}

/// A key of another broker.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its path: `*` is any rest of a name, `**` any further names.
    pub pattern: &'static str,
    /// Whether it restricts who may connect, publish or subscribe.
    pub restricts: bool,
    /// The outcome, for people.
    pub how: &'static str,
    pub(crate) rule: Rule,
}

impl Key {
    /// Its usual outcome.
    pub fn outcome(&self) -> &'static str {
        match self.rule {
            Rule::Part | Rule::Broker(..) | Rule::EveryListener(..) => "carried",
            Rule::Changed => "changed",
            Rule::Refused => "refused",
            Rule::ClosesUnless(_) => "refused; all listeners are left out",
        }
    }
}

pub(crate) const fn part(pattern: &'static str, how: &'static str) -> Key {
    Key { pattern, restricts: true, how, rule: Rule::Part }
}

pub(crate) const fn changed(pattern: &'static str, how: &'static str) -> Key {
    Key { pattern, restricts: false, how, rule: Rule::Changed }
}

pub(crate) const fn refused(pattern: &'static str, how: &'static str) -> Key {
    Key { pattern, restricts: false, how, rule: Rule::Refused }
}

/// `harmless` is the value with which it restricts nothing; empty for none.
pub(crate) const fn closes(pattern: &'static str, harmless: &'static str, how: &'static str) -> Key {
    Key { pattern, restricts: true, how, rule: Rule::ClosesUnless(harmless) }
}

pub(crate) const fn broker(
    pattern: &'static str,
    section: &'static str,
    ours: &'static str,
    with: fn(&Entry) -> Translated,
    how: &'static str,
) -> Key {
    Key { pattern, restricts: false, how, rule: Rule::Broker(section, ours, with) }
}

pub(crate) const fn every(
    pattern: &'static str,
    ours: &'static str,
    with: fn(&Entry) -> Translated,
    how: &'static str,
) -> Key {
    Key { pattern, restricts: false, how, rule: Rule::EveryListener(ours, with) }
}

pub(crate) fn truth(entry: &Entry) -> Translated {
    let truth = entry.truth().ok_or_else(|| ValueError::Truth(entry.value.clone()))?;
    Ok((Value::Truth(truth), None))
}

/// A number in this range; a text such as `infinity` is the most.
pub(crate) fn number(entry: &Entry, least: u64, most: u64) -> Translated {
    let word = entry.value.trim();
    let asked = match word {
        "infinity" | "unlimited" => most,
        _ => word.parse::<u64>().map_err(|_| ValueError::Number(word.to_owned()))?,
    };
    Ok(within(asked, least, most))
}

fn within(asked: u64, least: u64, most: u64) -> (Value, Option<String>) {
    let nearest = asked.clamp(least, most);
    (Value::Number(nearest), (nearest != asked).then(|| format!("{nearest} is the nearest that is taken here")))
}

/// Connections; 0 is no limit here.
pub(crate) fn connections(entry: &Entry) -> Translated {
    match entry.value.trim() {
        "infinity" | "unlimited" | "-1" => Ok((Value::Number(0), None)),
        _ => number(entry, 1, 10_000_000),
    }
}

pub(crate) fn qos(entry: &Entry) -> Translated {
    match entry.value.trim() {
        "0" => Ok((Value::Number(0), None)),
        "1" => Ok((Value::Number(1), None)),
        "2" => Ok((Value::Number(2), None)),
        other => Err(ValueError::Qos(other.to_owned())),
    }
}

pub(crate) fn in_flight(entry: &Entry) -> Translated {
    number(entry, 1, 65_535)
}

/// Queued messages; 0 and `infinity` are no limit there.
pub(crate) fn queued(entry: &Entry) -> Translated {
    match entry.value.trim() {
        "0" | "-1" => Ok((Value::Number(1_000_000_000), None)),
        _ => number(entry, 1, 1_000_000_000),
    }
}

pub(crate) fn levels(entry: &Entry) -> Translated {
    number(entry, 1, 1_024)
}

pub(crate) fn aliases(entry: &Entry) -> Translated {
    number(entry, 0, 65_535)
}

/// A size such as `1MB`, `260 KB` or a number of bytes; 0 is no limit there.
pub(crate) fn packet_size(entry: &Entry) -> Translated {
    const MOST: u64 = 268_435_455;
    let bytes = bytes(&entry.value)?;
    let asked = if bytes == 0 { MOST } else { bytes };
    let nearest = asked.clamp(20, MOST);
    let changed = (nearest != asked).then(|| format!("{nearest} bytes is the nearest that is taken here"));
    Ok((Value::Text(format!("{nearest}B")), changed))
}

fn bytes(text: &str) -> Result<u64, ValueError> {
    let text = text.trim();
    let wrong = || ValueError::Size(text.to_owned());
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).ok_or_else(wrong)
}

/// Seconds as a duration of ours.
pub(crate) fn seconds(entry: &Entry) -> Translated {
    match entry.value.trim().parse::<u32>() {
        Ok(seconds) => Ok((Value::Text(format!("{seconds}s")), None)),
        Err(_) => Err(ValueError::Seconds(entry.value.clone())),
    }
}

/// A duration such as `5s` or a number of milliseconds as a duration of ours, within a range of milliseconds.
pub(crate) fn duration(entry: &Entry, least_ms: u64, most_ms: u64) -> Translated {
    duration_in(entry, 1, least_ms, most_ms)
}

/// The same for a number whose default unit is this number of milliseconds.
pub(crate) fn duration_in(entry: &Entry, unit_ms: u64, least_ms: u64, most_ms: u64) -> Translated {
    let text = entry.value.trim();
    let wrong = || ValueError::Duration(text.to_owned());
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (count, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim() {
        "" => unit_ms,
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let asked = count.parse::<u64>().ok().and_then(|count| count.checked_mul(factor)).ok_or_else(wrong)?;
    let nearest = asked.clamp(least_ms, most_ms);
    let changed = (nearest != asked).then(|| format!("{nearest} ms is the nearest that is taken here"));
    Ok((Value::Text(format!("{nearest}ms")), changed))
}
