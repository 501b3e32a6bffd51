//! All nodes of a cluster are orchestrators with the same prefix of addresses and the same rules for shared groups, or none
//! is: messages of orchestrators cross by brokers, those on topics of addresses and messages of other nodes by links.

use std::collections::BTreeMap;

use tidegate_bus::{Member, Membership};
use tidegate_cluster::{Advert, Table};

use super::ending;
use super::status::Shared;

/// Ends the process if a member of the cluster is of another kind than this node, which has joined the group and is in no
/// table yet. Before that the list of the group may have members of an earlier time.
pub(super) fn check(
    shared: &Shared,
    table: &Table,
    adverts: &BTreeMap<String, Advert>,
    joined: Option<&Membership>,
    own: &Advert,
) {
    let Some(joined) = joined else { return };
    let found = other_kind(shared.name(), table, adverts, &joined.members(), own);
    let Some((other, member)) = found else { return };
    if shared.ends_for(difference((shared.name(), own), (other, member))) {
        ending::end();
    }
}

/// Why a node cannot be in a cluster with this member.
fn difference((name, own): (&str, &Advert), (other, member): (&str, &Advert)) -> String {
    if member.orchestrator != own.orchestrator {
        let kinds = ["is no orchestrator", "is an orchestrator"];
        let [own, member] = [own, member].map(|advert| kinds[usize::from(advert.orchestrator)]);
        return format!(
            "node `{name}` {own}, and `{other}`, a member of the cluster, {member}: give one of them another cluster.prefix"
        );
    }
    if member.group_version != own.group_version {
        let [own, member] = [own, member].map(|advert| advert.group_version);
        return format!(
            "orchestrator `{name}` deals to shared groups by version {own}, and `{other}`, a member of the cluster, by version {member}: stop all members, and start them again with one release"
        );
    }
    let [own, member] = [own, member].map(described);
    format!(
        "orchestrator `{name}` has {own}, and `{other}`, a member of the cluster, has {member}: stop all members, give them the same, and start them again"
    )
}

/// Another member of the table and of the group that is of another kind. Adverts of lives that have ended do not count:
/// all members may have stopped to change their kind.
fn other_kind<'a>(
    name: &str,
    table: &Table,
    adverts: &'a BTreeMap<String, Advert>,
    members: &[Member],
    own: &Advert,
) -> Option<(&'a str, &'a Advert)> {
    let is_member = |other: &str, life: u64| {
        let is_there = |member: &Member| member.name.as_str() == other && member.incarnation == life;
        table.lives.get(other) == Some(&life) && members.iter().any(is_there)
    };
    let is_other = |(other, advert): &(&str, &Advert)| {
        *other != name && advert.kind() != own.kind() && is_member(other, advert.life)
    };
    adverts.iter().map(|(other, advert)| (other.as_str(), advert)).find(is_other)
}

/// The addresses of an orchestrator.
fn described(advert: &Advert) -> String {
    match &advert.address_prefix {
        Some(prefix) => format!("addresses below `{prefix}`"),
        None => "no addresses".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_bus::MemberName;
    use tidegate_cluster::GROUP_VERSION;

    use super::*;

    #[test]
    fn only_members_that_are_there_have_a_kind() {
        let of = |prefix: &str, life| Advert {
            life,
            orchestrator: true,
            address_prefix: Some(prefix.to_owned()),
            ..Advert::default()
        };
        let lives = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
        let table = Table { lives, ..Table::default() };
        let adverts = BTreeMap::from([("a".to_owned(), of("old", 1)), ("b".to_owned(), of("old", 2))]);
        let member =
            |name: &str, incarnation| Member { name: MemberName::new(name).unwrap(), incarnation, lease: None };
        let found = |members: &[Member], own: &Advert| {
            other_kind("a", &table, &adverts, members, own).map(|(name, _)| name.to_owned())
        };
        // After a stop of all members, a new life of `a` is alone with the adverts of former lives.
        assert_eq!(found(&[member("a", 3)], &of("new", 3)), None);
        assert_eq!(found(&[member("a", 3), member("b", 4)], &of("new", 3)), None, "the new life of `b` has no advert");
        assert_eq!(found(&[member("a", 3), member("b", 2)], &of("new", 3)), Some("b".to_owned()));
        assert_eq!(found(&[member("a", 3), member("b", 2)], &of("old", 3)), None);
    }

    #[test]
    fn orchestrators_of_other_versions_are_refused() {
        let of = |group_version| Advert { life: 1, orchestrator: true, group_version, ..Advert::default() };
        let (own, earlier) = (of(GROUP_VERSION), of(0));
        let table = Table { lives: BTreeMap::from([("b".to_owned(), 1)]), ..Table::default() };
        let adverts = BTreeMap::from([("b".to_owned(), earlier)]);
        let members = [Member { name: MemberName::new("b").unwrap(), incarnation: 1, lease: None }];
        let (other, member) = other_kind("a", &table, &adverts, &members, &own).expect("another version");
        let why = difference(("a", &own), (other, member));
        assert!(
            why.contains("by version 2, and `b`, a member of the cluster, by version 0: stop all members"),
            "{why}"
        );
    }
}
