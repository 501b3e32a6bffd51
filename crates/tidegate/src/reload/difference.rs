//! What a new configuration changes.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::config::path::KeyPath;
use crate::config::sections::SECTIONS;

/// What stands for a key of a section that is not there.
const ABSENT: &str = "(not there)";
/// What stands for a value that nobody shall read.
const MASKED: &str = "(hidden)";

/// All keys with their values as TOML.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown(BTreeMap<KeyPath, String>);

/// A key that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Which.
    pub(crate) key: KeyPath,
    /// Its value so far, as TOML.
    pub(crate) old: String,
    /// Its value from now on, as TOML.
    pub(crate) new: String,
    /// Whether it is in force; otherwise it waits for a restart.
    pub(crate) live: bool,
}

impl Shown {
    /// The keys of a configuration.
    pub(super) fn of(config: &Config) -> Self {
        let mut shown = BTreeMap::new();
        for keys in SECTIONS {
            for (index, section) in config.sections(keys.name).into_iter().enumerate() {
                for key in keys.keys {
                    shown.insert(KeyPath { section: keys.name, index, key: key.name }, section.show(key.name));
                }
            }
        }
        Self(shown)
    }

    /// Takes over what is in force now.
    pub(super) fn take_live(&mut self, changes: &[Change]) {
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
pub(super) fn compare(old: &Shown, new: &Shown, takes: impl Fn(&KeyPath) -> bool) -> Vec<Change> {
    let mut keys: Vec<&KeyPath> = old.0.keys().chain(new.0.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter(|key| old.value(key) != new.value(key))
        .map(|key| Change {
            key: *key,
            old: old.value(key).to_owned(),
            new: new.value(key).to_owned(),
            // A listener that comes or goes is more than its keys.
            live: takes(key) && (key.section != "listener" || (old.value(key) != ABSENT && new.value(key) != ABSENT)),
        })
        .collect()
}

impl Change {
    /// The old and the new value, hidden where the key holds a secret.
    pub(crate) fn values(&self) -> (&str, &str) {
        let mask = |value| if is_secret(self.key.key) && value != ABSENT { MASKED } else { value };
        (mask(&self.old), mask(&self.new))
    }
}

/// Whether a key holds something secret itself, rather than the name of a file that does.
fn is_secret(key: &str) -> bool {
    let names_file = key.ends_with("_file") || key.ends_with("_url");
    !names_file
        && ["password", "passphrase", "secret", "token"].iter().any(|word| key.split('_').any(|part| part == *word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_a_secret_is_told_from_one_with_a_file() {
        for key in ["password", "client_secret", "token", "hmac_secret"] {
            assert!(is_secret(key), "{key}");
        }
        for key in ["password_file", "token_url", "key", "level", "max_tokens"] {
            assert!(!is_secret(key), "{key}");
        }
    }

    #[test]
    fn secrets_are_seen_to_change_and_not_what_they_are() {
        let key = KeyPath { section: "x", index: 0, key: "password" };
        let change = Change { key, old: "\"a\"".to_owned(), new: "\"b\"".to_owned(), live: true };
        assert_eq!(change.values(), (MASKED, MASKED));
        let change = Change { new: ABSENT.to_owned(), ..change };
        assert_eq!(change.values(), (MASKED, ABSENT));
    }
}
