//! How many connections each user name has, here and at the other nodes of a cluster.
//!
//! Nodes announce their counts to each other: all at the beginning of a link, and then the changed ones. A count is
//! always the whole count of a name at a node, so an announcement may be repeated. A node admits a connection if its own
//! count and the last announced ones leave room. So the limit is exceeded by at most the connections that other nodes admit
//! between a change and the arrival of its announcement.

mod announcement;
mod exchange;
mod key;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Mutex, OnceLock};

use tidegate_engine::TenantId;

use super::lock;
pub use announcement::USERS_ANNOUNCEMENT;
use announcement::UserCounts;
pub use exchange::UserExchange;
use key::UserKey;

/// A user name of a tenant.
pub(crate) type UserName = (TenantId, Box<str>);

/// Parts of the table, with a lock each. The first byte of a key selects its part, so the parts are in the order of keys.
const PARTS: usize = 64;
/// Counts of other nodes that are remembered, over all parts. A name beyond it counts at each node alone.
const ELSEWHERE_MAX: usize = 1_000_000;
/// Changed names of a part that wait for an announcement. Beyond it all names are announced.
const CHANGED_MAX: usize = 1_024;

/// The user names with connections; there are never more than connections.
#[derive(Debug)]
pub(crate) struct Users {
    parts: Box<[Mutex<UserPart>]>,
    nodes: Mutex<KnownNodes>,
    sharing: UserSharing,
}

/// The names of one part.
#[derive(Debug, Default)]
struct UserPart {
    here: BTreeMap<UserKey, u32>,
    /// The counts at other nodes, each with the number of the node.
    elsewhere: BTreeMap<UserKey, Vec<(u32, u32)>>,
    /// How many counts these are.
    known: usize,
    changed: BTreeSet<UserKey>,
    /// More have changed than are remembered.
    has_lost: bool,
}

/// The nodes that have announced names.
#[derive(Debug, Default)]
struct KnownNodes {
    by_name: BTreeMap<Box<str>, u32>,
    next: u32,
}

/// The thread that announces.
#[derive(Default)]
struct UserSharing {
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    is_woken: AtomicBool,
    /// Other nodes get announcements. Without them a change costs nothing.
    announces: AtomicBool,
    /// Nodes that have been linked since the last look.
    linked: Mutex<BTreeSet<Box<str>>>,
    /// The number of nodes that have announced names.
    heard: AtomicU32,
    /// The log has said that not all names are remembered.
    has_warned: AtomicBool,
}

impl std::fmt::Debug for UserSharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserSharing").field("linked", &self.linked).finish_non_exhaustive()
    }
}

impl UserPart {
    fn elsewhere(&self, user: &UserKey) -> u64 {
        self.elsewhere.get(user).into_iter().flatten().map(|(_, count)| u64::from(*count)).sum()
    }

    fn note_changed(&mut self, user: UserKey) {
        if self.changed.len() < CHANGED_MAX {
            self.changed.insert(user);
        } else {
            self.has_lost |= !self.changed.contains(&user);
        }
    }

    /// Takes the count of a name at a node. Returns whether it is remembered.
    fn take(&mut self, node: u32, user: UserKey, count: u32) -> bool {
        let counts = self.elsewhere.get_mut(&user);
        if let Some(counts) = counts
            && let Some(place) = counts.iter().position(|(of, _)| *of == node)
        {
            if count > 0 {
                counts[place].1 = count;
                return true;
            }
            counts.swap_remove(place);
            self.known -= 1;
            if counts.is_empty() {
                self.elsewhere.remove(&user);
            }
            return true;
        }
        if count == 0 {
            return true;
        }
        if self.known >= ELSEWHERE_MAX / PARTS {
            return false;
        }
        self.known += 1;
        self.elsewhere.entry(user).or_default().push((node, count));
        true
    }

    fn forget(&mut self, node: u32) {
        self.elsewhere.retain(|_, counts| {
            counts.retain(|(of, _)| *of != node);
            !counts.is_empty()
        });
        self.known = self.elsewhere.values().map(Vec::len).sum();
    }
}

impl Users {
    pub(crate) fn new() -> Self {
        let parts = std::iter::repeat_with(Mutex::default).take(PARTS).collect();
        Self { parts, nodes: Mutex::default(), sharing: UserSharing::default() }
    }

    fn part(&self, user: &UserKey) -> &Mutex<UserPart> {
        &self.parts[user.part(PARTS)]
    }

    /// Counts one more connection; false when the user has `limit` over all nodes already and 0 does not lift it.
    pub(crate) fn claim(&self, user: &UserName, limit: u32) -> bool {
        let user = UserKey::of(user);
        let mut part = lock(self.part(&user));
        let count = part.here.get(&user).copied().unwrap_or_default();
        if limit != 0 && u64::from(count) + part.elsewhere(&user) >= u64::from(limit) {
            return false;
        }
        part.here.insert(user, count + 1);
        self.tell(&mut part, user);
        true
    }

