//! The definition of a definer: its name and its groups.

use serde_json::Value;

use super::rule::{PositionFields, Rule, Seen};
use super::set::GroupSet;
use crate::messages::MAX_NAME_BYTES;

/// Most groups of one definer.
pub const MAX_GROUPS: usize = 1_024;

/// Why a definition was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// A name that a topic cannot contain.
    #[error("`{0}` is no name of a definer or a group: use 1 to 64 letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// Two groups of one name.
    #[error("group `{0}` is defined twice; join the rules with || in one expression")]
    Twice(String),
    /// No groups, or more than a definer may have.
    #[error("a definer has 1 to 1024 groups; split them among several definers")]
    Number,
}

/// A group and who is in it.
#[derive(Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its rule.
    pub rule: Rule,
}

/// The groups of a definer.
#[derive(Debug)]
pub struct Definition {
    definer: String,
    groups: Vec<Group>,
    fields: PositionFields,
    expressions: bool,
}

/// Whether a text can name a definer or a group, also as a level of a topic.
pub fn is_group_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(fits)
}

impl Definition {
    /// Checks names and numbers.
    ///
    /// # Errors
    /// When a name is invalid or occurs twice, or there are too many groups.
    pub fn new(definer: &str, fields: PositionFields, groups: Vec<Group>) -> Result<Self, DefinitionError> {
        let names = groups.iter().map(|group| group.name.as_str());
        if let Some(name) = names.clone().chain([definer]).find(|name| !is_group_name(name)) {
            return Err(DefinitionError::Name(name.to_owned()));
        }
        if groups.is_empty() || groups.len() > MAX_GROUPS {
            return Err(DefinitionError::Number);
        }
        let mut sorted: Vec<&str> = names.collect();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(DefinitionError::Twice(pair[0].to_owned()));
        }
        let expressions = groups.iter().any(|group| matches!(group.rule, Rule::When(_)));
        Ok(Self { definer: definer.to_owned(), groups, fields, expressions })
    }

    /// The definer.
    pub fn definer(&self) -> &str {
        &self.definer
    }

    /// The groups, by their places.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The groups of a node with this context, given its former groups.
    pub fn evaluate(&self, context: &Value, before: &GroupSet) -> GroupSet {
        let seen = Seen::new(context, &self.fields, self.expressions);
        let mut set = GroupSet::empty(self.groups.len());
        for (place, group) in self.groups.iter().enumerate() {
            if group.rule.holds(&seen, before.contains(place)) {
                set.insert(place);
            }
        }
        set
    }

    /// The names of groups in a set.
    pub fn names(&self, set: &GroupSet) -> Vec<String> {
        let groups = self.groups.iter().enumerate();
        groups.filter(|(place, _)| set.contains(*place)).map(|(_, group)| group.name.clone()).collect()
    }

    /// The set of groups by their names, and whether all of the names are known.
    pub fn set_of(&self, names: &[String]) -> (GroupSet, bool) {
        let mut set = GroupSet::empty(self.groups.len());
        let mut known = true;
        for name in names {
            match self.groups.iter().position(|group| group.name == *name) {
                Some(place) => set.insert(place),
                None => known = false,
            }
        }
        (set, known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Expression;

    fn group(name: &str) -> Group {
        Group { name: name.into(), rule: Rule::When(Expression::condition("true").unwrap()) }
    }

    fn new(definer: &str, names: &[&str]) -> Result<Definition, DefinitionError> {
        Definition::new(definer, PositionFields::default(), names.iter().map(|name| group(name)).collect())
    }

    #[test]
    fn names_are_levels_of_topics_and_there_once() {
        assert!(new("gd-1", &["a", "b.c_d-9"]).is_ok());
        for (definer, group) in [("", "a"), ("a/b", "a"), ("gd", "a#"), ("gd", "ä")] {
            assert!(matches!(new(definer, &[group]), Err(DefinitionError::Name(_))), "{definer} {group}");
        }
        assert_eq!(new("gd", &["a", "b", "a"]).unwrap_err(), DefinitionError::Twice("a".into()));
        assert_eq!(new("gd", &[]).unwrap_err(), DefinitionError::Number);
        let many: Vec<String> = (0..=MAX_GROUPS).map(|n| n.to_string()).collect();
        assert_eq!(
            new("gd", &many.iter().map(String::as_str).collect::<Vec<_>>()).unwrap_err(),
            DefinitionError::Number
        );
    }
}
