//! Who gets which announcement of user names.

use std::collections::{BTreeMap, BTreeSet};

use super::Users;
use super::announcement::{Reaction, UserCounts, reaction};
use super::key::UserKey;
use crate::admission::Admission;

/// Names in one announcement: 80 KB.
const NAMES_AT_ONCE: usize = 4_096;
/// Changed names that wait for one node. Beyond it the node gets all names.
const PENDING_MAX: usize = 65_536;

/// The other nodes, and the names that each of them lacks yet. The thread that announces owns it.
#[derive(Debug, Default)]
pub struct UserExchange {
    receivers: BTreeMap<Box<str>, UserReceiver>,
}

/// Another node, as it takes announcements.
#[derive(Debug)]
struct UserReceiver {
    list: NameList,
    /// Names that have changed since its last announcement.
    pending: BTreeSet<UserKey>,
}

/// How far the list of all names has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameList {
    /// The node has no list.
    Due,
    /// It has the names up to this one.
    UpTo(UserKey),
    /// It has all names.
    Complete,
    /// The node does not understand announcements. It gets none until it is linked again.
    Unwanted,
}

impl Default for UserReceiver {
    fn default() -> Self {
        Self { list: NameList::Due, pending: BTreeSet::new() }
    }
}

impl UserReceiver {
    fn begin_again(&mut self) {
        *self = Self::default();
    }

    fn note_changed(&mut self, changed: Option<&[UserKey]>) {
        if matches!(self.list, NameList::Due | NameList::Unwanted) {
            return;
        }
        match changed {
            Some(changed) if self.pending.len() + changed.len() <= PENDING_MAX => self.pending.extend(changed),
            _ => self.begin_again(),
        }
    }

    fn next(&mut self, users: &Users) -> Option<UserCounts> {
        let behind = match self.list {
            NameList::Due => None,
            NameList::UpTo(user) => Some(user),
            NameList::Complete if self.pending.is_empty() => return None,
            NameList::Complete => return Some(self.next_changed(users)),
            NameList::Unwanted => return None,
        };
        let counts = users.counts_behind(behind, NAMES_AT_ONCE);
        let is_first = self.list == NameList::Due;
        self.list = match counts.last() {
            Some((last, _)) if counts.len() == NAMES_AT_ONCE => NameList::UpTo(*last),
            _ => NameList::Complete,
        };
        Some(UserCounts { is_first, counts })
    }

    fn next_changed(&mut self, users: &Users) -> UserCounts {
        let mut counts = Vec::new();
        while counts.len() < NAMES_AT_ONCE
            && let Some(user) = self.pending.pop_first()
        {
            counts.push((user, users.count(&user)));
        }
        UserCounts { is_first: false, counts }
    }
}

impl UserExchange {
    /// Takes note of all changes since the last call. `members` are the other nodes of the cluster.
    pub fn begin<'a>(&mut self, admission: &Admission, members: impl Iterator<Item = &'a str>) {
        let users = &admission.users;
        let mut members = members.peekable();
        // Before the counts are read: a later change is announced.
        let linked = users.begin_look(members.peek().is_some());
        let changed = users.take_changed();
        let mut before = std::mem::take(&mut self.receivers);
        for name in members {
            let mut receiver = before.remove(name).unwrap_or_default();
            if linked.contains(name) {
                receiver.begin_again();
            }
            receiver.note_changed(changed.as_deref());
            self.receivers.insert(name.into(), receiver);
        }
        users.keep_members(|name| self.receivers.contains_key(name));
    }

    /// The next announcement to a node, if it lacks everything. It is asked for when the one before is answered.
    pub fn next(&mut self, admission: &Admission, node: &str) -> Option<Vec<u8>> {
        let announcement = self.receivers.get_mut(node)?.next(&admission.users)?;
        Some(announcement.to_bytes())
    }

    /// Whether a node lacks everything.
    pub fn has_next(&self, node: &str) -> bool {
        self.receivers.get(node).is_some_and(|it| match it.list {
            NameList::Due | NameList::UpTo(_) => true,
            NameList::Complete => !it.pending.is_empty(),
            NameList::Unwanted => false,
        })
    }

    /// A node has answered an announcement; `None` if the answer did not come, so that it may know nothing of it.
    pub fn note_answer(&mut self, node: &str, answer: Option<&[u8]>) {
        let Some(receiver) = self.receivers.get_mut(node) else { return };
        match answer.map(reaction) {
            Some(Reaction::Taken) => {}
            Some(Reaction::WantsAll) | None => receiver.begin_again(),
            Some(Reaction::NotUnderstood) => receiver.list = NameList::Unwanted,
        }
    }
}

impl Admission {
    /// Shares the counts of user names with other nodes from now on. `wake` is called on the thread of a shard when a count
    /// has changed; it only hands the news over. The first call counts.
    pub fn share_users(&self, wake: Box<dyn Fn() + Send + Sync>) {
        self.users.share(wake);
    }

    /// Whether user names have a limit: without one there is nothing to announce until other settings are applied, which
    /// wakes.
    pub fn limits_users(&self) -> bool {
        self.settings().max_connections_per_user != 0
    }

    /// Whether another node has announced user names.
    pub fn hears_users(&self) -> bool {
        self.users.hears_others()
    }

    /// Another node is linked, which may know nothing of this one: it gets all user names.
    pub fn note_linked(&self, node: &str) {
        self.users.note_linked(node);
    }

    /// Takes another node's announcement of user names. Returns the answer to it; `None` if the bytes are no announcement.
    pub fn take_users(&self, node: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        self.users.take_announcement(node, bytes)
    }
}
