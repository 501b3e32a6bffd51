//! The changes of a new configuration.

use std::collections::BTreeMap;

use tidegate_config::Config;
use tidegate_config::credentials::without_credentials;
use tidegate_config::path::KeyPath;
use tidegate_config::sections::SECTIONS;

use crate::serving::Serving;

/// The value of a key of an absent section.
const ABSENT: &str = "(not there)";

/// All keys with their values as TOML.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown(BTreeMap<KeyPath, String>);

/// A key that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: KeyPath,
    /// Its value so far, as TOML.
    pub old: String,
    /// Its value from now on, as TOML.
    pub new: String,
    /// Whether it is in force; otherwise it waits for a restart.
    pub live: bool,
}

impl Shown {
    /// The keys of a configuration. A listener in force keeps its number, wherever the configuration has it.
    pub(crate) fn of(config: &Config, serving: &Serving) -> Self {
        let mut shown = BTreeMap::new();
        let numbers = serving.numbers(config);
        for keys in SECTIONS {
            for (position, section) in config.sections(keys.name).into_iter().enumerate() {
                let index = if keys.name == "listener" { numbers[position] } else { position };
                for key in keys.keys {
                    shown.insert(KeyPath { section: keys.name, index, key: key.name }, section.show(key.name));
                }
            }
        }
        Self(shown)
    }

    /// Takes over the values in force now.
    pub(crate) fn take_live(&mut self, changes: &[Change]) {
        for change in changes.iter().filter(|change| change.live) {
            if change.new == ABSENT {
                self.0.remove(&change.key);
            } else {
                self.0.insert(change.key, change.new.clone());
            }
        }
    }

    fn value(&self, key: &KeyPath) -> &str {
        self.0.get(key).map_or(ABSENT, String::as_str)
    }
}

/// The keys whose values differ, in their order; `takes` says which of them can change in a running broker.
pub(crate) fn compare(old: &Shown, new: &Shown, takes: impl Fn(&KeyPath) -> bool) -> Vec<Change> {
    let mut keys: Vec<&KeyPath> = old.0.keys().chain(new.0.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter(|key| old.value(key) != new.value(key))
        .map(|key| Change {
            key: *key,
            old: old.value(key).to_owned(),
            new: new.value(key).to_owned(),
            live: takes(key),
        })
        .collect()
}

impl Change {
    /// Whether it is a default of a section that comes or goes, which the section does not say.
    pub(crate) fn is_unsaid(&self) -> bool {
        let ((ABSENT, value) | (value, ABSENT)) = (self.old.as_str(), self.new.as_str()) else { return false };
        let section = SECTIONS.iter().find(|section| section.name == self.key.section);
        section.and_then(|section| section.key(self.key.key)).is_some_and(|key| (key.default)() == value)
    }

    /// The old and the new value, without secrets.
    pub fn values(&self) -> (String, String) {
        if !self.key.holds_credentials() {
            return (self.old.clone(), self.new.clone());
        }
        let (old, new) = (without_credentials(&self.old), without_credentials(&self.new));
        let new = if old == new { format!("{new} (the hidden parts differ)") } else { new };
        (old, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_secrets_are_shown_without_their_values() {
        let key = KeyPath { section: "orchestrator", index: 0, key: "brokers" };
        let address = |password: &str| format!("\"mqtt://me:{password}@host:1883\"");
        let change = Change { key, old: address("one"), new: address("two"), live: true };
        let shown = "\"mqtt://***@host:1883\"";
        assert_eq!(change.values(), (shown.to_owned(), format!("{shown} (the hidden parts differ)")));
        let change = Change { new: ABSENT.to_owned(), ..change };
        assert_eq!(change.values(), (shown.to_owned(), ABSENT.to_owned()));
    }
}
