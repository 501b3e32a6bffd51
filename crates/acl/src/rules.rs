//! All rules in their order.

use std::collections::HashMap;
use std::sync::Arc;

use crate::effect::{Effect, RuleId};
use crate::error::{FilePosition, LoadError, Warning};
use crate::limits::MAX_RULES;
use crate::rule::{Name, Rule, RuleRef};
use crate::subject::Subject;
use crate::{mosquitto, rules_file};

/// The rules of a broker. The first rule that applies decides; without one, the default does.
#[derive(Debug, Default)]
pub struct Rules {
    list: Box<[Rule]>,
    default: Effect,
    /// Rules for single user names, by these.
    by_user: HashMap<Box<str>, Vec<u32>>,
    /// All other rules.
    general: Vec<u32>,
}

/// Puts rules together from files, in the order in which they are to be asked.
#[derive(Debug, Default)]
pub struct RulesBuilder {
    list: Vec<Rule>,
    warnings: Vec<Warning>,
}

impl RulesBuilder {
    /// No rules yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the rules of a rules file; see [`rules_file`].
    ///
    /// # Errors
    /// When the file has any error; no rule is then added.
    pub fn rules_file(&mut self, name: &str, bytes: &[u8]) -> Result<(), LoadError> {
        let name: Arc<str> = name.into();
        let rules = rules_file::parse(&name, bytes)?;
        self.add(&name, rules)
    }

    /// Adds the rules of Mosquitto's acl file; see [`mosquitto`].
    ///
    /// # Errors
    /// When the file has any error; no rule is then added.
    pub fn mosquitto_file(&mut self, name: &str, bytes: &[u8]) -> Result<(), LoadError> {
        let name: Arc<str> = name.into();
        let (rules, mut warnings) = mosquitto::parse(&name, bytes)?;
        self.add(&name, rules)?;
        self.warnings.append(&mut warnings);
        Ok(())
    }

    fn add(&mut self, name: &Arc<str>, mut rules: Vec<Rule>) -> Result<(), LoadError> {
        if self.list.len() + rules.len() > MAX_RULES {
            return Err(LoadError::TooMany { file: Arc::clone(name) });
        }
        self.list.append(&mut rules);
        Ok(())
    }

    /// Warns of each name of a listener or a tenant in a rule that does not exist: for it the rule holds for no client.
    pub fn warn_of_unknown_names(&mut self, listeners: &[String], tenants: &[String]) {
        for rule in &self.list {
            let Some(more) = &rule.who.more else { continue };
            for (kind, named, existing) in
                [("listener", &more.listeners, listeners), ("tenant", &more.tenants, tenants)]
            {
                let is_unknown = |name: &&Name| !existing.iter().any(|other| name.is(other));
                for name in named.iter().flatten().filter(is_unknown) {
                    let place = FilePosition { file: Arc::clone(&rule.place.file), line: rule.place.line, column: 1 };
                    let message = format!("there is no {kind} `{name}`, so the rule holds for no client of it");
                    self.warnings.push(Warning { place, message });
                }
            }
        }
    }

    /// The warnings about the files.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The rules; `default` decides requests that no rule covers.
    pub fn build(self, default: Effect) -> Rules {
        let mut rules = Rules { list: self.list.into(), default, ..Rules::default() };
        for (id, rule) in (0..).zip(&rules.list) {
            match single_users(rule) {
                Some(users) => {
                    for user in users {
                        let ids = rules.by_user.entry(user.into()).or_default();
                        // A name that is written twice in one rule counts once.
                        if ids.last() != Some(&id) {
                            ids.push(id);
                        }
                    }
                }
                None => rules.general.push(id),
            }
        }
        rules
    }
}

/// The user names for which alone a rule holds, if it says so.
fn single_users(rule: &Rule) -> Option<Vec<&str>> {
    let users = rule.who.users.as_ref()?;
    users
        .iter()
        .map(|user| match user {
            Name::Exactly(name) => Some(&**name),
            Name::Beginning(_) => None,
        })
        .collect()
}

impl Rules {
    /// No rules: everybody may do everything.
    pub fn open() -> Self {
        RulesBuilder::new().build(Effect::Allow)
    }

    /// The file and line of a rule.
    pub fn rule(&self, id: RuleId) -> Option<&RuleRef> {
        self.get(id).map(|rule| &rule.place)
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The decision where no rule applies.
    pub fn default_effect(&self) -> Effect {
        self.default
    }

    pub(crate) fn get(&self, id: RuleId) -> Option<&Rule> {
        self.list.get(id.0 as usize)
    }

    /// All rules with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (RuleId, &Rule)> {
        (0..).map(RuleId).zip(&self.list)
    }

    /// The rules that hold for a client, in their order.
    pub(crate) fn applying(&self, subject: &Subject<'_>) -> Vec<u32> {
        let own = subject.user_name.and_then(|user| self.by_user.get(user)).map_or(&[][..], Vec::as_slice);
        let holds = |id: &u32| self.get(RuleId(*id)).is_some_and(|rule| rule.who.lacks(subject).is_none());
        let mut ids: Vec<u32> = own.iter().chain(&self.general).copied().filter(holds).collect();
        ids.sort_unstable();
        ids
    }
}
