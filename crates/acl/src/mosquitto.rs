//! Mosquitto's acl file, read as Mosquitto 2.1 reads it.
//!
//! ```text
//! # Before the first `user` line: clients without a user name.
//! topic read public/#
//!
//! user alice
//! topic readwrite alice/#
//! topic deny alice/secret
//!
//! # All clients; a level that is `%c` is the client id, one that is `%u` the user name.
//! pattern write sensors/%u/#
//! ```
//!
//! A request is checked in this order: the denials of the client's `user` section (of the part before the first `user`
//! line for a client without a user name), the section's permissions, the denials among the patterns, the permissions
//! of patterns. A request without a match is denied. A line begins with its keyword, words are separated by spaces, a
//! `#` in the first column begins a comment, and a topic may contain spaces when its access is written before it.
//!
//! `read` is about messages, not about subscriptions: Mosquitto lets every client subscribe to every filter and looks
//! at each message before it delivers it. So do we, with one difference: a subscription that could never bring anything
//! is refused, so that its owner learns of it. `write` is about publishing.
//!
//! If the client id or the user name contains `+` or `#`, no pattern allows the client anything. If it contains `/`, is
//! empty, or would make a pattern begin with `$`, no allowing pattern matches and every denying pattern does
//! (CVE-2017-7650).

use std::sync::Arc;

use crate::effect::{Effect, QosSet, Subscribing};
use crate::error::{FilePosition, LoadError, RuleProblem, Warning, text};
use crate::limits::MAX_RULES;
use crate::pattern::{Pattern, PatternError};
use crate::rule::{Actions, Name, Rule, RuleRef, Who};

/// Problems after which the rest of a file is not looked at.
const MAX_PROBLEMS: usize = 20;

/// The rules of a file, by the order in which they are asked.
#[derive(Default)]
struct Sections {
    deny: Vec<Rule>,
    allow: Vec<Rule>,
    pattern_deny: Vec<Rule>,
    pattern_allow: Vec<Rule>,
    /// The first line with a pattern.
    first_pattern: Option<u32>,
}

struct Parser<'a> {
    file: &'a Arc<str>,
    /// The user whose section it is.
    user: Option<&'a str>,
    sections: Sections,
    warnings: Vec<Warning>,
}

/// Reads a file. An empty one has no rules, which denies everything.
pub(crate) fn parse(file: &Arc<str>, bytes: &[u8]) -> Result<(Vec<Rule>, Vec<Warning>), LoadError> {
    let text = text(file, bytes)?;
    let mut parser = Parser { file, user: None, sections: Sections::default(), warnings: Vec::new() };
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(text.split('\n')) {
        let line = line.trim_end_matches(|c: char| c.is_ascii_whitespace());
        if let Err(problem) = parser.line(number, line) {
            problems.push(problem);
        }
        if problems.len() == MAX_PROBLEMS {
            break;
        }
        if number as usize > MAX_RULES && parser.sections.len() > MAX_RULES {
            return Err(LoadError::TooMany { file: Arc::clone(file) });
        }
    }
    if problems.is_empty() {
        Ok((parser.sections.in_order(file), parser.warnings))
    } else {
        Err(LoadError::Wrong { problems })
    }
}

impl Sections {
    fn len(&self) -> usize {
        self.deny.len() + self.allow.len() + self.pattern_deny.len() + self.pattern_allow.len()
    }

    fn in_order(self, file: &Arc<str>) -> Vec<Rule> {
        let Self { deny, allow, pattern_deny, pattern_allow, first_pattern } = self;
        let guard = first_pattern.map(|line| Rule {
            place: RuleRef {
                file: Arc::clone(file),
                line,
                text: "patterns are not for a client id or user name with + or #".into(),
            },
            effect: Effect::Deny,
            who: Who { wild_name: true, ..Who::default() },
            actions: Actions::ALL,
            retain: None,
            qos: QosSet::ANY,
            subscribing: Subscribing::ByMessage,
            topics: Box::new([Pattern::everything()]),
        });
        deny.into_iter().chain(allow).chain(guard).chain(pattern_deny).chain(pattern_allow).collect()
    }
}

impl<'a> Parser<'a> {
    fn line(&mut self, number: u32, line: &'a str) -> Result<(), RuleProblem> {
        if line.starts_with('#') {
            return Ok(());
        }
        let Some((keyword, rest)) = word(line) else { return Ok(()) };
        match keyword {
            "topic" | "pattern" => self.rule(number, line, keyword == "pattern", rest),
            "user" => {
                let user = rest.trim_matches(|c: char| c.is_ascii_whitespace());
                if user.is_empty() {
                    let message = "the user name is missing".to_owned();
                    return Err(self.problem(number, line, "", message, "write `user NAME`"));
                }
                self.user = Some(user);
                Ok(())
            }
            other => {
                let message = format!("{other:?} is no keyword");
                let fix = if line.starts_with(' ') && other.starts_with('#') {
                    "begin a comment in the first column"
                } else {
                    "begin the line with `user`, `topic` or `pattern` and a space, or with `#` for a comment"
                };
                Err(self.problem(number, line, other, message, fix))
            }
        }
    }

