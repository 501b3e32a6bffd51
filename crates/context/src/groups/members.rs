//! The memberships that a gateway keeps (`CTX-32`, `CTX-33`): the last advertisement of each definer, and their union
//! for each node.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::definition::{MAX_GROUPS, is_group_name};
use crate::messages::GroupAdvertisement;

/// Most definers that are kept in mind.
pub const MAX_DEFINERS: usize = 256;

/// Most nodes whose groups a gateway keeps; further ones are in no group.
pub const MAX_MEMBER_NODES: usize = 4_000_000;

/// How many statements that a node is in no group of a definer are kept in mind, the latest ones: an older advertisement that
/// comes behind one is ignored. A definer that has lost its place appends for a lease at most, so late ones are few.
const MAX_LEFT: usize = 262_144;

/// Most names of groups that are remembered beyond the memberships themselves.
const MAX_NAMES: usize = 16_384;

/// Why an advertisement was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdvertisementRefused {
    /// The name of a definer or a group is invalid, or the advertisement has neither `node` nor `members`.
    #[error("it has an invalid name, or neither a node nor members")]
    Invalid,
    /// Too many definers, too many groups for a node, or too many nodes.
    #[error("there are more than 256 definers, more than 1024 groups of a node, or more than 4000000 nodes")]
    TooMany,
    /// It was computed from an older context than the last one.
    #[error("it was computed from an older context than the last one")]
    Outdated,
}

/// A change of a node's groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipChange {
    /// The node.
    pub node: String,
    /// Groups that it is in now, and was not.
    pub add: Vec<String>,
    /// Groups that it was in, and is not.
    pub remove: Vec<String>,
}

#[derive(Debug, Default)]
struct Said {
    groups: BTreeSet<String>,
    context: u64,
}

/// The latest statements that a node is in no group of a definer, with the positions of their contexts.
#[derive(Debug)]
struct LeftNodes {
    contexts: HashMap<(u16, Box<str>), u64>,
    /// All of these in the order in which they came, and former ones.
    order: VecDeque<(u16, Box<str>, u64)>,
    /// [`MAX_LEFT`], fewer in tests.
    max: usize,
}

impl LeftNodes {
    fn note(&mut self, definer: u16, node: &str, context: u64) {
        self.contexts.insert((definer, node.into()), context);
        self.order.push_back((definer, node.into(), context));
        if self.order.len() > self.max
            && let Some((definer, node, context)) = self.order.pop_front()
        {
            let key = (definer, node);
            if self.contexts.get(&key) == Some(&context) {
                self.contexts.remove(&key);
            }
        }
    }

    fn context(&self, definer: u16, node: &str) -> Option<u64> {
        self.contexts.get(&(definer, node.into())).copied()
    }

    fn forget(&mut self, definer: u16, node: &str) {
        self.contexts.remove(&(definer, node.into()));
    }
}

/// The groups of all nodes, by definer.
#[derive(Debug)]
pub struct Memberships {
    /// By node that is in a group, the last statement of each definer that names one.
    nodes: HashMap<Box<str>, BTreeMap<u16, Said>>,
    /// The statements that name none.
    left: LeftNodes,
    definers: Vec<String>,
    /// All groups that were ever named, as far as there are not too many.
    names: BTreeSet<String>,
    /// [`MAX_MEMBER_NODES`], fewer in tests.
    max_nodes: usize,
}

impl Default for Memberships {
    fn default() -> Self {
        let (nodes, names) = (HashMap::new(), BTreeSet::new());
        let left = LeftNodes { contexts: HashMap::new(), order: VecDeque::new(), max: MAX_LEFT };
        Self { nodes, left, definers: Vec::new(), names, max_nodes: MAX_MEMBER_NODES }
    }
}

impl Memberships {
    /// Checks the parts of an advertisement that do not depend on known ones.
    ///
    /// # Errors
    /// When it has an invalid name, or more groups than a definer may have.
    pub fn check(advertisement: &GroupAdvertisement) -> Result<(), AdvertisementRefused> {
        let all = advertisement.members.iter().flat_map(BTreeMap::values).chain([&advertisement.groups]);
        if all.clone().any(|groups| groups.len() > MAX_GROUPS) {
            return Err(AdvertisementRefused::TooMany);
        }
        if !is_group_name(&advertisement.definer) || !all.flatten().all(|name| is_group_name(name)) {
            return Err(AdvertisementRefused::Invalid);
        }
        if advertisement.node.is_none() && advertisement.members.is_none() {
            return Err(AdvertisementRefused::Invalid);
        }
        Ok(())
    }

