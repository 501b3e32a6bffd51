//! Rules of access as ours, in the order in which they are asked.

use std::fmt::Write;

use tidegate_conversion::quoted;

/// The subject of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Action {
    #[default]
    All,
    Publish,
    Subscribe,
}

impl Action {
    const fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
        }
    }
}

/// A rule. An empty list is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessRule {
    pub(crate) allow: bool,
    pub(crate) action: Action,
    pub(crate) users: Vec<String>,
    pub(crate) clients: Vec<String>,
    pub(crate) certificate: Vec<String>,
    pub(crate) anonymous: Option<bool>,
    pub(crate) retain: Option<bool>,
    pub(crate) qos: Vec<u8>,
    pub(crate) topics: Vec<String>,
}

/// Rules; the first that applies decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules(pub(crate) Vec<AccessRule>);

/// The topics of a rule about all of them.
pub(crate) fn everything() -> Vec<String> {
    ["#", "$SYS/#"].map(str::to_owned).to_vec()
}

impl Rules {
    /// Whether a rule is about clients with some user names.
    pub(crate) fn names_users(&self) -> bool {
        self.0.iter().any(|rule| !rule.users.is_empty() || rule.topics.iter().any(|it| it.contains("${username}")))
    }

    /// Their text, with the default behind them.
    pub(crate) fn text(&self, default_allow: bool) -> String {
        let last = AccessRule { allow: default_allow, topics: everything(), ..AccessRule::default() };
        let mut text = String::new();
        for rule in self.0.iter().chain([&last]) {
            let _ = write!(text, "\n[[rule]]\nallow = {}\n", rule.allow);
            for (key, values) in
                [("users", &rule.users), ("clients", &rule.clients), ("certificate", &rule.certificate)]
            {
                if !values.is_empty() {
                    let _ = writeln!(text, "{key} = {}", list(values));
                }
            }
            if let Some(anonymous) = rule.anonymous {
                let _ = writeln!(text, "anonymous = {anonymous}");
            }
            if rule.action != Action::All {
                let _ = writeln!(text, "actions = [\"{}\"]", rule.action.word());
            }
            if let Some(retain) = rule.retain {
                let _ = writeln!(text, "retain = {retain}");
            }
            if !rule.qos.is_empty() {
                let _ = writeln!(text, "qos = {:?}", rule.qos);
            }
            let _ = writeln!(text, "topics = {}", list(&rule.topics));
        }
        text
    }
}

/// A list of texts for a rule.
fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}
