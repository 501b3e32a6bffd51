//! The last result of `list`.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{Listed, MachineState};
use super::settings::Limits;
use super::tries::{Tries, millis};
use crate::provider::ResourceName;

/// Time for which CPU and memory of a list are of use, milliseconds.
const FRESH_MS: u64 = 60_000;

/// The last result of `list`. All times are milliseconds since 1970.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    pub(super) tries: Tries,
    /// Whether it is needed before its interval has passed.
    pub(super) wanted: bool,
    begun: Option<u64>,
    /// When the call that gave `machines` was begun.
    pub(super) good_begun: Option<u64>,
    /// By name; the first machine of a name counts: one that lives, then the machine kept before.
    machines: BTreeMap<ResourceName, Vec<Listed>>,
    /// Names that are not this fleet's, so that each is logged once.
    strangers: BTreeSet<String>,
}

impl Listing {
    pub(super) fn is_due(&self, now: u64, limits: &Limits) -> bool {
        let rested = self.begun.is_none_or(|begun| now.saturating_sub(begun) >= millis(limits.list_interval));
        self.tries.is_due(now) && (self.wanted || rested)
    }

    pub(super) fn begin(&mut self, now: u64) {
        self.tries.begin();
        (self.wanted, self.begun) = (false, Some(now));
    }

    /// A list was read. `known` is the former identifier of the machine of a name.
    pub(super) fn take<'a>(
        &mut self,
        now: u64,
        all: Vec<Listed>,
        is_ours: impl Fn(&str) -> bool,
        known: impl Fn(&ResourceName) -> Option<&'a str>,
    ) {
        self.tries.succeeded(now);
        self.good_begun = self.begun;
        self.machines.clear();
        let mut strangers = BTreeSet::new();
        for listed in all {
            match listed.name.parse::<ResourceName>() {
                Ok(name) if is_ours(name.as_str()) => self.machines.entry(name).or_default().push(listed),
                _ => drop(strangers.insert(listed.name)),
            }
        }
        for name in strangers.difference(&self.strangers) {
            tracing::warn!(name, "`list` shows a machine of another name than this fleet gives; it is left alone");
        }
        self.strangers = strangers;
        for (name, listed) in &mut self.machines {
            let known = known(name);
            listed.sort_by(|one, other| {
                let lives = |it: &Listed| matches!(it.state, MachineState::Running | MachineState::Starting);
                let rank = |it: &Listed| (!lives(it), Some(it.id.as_str()) != known, it.state);
                rank(one).cmp(&rank(other)).then_with(|| one.id.cmp(&other.id))
            });
            listed.dedup_by(|one, other| one.id == other.id);
        }
    }

    /// The machine of a name.
    pub(super) fn kept(&self, name: &ResourceName) -> Option<&Listed> {
        self.machines.get(name)?.first()
    }

    /// Further machines of a name.
    pub(super) fn extras(&self) -> impl Iterator<Item = (&ResourceName, &Listed)> {
        self.machines.iter().flat_map(|(name, listed)| listed.iter().skip(1).map(move |listed| (name, listed)))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &ResourceName> {
        self.machines.keys()
    }

    /// Whether the list was begun after a time, or there is one at all.
    pub(super) fn is_after(&self, time: Option<u64>) -> bool {
        self.good_begun.is_some_and(|begun| time.is_none_or(|time| begun > time))
    }

    pub(super) fn is_fresh(&self, now: u64) -> bool {
        self.good_begun.is_some_and(|begun| now.saturating_sub(begun) <= FRESH_MS)
    }
}