    /// Applies an advertisement; returns the changes for each node.
    ///
    /// # Errors
    /// When it is invalid, beyond a limit, or older than the known one; then nothing changes.
    pub fn apply(&mut self, advertisement: &GroupAdvertisement) -> Result<Vec<MembershipChange>, AdvertisementRefused> {
        Self::check(advertisement)?;
        if !self.has_room(advertisement) {
            return Err(AdvertisementRefused::TooMany);
        }
        let definer = self.definer(&advertisement.definer)?;
        let mut changes = Vec::new();
        if let Some(members) = &advertisement.members {
            let known =
                self.nodes.iter().filter(|(node, said)| said.contains_key(&definer) && !members.contains_key(&***node));
            let gone: Vec<String> = known.map(|(node, _)| node.to_string()).collect();
            changes.extend(gone.into_iter().filter_map(|node| self.say(definer, &node, &[], advertisement.context)));
            changes.extend(
                members.iter().filter_map(|(node, groups)| self.say(definer, node, groups, advertisement.context)),
            );
        }
        if let Some(node) = &advertisement.node {
            let known = self.nodes.get(node.as_str()).and_then(|said| said.get(&definer)).map(|said| said.context);
            let known = known.or_else(|| self.left.context(definer, node));
            if known.is_some_and(|context| context > advertisement.context && advertisement.context != 0) {
                return Err(AdvertisementRefused::Outdated);
            }
            changes.extend(self.say(definer, node, &advertisement.groups, advertisement.context));
        }
        Ok(changes)
    }

    /// All groups of a node, of all definers.
    pub fn groups(&self, node: &str) -> BTreeSet<&str> {
        let said = self.nodes.get(node).into_iter().flat_map(BTreeMap::values);
        said.flat_map(|said| said.groups.iter().map(String::as_str)).collect()
    }

    /// The groups of a node, and all other groups named so far. These are the changes for a node without a known state.
    pub fn standing(&self, node: &str) -> (Vec<String>, Vec<String>) {
        let groups = self.groups(node);
        let others = self.names.iter().filter(|name| !groups.contains(name.as_str())).cloned().collect();
        (groups.into_iter().map(str::to_owned).collect(), others)
    }

    /// How many nodes are in any group.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no node is in any group.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether there is room for the unknown nodes of an advertisement that come into a group.
    fn has_room(&self, advertisement: &GroupAdvertisement) -> bool {
        let members = advertisement.members.iter().flatten().filter(|(_, groups)| !groups.is_empty());
        let one = advertisement.node.iter().filter(|_| !advertisement.groups.is_empty());
        let named = members.map(|(node, _)| node).chain(one);
        let few = advertisement.members.as_ref().map_or(0, BTreeMap::len) + 1;
        self.nodes.len() + few <= self.max_nodes
            || self.nodes.len() + named.filter(|node| !self.nodes.contains_key(node.as_str())).count() <= self.max_nodes
    }

    fn definer(&mut self, name: &str) -> Result<u16, AdvertisementRefused> {
        let place = match self.definers.iter().position(|known| known == name) {
            Some(place) => place,
            None if self.definers.len() >= MAX_DEFINERS => return Err(AdvertisementRefused::TooMany),
            None => {
                self.definers.push(name.to_owned());
                self.definers.len() - 1
            }
        };
        u16::try_from(place).map_err(|_| AdvertisementRefused::TooMany)
    }

