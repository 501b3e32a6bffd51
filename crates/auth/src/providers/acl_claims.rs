//! The rights of a client in tokens and answers of servers. Two common forms are accepted: `{"pub": ["a/#"], "sub":
//! ["b/#"], "all": ["c"]}`, and a list of rules `{"permission": "allow", "action": "publish", "topic": "a/#", "qos":
//! [0, 1], "retain": true}`, where the first that matches decides.

use serde_json::Value;

use crate::decision::{AclAction, AclClaims, AclRule, Identity};

/// Longest topic filter, in bytes.
const MAX_FILTER_LEN: usize = 65_535;

/// Why rules are not accepted. Nothing of a token's text is repeated beyond a shortened name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClaimError {
    #[error("rules are neither an object nor a list")]
    NoRules,
    #[error("there are {count} rules; at most {} are taken", Identity::MAX_RULES)]
    TooMany { count: usize },
    #[error("rules have no list `{0}`")]
    UnknownList(String),
    #[error("`{0}` is no list")]
    NoList(String),
    #[error("a rule is no object")]
    NoObject,
    #[error("a rule has no field `{0}`")]
    UnknownField(String),
    #[error("`permission` of a rule is neither allow nor deny")]
    Permission,
    #[error("`action` of a rule is neither publish nor subscribe nor all")]
    Action,
    #[error("a topic of a rule is no text")]
    NoTopic,
    #[error("a topic of a rule is empty, too long or contains U+0000")]
    InvalidTopic,
    #[error("`qos` of a rule is not 0, 1, 2 or a list of them")]
    Qos,
    #[error("`retain` of a rule is neither true nor false nor all")]
    Retain,
}

/// Reads rules.
///
/// # Errors
/// When any part is invalid: an incomplete list of rights is worse than none.
pub(super) fn parse(value: &Value) -> Result<AclClaims, ClaimError> {
    let rules = match value {
        Value::Object(lists) => from_lists(lists)?,
        Value::Array(rules) => {
            bounded(rules.len())?;
            rules.iter().map(rule).collect::<Result<_, _>>()?
        }
        _ => return Err(ClaimError::NoRules),
    };
    Ok(AclClaims { rules })
}

fn bounded(count: usize) -> Result<(), ClaimError> {
    if count > Identity::MAX_RULES { Err(ClaimError::TooMany { count }) } else { Ok(()) }
}

fn from_lists(lists: &serde_json::Map<String, Value>) -> Result<Vec<AclRule>, ClaimError> {
    let mut rules = Vec::new();
    for (name, filters) in lists {
        let action = match name.as_str() {
            "pub" => AclAction::Publish,
            "sub" => AclAction::Subscribe,
            "all" => AclAction::All,
            other => return Err(ClaimError::UnknownList(shortened(other))),
        };
        let filters = filters.as_array().ok_or_else(|| ClaimError::NoList(shortened(name)))?;
        bounded(rules.len() + filters.len())?;
        for filter in filters {
            let (filter, literal) = topic(Some(filter))?;
            rules.push(AclRule { allow: true, action, filter, literal, qos: [true; 3], retain: None });
        }
    }
    Ok(rules)
}

fn rule(value: &Value) -> Result<AclRule, ClaimError> {
    let fields = value.as_object().ok_or(ClaimError::NoObject)?;
    let known = ["permission", "action", "topic", "qos", "retain"];
    if let Some(other) = fields.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(ClaimError::UnknownField(shortened(other)));
    }
    let allow = match fields.get("permission").and_then(Value::as_str) {
        Some("allow") => true,
        Some("deny") => false,
        _ => return Err(ClaimError::Permission),
    };
    let action = match fields.get("action").and_then(Value::as_str) {
        Some("publish") => AclAction::Publish,
        Some("subscribe") => AclAction::Subscribe,
        Some("all") => AclAction::All,
        _ => return Err(ClaimError::Action),
    };
    let (filter, literal) = topic(fields.get("topic"))?;
    let (qos, retain) = (qos(fields.get("qos"))?, retain(fields.get("retain"))?);
    Ok(AclRule { allow, action, filter, literal, qos, retain })
}