    /// One connection of the user has ended.
    pub(crate) fn release(&self, user: &UserName) {
        let user = UserKey::of(user);
        let mut part = lock(self.part(&user));
        let Some(count) = part.here.get_mut(&user) else { return };
        *count -= 1;
        if *count == 0 {
            part.here.remove(&user);
        }
        self.tell(&mut part, user);
    }

    /// Notes a change for the next announcement.
    fn tell(&self, part: &mut UserPart, user: UserKey) {
        if self.sharing.announces.load(Relaxed) {
            part.note_changed(user);
            self.wake();
        }
    }

    /// User names with connections here.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| lock(part).here.len()).sum()
    }

    /// Announces changes from now on: `wake` is called when there is one, and only hands the news over. The first call
    /// counts.
    pub(crate) fn share(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.sharing.wake.set(wake);
    }

    /// Wakes the thread that announces, once for each look of it.
    pub(crate) fn wake(&self) {
        if let Some(wake) = self.sharing.wake.get()
            && !self.sharing.is_woken.swap(true, Relaxed)
        {
            wake();
        }
    }

    /// Another node is linked, which may know nothing of this one.
    pub(crate) fn note_linked(&self, node: &str) {
        lock(&self.sharing.linked).insert(node.into());
        self.wake();
    }

    /// Whether another node has announced names.
    pub(crate) fn hears_others(&self) -> bool {
        self.sharing.heard.load(Relaxed) > 0
    }

    /// Takes the announcement of another node. Returns the answer to it; `None` if the bytes are no announcement.
    pub(crate) fn take_announcement(&self, node: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let Some(announcement) = UserCounts::read(bytes) else { return announcement::refusal(bytes) };
        // Held to the end: a node that leaves meanwhile would keep counts which nothing ends.
        let mut nodes = lock(&self.nodes);
        if announcement.is_first {
            self.forget(&mut nodes, node);
            nodes.next += 1;
            let number = nodes.next;
            nodes.by_name.insert(node.into(), number);
            self.sharing.heard.store(nodes.by_name.len() as u32, Relaxed);
            // A node without a limit announces too, as soon as another one has one.
            self.wake();
        }
        let Some(number) = nodes.by_name.get(node).copied() else { return Some(announcement::answer(false)) };
        let mut forgotten = 0_usize;
        for (user, count) in &announcement.counts {
            forgotten += usize::from(!lock(self.part(user)).take(number, *user, *count));
        }
        drop(nodes);
        if forgotten > 0 && !self.sharing.has_warned.swap(true, Relaxed) {
            tracing::warn!(
                node,
                forgotten,
                limit = ELSEWHERE_MAX,
                "more user names are connected to other nodes than are remembered; these count at each node alone"
            );
        }
        Some(announcement::answer(true))
    }

    /// Forgets the counts of nodes that are no members of the cluster any more.
    pub(crate) fn keep_members(&self, is_member: impl Fn(&str) -> bool) {
        let mut nodes = lock(&self.nodes);
        let gone: Vec<Box<str>> = nodes.by_name.keys().filter(|name| !is_member(name)).cloned().collect();
        for name in gone {
            self.forget(&mut nodes, &name);
        }
        self.sharing.heard.store(nodes.by_name.len() as u32, Relaxed);
    }

    fn forget(&self, nodes: &mut KnownNodes, node: &str) {
        if let Some(number) = nodes.by_name.remove(node) {
            self.parts.iter().for_each(|part| lock(part).forget(number));
        }
    }

    /// Begins a look of the thread that announces: later changes wake it again, if there are nodes to announce them to. Returns
    /// the nodes that have been linked.
    fn begin_look(&self, announces: bool) -> BTreeSet<Box<str>> {
        self.sharing.announces.store(announces, Relaxed);
        self.sharing.is_woken.store(false, Relaxed);
        std::mem::take(&mut lock(&self.sharing.linked))
    }

    /// The names that have changed since the last call; `None` if more have changed than are remembered.
    fn take_changed(&self) -> Option<Vec<UserKey>> {
        let (mut changed, mut has_lost) = (Vec::new(), false);
        for part in &self.parts {
            let mut part = lock(part);
            changed.extend(std::mem::take(&mut part.changed));
            has_lost |= std::mem::take(&mut part.has_lost);
        }
        (!has_lost).then_some(changed)
    }

    /// The count of a name here.
    fn count(&self, user: &UserKey) -> u32 {
        lock(self.part(user)).here.get(user).copied().unwrap_or_default()
    }

    /// The next names behind one, with their counts here.
    fn counts_behind(&self, user: Option<UserKey>, most: usize) -> Vec<(UserKey, u32)> {
        let first = user.map_or(0, |user| user.part(PARTS));
        let mut counts = Vec::new();
        for part in &self.parts[first..] {
            let from = (user.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
            let part = lock(part);
            let next = part.here.range::<UserKey, _>(from).take(most - counts.len());
            counts.extend(next.map(|(user, count)| (*user, *count)));
        }
        counts
    }
}
