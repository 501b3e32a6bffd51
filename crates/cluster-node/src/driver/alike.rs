//! Sections of the configuration that all members of a cluster have alike: a client has the same rights and quotas at each.
//!
//! A member advertises a checksum of each section. The leader logs sections that differ, and each member shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_cluster::{Advert, Table};
use tidegate_config::Config;
use tidegate_config::credentials::without_credentials;
use tidegate_config::key::{Key, Section, SectionKeys};
use tidegate_config::path::KeyPath;
use tidegate_config::reload::{PrepareError, Prepared, Reloadable};
use tidegate_config::sections::SECTIONS;

/// The sections.
const ALIKE: [&str; 4] = ["auth", "access", "tenant", "addresses"];

/// A checksum of each section by its name.
pub(super) type Checksums = BTreeMap<String, String>;

/// The checksums of a configuration.
pub(super) fn checksums(config: &Config) -> Checksums {
    let mut sums = Checksums::new();
    for keys in SECTIONS.iter().filter(|keys| ALIKE.contains(&keys.name)) {
        let sections = config.sections(keys.name).into_iter();
        let text: String = sections.filter_map(|section| text_of(keys, section)).collect();
        sums.insert(keys.name.to_owned(), format!("{:016x}", fnv(text.as_bytes())));
    }
    sums
}

/// The keys that are not at their defaults, so that a release with more keys has the same text. A tenant with a name alone
/// is a removed one, which keeps its number at some members. Files may have other places at each member: their names do not
/// count.
fn text_of(keys: &SectionKeys, section: &dyn Section) -> Option<String> {
    let is_file = |key: &str| key == "file" || key.ends_with("_file");
    let shown = keys.keys.iter().map(|key| (key, section.show(key.name)));
    let set: Vec<_> = shown.filter(|(key, value)| *value != (key.default)() && !is_file(key.name)).collect();
    if keys.name == "tenant" && set.iter().all(|(key, _)| key.name == "name") {
        return None;
    }
    let line = |(key, value): (&Key, String)| {
        let value = if key.credentials { without_credentials(&value) } else { value };
        format!("{}={value}\n", key.name)
    };
    Some(keys.header() + &set.into_iter().map(line).collect::<String>())
}

/// FNV-1a: every release has the same checksums.
fn fnv(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The sections that differ between two members. A member of an earlier version has no checksums.
pub(super) fn differing(own: &Checksums, other: &Checksums) -> Vec<String> {
    let differs = |(name, sum): &(&String, &String)| other.get(*name).is_some_and(|its| its != *sum);
    own.iter().filter(differs).map(|(name, _)| name.clone()).collect()
}

/// The members whose sections the log has named last, with these sections.
#[derive(Default)]
pub(super) struct Differences(BTreeMap<String, BTreeSet<String>>);

impl Differences {
    /// Compares the members of the table with this one, and logs a warning when sections begin to differ.
    pub(super) fn compare(&mut self, own: &Checksums, table: &Table, adverts: &BTreeMap<String, Advert>) {
        let is_member = |(name, advert): &(&String, &Advert)| table.lives.get(*name) == Some(&advert.life);
        let members = adverts.iter().filter(is_member);
        let found = members.map(|(name, advert)| (name.clone(), differing(own, &advert.alike).into_iter().collect()));
        let found: BTreeMap<String, BTreeSet<String>> =
            found.filter(|(_, it): &(_, BTreeSet<_>)| !it.is_empty()).collect();
        for (member, sections) in found.iter().filter(|(member, sections)| self.0.get(*member) != Some(*sections)) {
            tracing::warn!(
                member,
                ?sections,
                "sections of a member's configuration differ from this node's: clients have other rights or quotas there; give all members the same"
            );
        }
        self.0 = found;
    }
}

/// The checksums in force, which a reload replaces.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnChecksums(Arc<Mutex<Checksums>>);

impl OwnChecksums {
    pub(super) fn get(&self) -> Checksums {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, sums: Checksums) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sums;
    }
}

