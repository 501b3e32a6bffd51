//! Values of a rule's keys.

use tidegate_document::{Keys, Value};
use tidegate_mqtt::QoS;

use crate::effect::QosSet;
use crate::limits::{MAX_VALUE_BYTES, MAX_VALUES_PER_CONDITION};
use crate::rule::Name;

/// The values of a condition.
pub(super) fn names(keys: &mut Keys<'_>, key: &str) -> Option<Box<[Name]>> {
    let texts = keys.texts_with_places(key, MAX_VALUES_PER_CONDITION)?;
    let mut name = |(text, offset): (String, usize)| {
        let (message, fix) = if text.is_empty() {
            let fix = "name one, or write `anonymous = true` for clients without a user name";
            (format!("`{key}` has an empty value"), fix)
        } else if text.len() > MAX_VALUE_BYTES {
            (format!("`{key}` has a value of more than {MAX_VALUE_BYTES} bytes"), "shorten it, with `*` for the rest")
        } else if text.strip_suffix('*').unwrap_or(&text).contains('*') {
            let message = format!("`{key}` has a `*` that is not at the end of its value");
            (message, "write the beginning and one `*`, or the whole value")
        } else {
            return Some(Name::new(&text));
        };
        keys.note(offset, message, fix);
        None
    };
    texts.into_iter().map(&mut name).collect()
}

/// The highest QoS, or a list of levels.
pub(super) fn qos(keys: &mut Keys<'_>) -> Option<QosSet> {
    let set = keys.value("qos", "0, 1 or 2 for the highest QoS, or a list of levels such as [0, 1]", |value| {
        let Some(list) = value.as_array() else {
            let highest = level(value)?;
            let all = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
            return Some(
                all.into_iter().filter(|level| *level as u8 <= highest as u8).fold(QosSet::NONE, QosSet::with),
            );
        };
        list.iter().try_fold(QosSet::NONE, |set, value| Some(set.with(level(value.get_ref())?)))
    })?;
    if set == QosSet::NONE {
        keys.refuse("qos", "is empty", "name at least one level, or leave the key out");
    }
    Some(set)
}

fn level(value: &Value<'_>) -> Option<QoS> {
    let number = value.as_integer()?;
    match i64::from_str_radix(number.as_str(), number.radix()).ok()? {
        0 => Some(QoS::AtMostOnce),
        1 => Some(QoS::AtLeastOnce),
        2 => Some(QoS::ExactlyOnce),
        _ => None,
    }
}

/// `true` or `false`; `"any"` asks for nothing.
pub(super) fn retain(keys: &mut Keys<'_>) -> Option<bool> {
    let wanted = keys.value("retain", "true, false or \"any\"", |value| match value {
        Value::Boolean(true) => Some(Retain::Only),
        Value::Boolean(false) => Some(Retain::Never),
        Value::String(text) if text == "any" => Some(Retain::Any),
        _ => None,
    })?;
    match wanted {
        Retain::Only => Some(true),
        Retain::Never => Some(false),
        Retain::Any => None,
    }
}

/// The messages of a rule by their retain flag.
enum Retain {
    Only,
    Never,
    Any,
}
