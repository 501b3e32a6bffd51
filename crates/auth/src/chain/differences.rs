//! The changes of a reload.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use super::provider_set::{Member, ProviderSet};

/// The changes of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Providers that are new, by name.
    pub providers_added: Vec<String>,
    /// Removed providers.
    pub providers_removed: Vec<String>,
    /// Providers whose settings are different.
    pub providers_changed: Vec<String>,
    /// Whether the order of the remaining providers changed.
    pub reordered: bool,
    /// Users of files that are new.
    pub users_added: usize,
    /// Number of users removed from files.
    pub users_removed: usize,
    /// Users of files whose password is another.
    pub users_changed: usize,
    /// The names of users that were removed or have another password, in order.
    pub users_ended: BTreeSet<String>,
    /// Changes that need a restart.
    pub needs_restart: Vec<String>,
}

impl Differences {
    pub(super) fn between(before: &ProviderSet, after: &ProviderSet) -> Self {
        let mut found = Self::default();
        for member in &after.members {
            match before.member(&member.settings.name) {
                None => found.providers_added.push(member.settings.name.clone()),
                Some(old) if old.settings != member.settings => {
                    found.providers_changed.push(member.settings.name.clone());
                }
                Some(_) => {}
            }
            found.compare_users(before.member(&member.settings.name), Some(member));
        }
        for member in before.members.iter().filter(|member| after.member(&member.settings.name).is_none()) {
            found.providers_removed.push(member.settings.name.clone());
            found.compare_users(Some(member), None);
        }
        let common = |one: &ProviderSet, other: &ProviderSet| -> Vec<String> {
            let names = one.members.iter().map(|member| member.settings.name.clone());
            names.filter(|name| other.member(name).is_some()).collect()
        };
        found.reordered = common(before, after) != common(after, before);
        if before.settings.threads != after.settings.threads {
            found.needs_restart.push("the number of threads for authentication".to_owned());
        }
        found
    }

    fn compare_users(&mut self, before: Option<&Member>, after: Option<&Member>) {
        let users = |member: Option<&Member>| -> HashMap<String, u64> {
            member.and_then(|member| member.provider.users()).unwrap_or_default().into_iter().collect()
        };
        let (before, after) = (users(before), users(after));
        self.users_added += after.keys().filter(|name| !before.contains_key(*name)).count();
        for (name, digest) in before {
            match after.get(&name) {
                Some(new) if *new == digest => continue,
                Some(_) => self.users_changed += 1,
                None => self.users_removed += 1,
            }
            self.users_ended.insert(name);
        }
    }

    /// Whether the reload changed nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ProviderSet {
    fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.settings.name == name)
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let lists = [
            ("added", &self.providers_added),
            ("removed", &self.providers_removed),
            ("changed", &self.providers_changed),
        ];
        for (change, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            parts.push(format!("providers {change}: {}", names.join(", ")));
        }
        if self.reordered {
            parts.push("providers in another order".to_owned());
        }
        let counts = [("added", self.users_added), ("removed", self.users_removed), ("changed", self.users_changed)];
        for (change, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            parts.push(format!("users {change}: {count}"));
        }
        if !self.needs_restart.is_empty() {
            parts.push(format!("needs a restart: {}", self.needs_restart.join(", ")));
        }
        if parts.is_empty() { f.write_str("no difference") } else { f.write_str(&parts.join("; ")) }
    }
}
