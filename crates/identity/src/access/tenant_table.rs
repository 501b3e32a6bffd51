//! The names of tenants by their numbers, and the numbers by the levels of their topics.
//!
//! A number keeps its name as long as the process runs, so names are only added. Reading takes no lock.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::OnceLock;

use tidegate_context::level_of;
use tidegate_engine::TenantId;

/// Places of a row; a row is made when one of its places is used.
const ROW: usize = 256;
const ROWS: usize = (u16::MAX as usize + 1) / ROW;

type Row<T> = Box<[OnceLock<T>]>;

/// A table of 65,536 places. Each place is filled once.
#[derive(Debug)]
struct Places<T>(Box<[OnceLock<Row<T>>]>);

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self(std::iter::repeat_with(OnceLock::new).take(ROWS).collect())
    }
}

impl<T> Places<T> {
    fn get(&self, place: u16) -> Option<&T> {
        let place = usize::from(place);
        self.0.get(place / ROW)?.get()?.get(place % ROW)?.get()
    }

    fn get_or_fill(&self, place: u16, value: impl FnOnce() -> T) -> Option<&T> {
        let place = usize::from(place);
        let row = self.0.get(place / ROW)?;
        let row = row.get_or_init(|| std::iter::repeat_with(OnceLock::new).take(ROW).collect());
        Some(row.get(place % ROW)?.get_or_init(value))
    }
}

/// A tenant.
#[derive(Debug)]
struct Named {
    name: Box<str>,
    /// The level below which it has its topics at the brokers of a fleet.
    level: Box<str>,
}

/// A tenant among those whose levels have the same hash.
#[derive(Debug)]
struct Entry {
    tenant: TenantId,
    next: OnceLock<Box<Entry>>,
}

/// Names of tenants. Both ways a name is found in constant time.
#[derive(Debug, Default)]
pub(super) struct TenantTable {
    names: Places<Named>,
    by_level: Places<Entry>,
}

impl TenantTable {
    /// Adds the names that are new, in the order of their numbers, from 1 on.
    pub(super) fn add_all<'a>(&self, names: impl Iterator<Item = &'a str>) {
        for (number, name) in (1..=u16::MAX).zip(names) {
            if self.names.get(number).is_some() {
                continue;
            }
            self.add(TenantId(number), name);
        }
    }

    fn add(&self, tenant: TenantId, name: &str) {
        let named = || Named { name: name.into(), level: level_of(name).into() };
        let Some(named) = self.names.get_or_fill(tenant.0, named) else { return };
        let entry = || Entry { tenant, next: OnceLock::new() };
        let mut there = self.by_level.get_or_fill(place_of(&named.level), entry);
        while let Some(other) = there.filter(|there| there.tenant != tenant) {
            there = Some(other.next.get_or_init(|| Box::new(entry())));
        }
    }

    /// The name of a tenant.
    pub(super) fn name(&self, tenant: TenantId) -> Option<&str> {
        self.names.get(tenant.0).map(|named| &*named.name)
    }

    /// The level of a tenant's topics.
    pub(super) fn level(&self, tenant: TenantId) -> Option<&str> {
        self.names.get(tenant.0).map(|named| &*named.level)
    }

    /// The tenant whose topics have this level.
    pub(super) fn find(&self, level: &str) -> Option<TenantId> {
        let mut there = self.by_level.get(place_of(level));
        while let Some(entry) = there {
            if self.level(entry.tenant) == Some(level) {
                return Some(entry.tenant);
            }
            there = entry.next.get().map(|next| &**next);
        }
        None
    }

    /// All, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TenantId, &str)> {
        (1..=u16::MAX).map_while(|number| Some((TenantId(number), self.name(TenantId(number))?)))
    }
}

fn place_of(level: &str) -> u16 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(level) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_found_both_ways() {
        let names = TenantTable::default();
        // With this number of names, some have the same hash.
        let all: Vec<String> = (1..=2_000).map(|number| format!("tenant {number}/x")).collect();
        names.add_all(all[..1_000].iter().map(String::as_str));
        names.add_all(all.iter().map(String::as_str));
        assert_eq!(names.iter().count(), all.len());
        for (tenant, name) in (1..).map(TenantId).zip(&all) {
            assert_eq!(names.name(tenant), Some(name.as_str()));
            assert_eq!(names.find(names.level(tenant).unwrap()), Some(tenant), "{name}");
        }
        assert_eq!((names.find("other"), names.name(TenantId(0)), names.level(TenantId(2_001))), (None, None, None));
    }
}