    fn say(&mut self, definer: u16, node: &str, groups: &[String], context: u64) -> Option<MembershipChange> {
        let owned = |groups: BTreeSet<&str>| -> BTreeSet<String> { groups.into_iter().map(str::to_owned).collect() };
        let before = owned(self.groups(node));
        for group in groups {
            if self.names.len() < MAX_NAMES && !self.names.contains(group) {
                self.names.insert(group.clone());
            }
        }
        self.left.forget(definer, node);
        if groups.is_empty() {
            if let Some(said) = self.nodes.get_mut(node) {
                said.remove(&definer);
                if said.is_empty() {
                    self.nodes.remove(node);
                }
            }
            if context != 0 {
                self.left.note(definer, node, context);
            }
        } else {
            let said = Said { groups: groups.iter().cloned().collect(), context };
            self.nodes.entry(node.into()).or_default().insert(definer, said);
        }
        let after = owned(self.groups(node));
        let add: Vec<String> = after.difference(&before).cloned().collect();
        let remove: Vec<String> = before.difference(&after).cloned().collect();
        (!add.is_empty() || !remove.is_empty()).then(|| MembershipChange { node: node.to_owned(), add, remove })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(definer: &str, node: &str, groups: &[&str], context: u64) -> GroupAdvertisement {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        GroupAdvertisement { definer: definer.into(), node: Some(node.into()), groups, members: None, context }
    }

    fn change(node: &str, add: &[&str], remove: &[&str]) -> MembershipChange {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        MembershipChange { node: node.into(), add: owned(add), remove: owned(remove) }
    }

    #[test]
    fn a_node_is_in_the_groups_of_all_definers() {
        let mut members = Memberships::default();
        assert_eq!(members.apply(&one("gd1", "n", &["group11"], 1)).unwrap(), [change("n", &["group11"], &[])]);
        assert_eq!(
            members.apply(&one("gd2", "n", &["group22", "group11"], 1)).unwrap(),
            [change("n", &["group22"], &[])]
        );
        assert_eq!(members.apply(&one("gd1", "n", &[], 2)).unwrap(), [], "the other one still says so");
        assert_eq!(members.apply(&one("gd2", "n", &[], 2)).unwrap(), [change("n", &[], &["group11", "group22"])]);
    }

    #[test]
    fn an_older_advertisement_is_ignored() {
        let mut members = Memberships::default();
        members.apply(&one("gd", "n", &["a"], 5)).unwrap();
        assert_eq!(members.apply(&one("gd", "n", &["b"], 4)), Err(AdvertisementRefused::Outdated));
        assert!(members.apply(&one("gd", "n", &["b"], 0)).is_ok(), "one without a position is taken as it comes");
    }

    #[test]
    fn a_definer_that_leaves_a_node_keeps_the_age_of_others() {
        let mut members = Memberships::default();
        members.apply(&one("gd", "n", &["a"], 4)).unwrap();
        members.apply(&one("gd", "n", &[], 5)).unwrap();
        members.apply(&one("other", "n", &["b"], 0)).unwrap();
        members.apply(&one("other", "n", &[], 0)).unwrap();
        assert_eq!(members.apply(&one("gd", "n", &["a"], 4)), Err(AdvertisementRefused::Outdated));
    }

    #[test]
    fn a_whole_report_replaces_the_earlier_groups() {
        let mut members = Memberships::default();
        members.apply(&one("gd", "n1", &["a"], 0)).unwrap();
        members.apply(&one("other", "n1", &["b"], 0)).unwrap();
        let all = GroupAdvertisement {
            definer: "gd".into(),
            members: Some(BTreeMap::from([("n2".to_owned(), vec!["a".to_owned()])])),
            ..GroupAdvertisement::default()
        };
        assert_eq!(members.apply(&all).unwrap(), [change("n1", &[], &["a"]), change("n2", &["a"], &[])]);
        assert_eq!(members.groups("n1"), BTreeSet::from(["b"]));
        assert_eq!(members.standing("n1"), (vec!["b".to_owned()], vec!["a".to_owned()]));
    }

    #[test]
    fn an_invalid_advertisement_changes_nothing() {
        let mut members = Memberships::default();
        assert_eq!(members.apply(&one("g/d", "n", &["a"], 0)), Err(AdvertisementRefused::Invalid));
        assert_eq!(members.apply(&one("gd", "n", &["a", "#"], 0)), Err(AdvertisementRefused::Invalid));
        let neither = GroupAdvertisement { node: None, ..one("gd", "n", &["a"], 0) };
        assert_eq!(members.apply(&neither), Err(AdvertisementRefused::Invalid));
        let many: Vec<String> = (0..=MAX_GROUPS).map(|n| n.to_string()).collect();
        assert_eq!(
            members.apply(&GroupAdvertisement { groups: many, ..one("gd", "n", &[], 0) }),
            Err(AdvertisementRefused::TooMany)
        );
        for definer in 0..MAX_DEFINERS {
            members.apply(&one(&definer.to_string(), "n", &["a"], 0)).unwrap();
        }
        assert_eq!(members.apply(&one("more", "n", &["a"], 0)), Err(AdvertisementRefused::TooMany));
    }

    #[test]
    fn nodes_beyond_the_limit_are_in_no_group_until_there_is_room() {
        let mut members = Memberships { max_nodes: 2, ..Memberships::default() };
        members.apply(&one("gd", "n1", &["a"], 0)).unwrap();
        members.apply(&one("gd", "n2", &["a"], 0)).unwrap();
        assert_eq!(members.apply(&one("gd", "n3", &["a"], 0)), Err(AdvertisementRefused::TooMany));
        assert_eq!(members.apply(&one("gd", "n3", &[], 0)), Ok(Vec::new()), "it needs no room");
        let all = |nodes: &[&str]| GroupAdvertisement {
            definer: "gd".into(),
            members: Some(nodes.iter().map(|node| ((*node).to_owned(), vec!["b".to_owned()])).collect()),
            ..GroupAdvertisement::default()
        };
        assert_eq!(members.apply(&all(&["n1", "n2", "n3"])), Err(AdvertisementRefused::TooMany));
        assert_eq!(members.apply(&all(&["n1", "n2"])).unwrap().len(), 2, "known nodes may be advertised again");
        members.apply(&one("gd", "n1", &[], 0)).unwrap();
        assert!(members.apply(&one("gd", "n3", &["a"], 0)).is_ok());
        assert_eq!(members.len(), 2);
    }

    #[test]
    fn nodes_that_come_and_go_take_no_room_for_others() {
        let left = LeftNodes { max: 3, ..Memberships::default().left };
        let mut members = Memberships { max_nodes: 2, left, ..Memberships::default() };
        for number in 1..=100 {
            let node = format!("n{number}");
            members.apply(&one("gd", &node, &["a"], 2 * number)).unwrap();
            members.apply(&one("gd", &node, &[], 2 * number + 1)).unwrap();
        }
        assert_eq!((members.len(), members.left.contexts.len(), members.left.order.len()), (0, 3, 3));
        assert_eq!(members.apply(&one("gd", "n100", &["a"], 200)), Err(AdvertisementRefused::Outdated));
        assert!(members.apply(&one("gd", "n1", &["a"], 2)).is_ok(), "the oldest ones are forgotten");
    }

    #[test]
    fn one_that_comes_and_goes_is_remembered_by_its_last_statement() {
        let left = LeftNodes { max: 2, ..Memberships::default().left };
        let mut members = Memberships { left, ..Memberships::default() };
        for context in 1..=10 {
            members.apply(&one("gd", "n", &[], context)).unwrap();
        }
        assert_eq!(members.left.contexts.len(), 1);
        assert_eq!(members.apply(&one("gd", "n", &["a"], 9)), Err(AdvertisementRefused::Outdated));
        members.apply(&one("gd", "n", &["a"], 11)).unwrap();
        assert!(members.left.contexts.is_empty(), "it is in a group");
        members.apply(&one("gd", "other", &[], 12)).unwrap();
        members.apply(&one("gd", "another", &[], 13)).unwrap();
        assert_eq!(members.groups("n"), BTreeSet::from(["a"]), "a former statement is forgotten without effect");
    }

    proptest! {
        #[test]
        fn changes_add_up_to_the_union(steps in proptest::collection::vec((0_u8..3, 0_u8..3, proptest::collection::btree_set(0_u8..5, 0..4)), 0..60)) {
            let mut members = Memberships::default();
            let mut seen: HashMap<String, BTreeSet<String>> = HashMap::new();
            let mut said: HashMap<(u8, u8), BTreeSet<String>> = HashMap::new();
            for (definer, node, groups) in steps {
                let groups: BTreeSet<String> = groups.iter().map(|group| format!("g{group}")).collect();
                said.insert((definer, node), groups.clone());
                let advertisement = GroupAdvertisement {
                    groups: groups.into_iter().collect(), ..one(&format!("d{definer}"), &format!("n{node}"), &[], 0)
                };
                for change in members.apply(&advertisement).unwrap() {
                    let set = seen.entry(change.node).or_default();
                    prop_assert!(change.add.iter().all(|group| set.insert(group.clone())));
                    prop_assert!(change.remove.iter().all(|group| set.remove(group)));
                }
                for node in 0..3_u8 {
                    let union: BTreeSet<String> = (0..3_u8).filter_map(|definer| said.get(&(definer, node))).flatten().cloned().collect();
                    prop_assert_eq!(seen.get(&format!("n{node}")).cloned().unwrap_or_default(), union);
                }
            }
        }
    }
}