/// A filter, and whether it is meant literally: `eq ` before it says so.
fn topic(value: Option<&Value>) -> Result<(String, bool), ClaimError> {
    let text = value.and_then(Value::as_str).ok_or(ClaimError::NoTopic)?;
    let (text, literal) = text.strip_prefix("eq ").map_or((text, false), |text| (text, true));
    if text.is_empty() || text.len() > MAX_FILTER_LEN || text.contains('\0') {
        return Err(ClaimError::InvalidTopic);
    }
    Ok((text.to_owned(), literal))
}

fn qos(value: Option<&Value>) -> Result<[bool; 3], ClaimError> {
    let mut qos = [false; 3];
    let list = match value {
        None | Some(Value::Null) => return Ok([true; 3]),
        Some(Value::Array(list)) => list.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    for one in list {
        let level = one.as_u64().or_else(|| one.as_str()?.parse().ok());
        let place = level.and_then(|level| usize::try_from(level).ok()).and_then(|level| qos.get_mut(level));
        *place.ok_or(ClaimError::Qos)? = true;
    }
    Ok(qos)
}

fn retain(value: Option<&Value>) -> Result<Option<bool>, ClaimError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(retain)) => Ok(Some(*retain)),
        Some(Value::String(text)) if text == "all" => Ok(None),
        Some(Value::String(text)) if text == "true" => Ok(Some(true)),
        Some(Value::String(text)) if text == "false" => Ok(Some(false)),
        Some(_) => Err(ClaimError::Retain),
    }
}

/// A name for the log: external input must not fill it.
fn shortened(text: &str) -> String {
    text.chars().take(32).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_allow_their_topics() {
        let claims = parse(&json!({"pub": ["a/%c"], "all": ["eq b/#"]})).unwrap();
        let all = AclRule {
            allow: true,
            action: AclAction::All,
            filter: "b/#".to_owned(),
            literal: true,
            qos: [true; 3],
            retain: None,
        };
        let publish = AclRule { action: AclAction::Publish, filter: "a/%c".to_owned(), literal: false, ..all.clone() };
        assert_eq!(claims.rules, [all, publish]);
    }

    #[test]
    fn rules_keep_their_order_and_their_conditions() {
        let claims = parse(&json!([
            {"permission": "allow", "action": "publish", "topic": "a", "qos": [0, "2"], "retain": false},
            {"permission": "deny", "action": "all", "topic": "#"},
        ]))
        .unwrap();
        assert_eq!(claims.rules.iter().map(|rule| rule.allow).collect::<Vec<_>>(), [true, false]);
        assert_eq!(claims.rules[0].qos, [true, false, true]);
        assert_eq!(claims.rules[0].retain, Some(false));
        assert_eq!(claims.rules[1].action, AclAction::All);
    }

    #[test]
    fn invalid_claims_are_refused_as_a_whole() {
        for wrong in [
            json!("a"),
            json!({"pub": "a"}),
            json!({"publish": ["a"]}),
            json!({"pub": [""]}),
            json!([{"permission": "allow", "action": "publish"}]),
            json!([{"permission": "maybe", "action": "publish", "topic": "a"}]),
            json!([{"permission": "allow", "action": "publish", "topic": "a", "qos": 3}]),
            json!([{"permission": "allow", "action": "publish", "topic": "a", "retain": 1}]),
            json!([{"permission": "allow", "action": "publish", "topic": "a", "ip": "127.0.0.1"}]),
        ] {
            assert!(parse(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn too_many_rules_are_refused() {
        let filters = vec!["a"; Identity::MAX_RULES];
        assert!(parse(&json!({"pub": filters})).is_ok());
        assert!(parse(&json!({"pub": filters, "sub": ["b"]})).is_err());
    }
}