/// A reload of these sections.
struct NewSections {
    in_force: OwnChecksums,
    sums: Checksums,
}

impl Reloadable for OwnChecksums {
    fn name(&self) -> &'static str {
        "comparison with members"
    }

    fn takes(&self, _: &KeyPath) -> bool {
        // Other parts put them in force.
        false
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        Ok(Box::new(NewSections { in_force: self.clone(), sums: checksums(new) }))
    }
}

impl Prepared for NewSections {
    fn commit(self: Box<Self>) -> Vec<String> {
        self.in_force.set(self.sums);
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_config::Inputs;
    use tidegate_config::sections::tenant::Tenant;
    use tidegate_document::FileText;

    use super::*;

    fn of(text: &str) -> Checksums {
        let text = format!("[[listener]]\nname = 'x'\naddress = 'tcp://127.0.0.1:0'\nallow_anonymous = true\n{text}");
        let file = Some(FileText::new("t.toml", &text));
        checksums(&Config::load(Inputs { file, ..Inputs::default() }).unwrap())
    }

    fn tenant(sessions: u32) -> Checksums {
        of(&format!("[[tenant]]\nname = 'acme'\nlisteners = ['x']\nmax_sessions = {sessions}\n"))
    }

    #[test]
    fn values_of_sections_count_and_places_of_files_do_not() {
        assert_eq!(differing(&tenant(5), &tenant(5)), Vec::<String>::new());
        assert_eq!(differing(&tenant(5), &tenant(6)), ["tenant"]);
        assert_eq!(differing(&tenant(5), &of("")), ["tenant"]);
        assert_eq!(differing(&of("[access]\ndefault = 'allow'\n"), &of("[access]\ndefault = 'deny'\n")), ["access"]);
        let users = |place: &str| {
            of(&format!("[[auth]]\nkind = 'password-file'\nfile = '{place}'\n[access]\ndefault = 'allow'\n"))
        };
        assert_eq!(users("/a/users"), users("/b/users"));
        assert_eq!(differing(&users("/a/users"), &of("[access]\ndefault = 'allow'\n")), ["auth"]);
        assert_eq!(differing(&tenant(5), &Checksums::new()), Vec::<String>::new(), "an earlier version");
    }

    #[test]
    fn a_removed_tenant_and_defaults_make_no_difference() {
        let removed = || Tenant { name: "removed".to_owned(), ..Tenant::default() };
        assert_eq!(checksums(&Config { tenants: vec![removed()], ..Config::default() }), checksums(&Config::default()));
        let limited = Tenant { max_sessions: 1, ..removed() };
        let limited = checksums(&Config { tenants: vec![removed(), limited], ..Config::default() });
        assert_eq!(differing(&limited, &checksums(&Config::default())), ["tenant"]);
        assert_eq!(of("[[tenant]]\nname = 'acme'\nlisteners = ['x']\nmax_sessions = 5\nmax_retained = 0\n"), tenant(5));
    }

    #[test]
    fn only_members_of_the_table_are_compared() {
        let table = Table { lives: [("a".to_owned(), 1), ("b".to_owned(), 2)].into(), ..Table::default() };
        let of = |life, sessions| Advert { life, alike: tenant(sessions), ..Advert::default() };
        let mut adverts = BTreeMap::from([("a".to_owned(), of(1, 5)), ("b".to_owned(), of(1, 6))]);
        let mut differences = Differences::default();
        differences.compare(&tenant(5), &table, &adverts);
        assert!(differences.0.is_empty(), "this life of `b` has ended");
        adverts.insert("b".to_owned(), of(2, 6));
        differences.compare(&tenant(5), &table, &adverts);
        assert_eq!(differences.0.keys().collect::<Vec<_>>(), ["b"]);
        adverts.insert("b".to_owned(), of(2, 5));
        differences.compare(&tenant(5), &table, &adverts);
        assert!(differences.0.is_empty(), "a reload has mended it");
    }
}
