//! `acl.conf`: rules as terms of Erlang. The first rule that matches decides, as here.

use crate::draft::Draft;
use crate::entry::Entry;
use crate::erlang::{Term, TermError, parse};
use crate::expression;
use crate::rule::{AccessRule, Action, Rules, everything};

/// Why a statement is no rule.
#[derive(Debug, thiserror::Error)]
enum RuleError {
    #[error(transparent)]
    Term(#[from] TermError),
    #[error("it is no rule of the form {{allow | deny, WHO, ACTION, TOPICS}}")]
    Form,
}

/// A condition of a rule that is not checked here.
#[derive(Debug, thiserror::Error)]
enum Unchecked {
    #[error("the placeholder of {0:?} is not known")]
    Placeholder(String),
    #[error("conditions about other attributes are not asked")]
    Attribute,
    #[error("rules by address are not asked")]
    Address,
    #[error("conditions are combined in a way that is not asked")]
    Combination,
    #[error("conditions of this kind are not asked")]
    Kind,
    #[error("the name {0:?} would stand for others")]
    NamePattern(String),
    #[error("the expression {0:?} cannot be said as names")]
    Expression(String),
}

/// Takes the rules of a file.
///
/// A rule that allows and has a condition that cannot be asked here is left out. One that denies denies without that
/// condition, so that it opens nothing.
pub(crate) fn take(draft: &mut Draft, file: &str, text: &str, rules: &mut Rules) {
    for statement in parse(text) {
        let index = draft.report.add(Entry::text(file, statement.line, "rule", &statement.text));
        match statement.term.map_err(RuleError::from).and_then(|term| rule(&term)) {
            Ok((mut these, lacks)) => {
                let allows = these.first().is_some_and(|rule| rule.allow);
                match lacks {
                    Some(why) if allows => draft.report.refused(index, &format!("{why}: its topics are not allowed")),
                    Some(why) => {
                        draft.report.refused(index, &format!("{why}: it denies to everybody"));
                        rules.0.append(&mut these);
                    }
                    None => rules.0.append(&mut these),
                }
            }
            Err(error) => draft.closed_by(index, &error),
        }
    }
}

/// The rules that a term becomes, and a condition that they lack.
fn rule(term: &Term) -> Result<(Vec<AccessRule>, Option<Unchecked>), RuleError> {
    let Term::Tuple(parts) = term else { return Err(RuleError::Form) };
    let allow = match parts.first().and_then(Term::atom) {
        Some("allow") => true,
        Some("deny") => false,
        _ => return Err(RuleError::Form),
    };
    let mut rule = AccessRule { allow, topics: everything(), ..AccessRule::default() };
    let (who, action, topics) = match parts.as_slice() {
        [_, who] => (who, None, None),
        [_, who, action, topics] => (who, Some(action), Some(topics)),
        _ => return Err(RuleError::Form),
    };
    let mut lacks = None;
    if let Some(action) = action {
        take_action(&mut rule, action).ok_or(RuleError::Form)?;
    }
    if let Some(topics) = topics {
        let Term::List(topics) = topics else { return Err(RuleError::Form) };
        rule.topics.clear();
        for topic in topics {
            match self::topic(topic).ok_or(RuleError::Form)? {
                Ok(topic) => rule.topics.push(topic),
                Err(why) => {
                    // A denial of more topics takes its place.
                    lacks = Some(why);
                    rule.topics.push("#".to_owned());
                }
            }
        }
        if rule.topics.is_empty() {
            rule.topics = everything();
        }
    }
    let mut rules = vec![rule];
    match conditions(who) {
        Some(Ok(alternatives)) => {
            let rule = rules.remove(0);
            rules.extend(alternatives.into_iter().map(|(users, clients)| AccessRule {
                users,
                clients,
                ..rule.clone()
            }));
        }
        Some(Err(why)) => lacks = Some(why),
        None => return Err(RuleError::Form),
    }
    Ok((rules, lacks))
}

fn take_action(rule: &mut AccessRule, action: &Term) -> Option<()> {
    let (word, options) = match action {
        Term::Atom(word) => (word.as_str(), &[][..]),
        Term::Tuple(parts) => match parts.as_slice() {
            [Term::Atom(word), Term::List(options)] => (word.as_str(), options.as_slice()),
            _ => return None,
        },
        _ => return None,
    };
    rule.action = match word {
        "all" | "pubsub" => Action::All,
        "publish" => Action::Publish,
        "subscribe" => Action::Subscribe,
        _ => return None,
    };
    for option in options {
        let Term::Tuple(option) = option else { return None };
        match option.as_slice() {
            [Term::Atom(name), Term::Atom(value)] if name == "qos" => {
                rule.qos.push(value.parse().ok().filter(|qos| *qos <= 2)?);
            }
            [Term::Atom(name), Term::List(values)] if name == "qos" => {
                for value in values {
                    rule.qos.push(value.atom()?.parse().ok().filter(|qos| *qos <= 2)?);
                }
            }
            [Term::Atom(name), Term::Atom(value)] if name == "retain" => {
                rule.retain = match value.as_str() {
                    "true" => Some(true),
                    "false" => Some(false),
                    "all" => None,
                    _ => return None,
                }
            }
            _ => return None,
        }
    }
    Some(())
}

/// A topic in our words, or why it cannot be said.
fn topic(term: &Term) -> Option<Result<String, Unchecked>> {
    let (text, eq) = match term {
        Term::Text(text) => (text.as_str(), false),
        Term::Tuple(parts) => match parts.as_slice() {
            [Term::Atom(eq), Term::Text(text)] if eq == "eq" => (text.as_str(), true),
            _ => return None,
        },
        _ => return None,
    };
    let ours = text
        .replace("${cn}", "${cert.cn}")
        .replace("${cert_common_name}", "${cert.cn}")
        .replace("%u", "${username}")
        .replace("%c", "${clientid}");
    let known = ["${clientid}", "${username}", "${cert.cn}"];
    let rest = known.iter().fold(ours.clone(), |rest, known| rest.replace(known, ""));
    if rest.contains("${") || (eq && rest.len() != ours.len()) {
        return Some(Err(Unchecked::Placeholder(text.to_owned())));
    }
    Some(Ok(if eq { format!("eq {ours}") } else { ours }))
}

/// The alternatives of user names and client ids; each holds when both do. An error is a condition that is not asked
/// here, `None` an unreadable term.
type Conditions = Option<Result<Vec<(Vec<String>, Vec<String>)>, Unchecked>>;

fn conditions(who: &Term) -> Conditions {
    if who.atom() == Some("all") {
        return Some(Ok(vec![(Vec::new(), Vec::new())]));
    }
    let Term::Tuple(parts) = who else { return None };
    let [kind, value] = parts.as_slice() else {
        return Some(Err(Unchecked::Attribute));
    };
    match (kind.atom()?, value) {
        ("user" | "username", value) => Some(names(value)?.map(|names| vec![(names, Vec::new())])),
        ("client" | "clientid", value) => Some(names(value)?.map(|names| vec![(Vec::new(), names)])),
        ("ipaddr" | "ipaddrs", _) => Some(Err(Unchecked::Address)),
        ("and", Term::List(all)) => {
            let (mut users, mut clients) = (Vec::new(), Vec::new());
            for one in all {
                match conditions(one)? {
                    Ok(alternatives) => match alternatives.as_slice() {
                        [(names, ids)]
                            if (users.is_empty() || names.is_empty()) && (clients.is_empty() || ids.is_empty()) =>
                        {
                            users.extend_from_slice(names);
                            clients.extend_from_slice(ids);
                        }
                        _ => return Some(Err(Unchecked::Combination)),
                    },
                    Err(why) => return Some(Err(why)),
                }
            }
            Some(Ok(vec![(users, clients)]))
        }
        ("or", Term::List(any)) => {
            let mut alternatives = Vec::new();
            for one in any {
                match conditions(one)? {
                    Ok(more) => alternatives.extend(more),
                    Err(why) => return Some(Err(why)),
                }
            }
            Some(Ok(alternatives))
        }
        _ => Some(Err(Unchecked::Kind)),
    }
}

fn names(value: &Term) -> Option<Result<Vec<String>, Unchecked>> {
    match value {
        Term::Text(name) if name.ends_with('*') => Some(Err(Unchecked::NamePattern(name.clone()))),
        Term::Text(name) => Some(Ok(vec![name.clone()])),
        Term::Tuple(parts) => match parts.as_slice() {
            [Term::Atom(re), value] if re == "re" => {
                let text = value.text()?;
                let names = expression::parse(text).and_then(|expression| expression.names());
                Some(names.ok_or_else(|| Unchecked::Expression(text.to_owned())))
            }
            _ => None,
        },
        _ => None,
    }
}
