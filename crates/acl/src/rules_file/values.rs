//! Values of a rule's keys.

use toml::Spanned;
use toml::de::DeValue;

use tidegate_mqtt::QoS;

use super::Fault;
use crate::effect::QosSet;
use crate::limits::{MAX_VALUE_BYTES, MAX_VALUES_PER_CONDITION};
use crate::rule::Name;

pub(super) type Value<'text> = Spanned<DeValue<'text>>;

/// `true` or `false`.
pub(super) fn truth(key: &str, value: &Value<'_>) -> Result<bool, Fault> {
    match value.get_ref() {
        DeValue::Boolean(truth) => Ok(*truth),
        _ => Err(Fault::new(
            value.span().start,
            format!("`{key}` must be true or false"),
            format!("write `{key} = true` or `{key} = false`"),
        )),
    }
}

/// One text or a list of at least one, each with its place; at most `limit`.
pub(super) fn texts<'a>(key: &str, value: &'a Value<'_>, limit: usize) -> Result<Vec<(&'a str, usize)>, Fault> {
    let fix = || format!("write `{key} = [\"...\"]`");
    let text = |value: &'a Value<'_>| match value.get_ref() {
        DeValue::String(text) => Ok((text.as_ref(), value.span().start)),
        _ => Err(Fault::new(value.span().start, format!("`{key}` must be text or a list of texts"), fix())),
    };
    let DeValue::Array(list) = value.get_ref() else {
        return text(value).map(|one| vec![one]);
    };
    if list.is_empty() {
        return Err(Fault::new(
            value.span().start,
            format!("`{key}` is empty"),
            "name at least one, or leave the key out",
        ));
    }
    if list.len() > limit {
        let message = format!("`{key}` has {} values, more than {limit}", list.len());
        return Err(Fault::new(value.span().start, message, "use placeholders or split the rule"));
    }
    list.iter().map(text).collect()
}

/// The values of a condition.
pub(super) fn names(key: &str, value: &Value<'_>) -> Result<Box<[Name]>, Fault> {
    let name = |(text, offset): (&str, usize)| {
        if text.is_empty() {
            let fix = "name one, or write `anonymous = true` for clients without a user name";
            return Err(Fault::new(offset, format!("`{key}` has an empty value"), fix));
        }
        if text.len() > MAX_VALUE_BYTES {
            let message = format!("`{key}` has a value of more than {MAX_VALUE_BYTES} bytes");
            return Err(Fault::new(offset, message, "shorten it, with `*` for the rest"));
        }
        if text.strip_suffix('*').unwrap_or(text).contains('*') {
            let message = format!("`{key}` has a `*` that is not at the end of its value");
            return Err(Fault::new(offset, message, "write the beginning and one `*`, or the whole value"));
        }
        Ok(Name::new(text))
    };
    texts(key, value, MAX_VALUES_PER_CONDITION)?.into_iter().map(name).collect()
}

/// The highest QoS, or a list of levels.
pub(super) fn qos(value: &Value<'_>) -> Result<QosSet, Fault> {
    let level = |value: &Value<'_>| {
        let number = match value.get_ref() {
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        match number {
            Some(0) => Ok(QoS::AtMostOnce),
            Some(1) => Ok(QoS::AtLeastOnce),
            Some(2) => Ok(QoS::ExactlyOnce),
            _ => Err(Fault::new(
                value.span().start,
                "`qos` must be 0, 1 or 2, or a list of them",
                "write the highest as in `qos = 1`, or levels as in `qos = [0, 1]`",
            )),
        }
    };
    let DeValue::Array(list) = value.get_ref() else {
        let highest = level(value)?;
        let all = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
        return Ok(all.into_iter().filter(|level| *level as u8 <= highest as u8).fold(QosSet::NONE, QosSet::with));
    };
    if list.is_empty() {
        return Err(Fault::new(value.span().start, "`qos` is empty", "name at least one level, or leave the key out"));
    }
    list.iter().try_fold(QosSet::NONE, |set, value| Ok(set.with(level(value)?)))
}

/// `true`, `false` or `"any"`.
pub(super) fn retain(value: &Value<'_>) -> Result<Option<bool>, Fault> {
    match value.get_ref() {
        DeValue::Boolean(truth) => Ok(Some(*truth)),
        DeValue::String(text) if text == "any" => Ok(None),
        _ => Err(Fault::new(
            value.span().start,
            "`retain` must be true, false or \"any\"",
            "write `retain = false` for messages that are not to be retained",
        )),
    }
}