    fn rule(&mut self, number: u32, line: &'a str, is_pattern: bool, rest: &'a str) -> Result<(), RuleProblem> {
        let Some((first, behind)) = word(rest) else {
            let message = "the topic is missing".to_owned();
            return Err(self.problem(number, line, "", message, "write it behind the access, as in `topic read a/#`"));
        };
        let behind = behind.trim_matches(|c: char| c.is_ascii_whitespace());
        // A single word is the topic, even when it reads like an access.
        let (access, topic) = if behind.is_empty() { ("readwrite", first) } else { (first, behind) };
        let (effect, actions) = match access {
            "read" => (Effect::Allow, Actions { publish: false, ..Actions::ALL }),
            "write" => (Effect::Allow, Actions { publish: true, ..Actions::default() }),
            "readwrite" => (Effect::Allow, Actions::ALL),
            "deny" => (Effect::Deny, Actions::ALL),
            other => {
                let message = format!("{other:?} is no access");
                let fix = "write read, write, readwrite or deny before a topic that holds spaces";
                return Err(self.problem(number, line, other, message, fix));
            }
        };
        let pattern = if is_pattern { Pattern::mosquitto(topic) } else { Pattern::plain(topic) };
        let pattern = pattern.map_err(|error| self.wrong_topic(number, line, topic, error))?;
        if is_pattern && pattern.is_plain() {
            self.warn_of_plain_pattern(number, line, topic);
        }
        let rule = Rule {
            place: RuleRef { file: Arc::clone(self.file), line: number, text: self.text(line, is_pattern) },
            effect,
            who: self.who(is_pattern),
            actions,
            retain: None,
            qos: QosSet::ANY,
            subscribing: Subscribing::ByMessage,
            topics: Box::new([pattern]),
        };
        if is_pattern {
            self.sections.first_pattern.get_or_insert(number);
        }
        let sections = &mut self.sections;
        let section = match (is_pattern, effect) {
            (false, Effect::Deny) => &mut sections.deny,
            (false, Effect::Allow) => &mut sections.allow,
            (true, Effect::Deny) => &mut sections.pattern_deny,
            (true, Effect::Allow) => &mut sections.pattern_allow,
        };
        section.push(rule);
        Ok(())
    }

    /// The line as it is shown, with its user where that is not to be seen in it.
    fn text(&self, line: &str, is_pattern: bool) -> Box<str> {
        match self.user {
            Some(user) if !is_pattern => format!("{line} (user {user})").into(),
            None if !is_pattern => format!("{line} (no user name)").into(),
            _ => line.into(),
        }
    }

    fn who(&self, is_pattern: bool) -> Who {
        match self.user {
            _ if is_pattern => Who::default(),
            Some(user) => Who { users: Some(Box::new([Name::Exactly(user.into())])), ..Who::default() },
            None => Who { anonymous: Some(true), ..Who::default() },
        }
    }

    fn warn_of_plain_pattern(&mut self, number: u32, line: &str, topic: &str) {
        let message = if topic.contains("%c") || topic.contains("%u") {
            "`%c` and `%u` are replaced only when they are a whole level; this one is taken literally"
        } else {
            "this pattern has neither `%c` nor `%u`, so it holds for all clients"
        };
        let place = self.place(number, line, topic);
        self.warnings.push(Warning { place, message: message.to_owned() });
    }

    fn wrong_topic(&self, number: u32, line: &str, topic: &str, error: PatternError) -> RuleProblem {
        self.problem(number, line, topic, error.to_string(), error.fix())
    }

    fn problem(&self, number: u32, line: &str, part: &str, message: String, fix: &str) -> RuleProblem {
        RuleProblem { place: self.place(number, line, part), message, fix: fix.to_owned() }
    }

    /// The place of a part of a line; its end when the part is empty.
    fn place(&self, number: u32, line: &str, part: &str) -> FilePosition {
        let offset = if part.is_empty() { line.len() } else { line.rfind(part).unwrap_or_default() };
        FilePosition { line: number, ..FilePosition::of(self.file, line, offset) }
    }
}

/// The first word of a line and the rest of the line.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(' ');
    if text.is_empty() {
        return None;
    }
    Some(text.split_once(' ').unwrap_or((text, "")))
}
