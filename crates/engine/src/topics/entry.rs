//! One filter and all its subscribers.

use std::collections::BTreeMap;

use crate::ids::{ShardId, TenantId};

use super::GroupKey;
use super::subscriber::Packed;

/// A filter of a tenant with its subscribers. Most filters of most brokers have exactly one, which needs no further
/// memory than this.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) filter: Box<str>,
    /// One subscriber, or [`Packed::NONE`]; there are others only beside it.
    first: Packed,
    more: Option<Box<More>>,
    /// Shards that want messages for this filter, one bit each.
    remote: u64,
    /// The trie's node of a filter with wildcards.
    pub(super) node: u32,
    pub(super) tenant: TenantId,
}

const _: () = assert!(size_of::<Entry>() <= 48, "an entry is the main cost of an idle client");

#[derive(Debug, Default)]
struct More {
    subscribers: Others,
    groups: Vec<GroupKey>,
}

/// The subscribers beside the first, one per session.
#[derive(Debug)]
enum Others {
    /// In the order of sessions.
    Few(Vec<Packed>),
    /// Options and identifiers by session: moving megabytes for each client of a crowd that leaves would hurt.
    Many(BTreeMap<u32, u32>),
}

/// The longest list that is kept in one piece.
const FEW_MAX: usize = 128;
/// A crowd that has shrunk to this is a list again.
const MANY_MIN: usize = 64;

impl Entry {
    pub(super) fn new(tenant: TenantId, filter: &str, node: u32) -> Self {
        Self { filter: filter.into(), first: Packed::NONE, more: None, remote: 0, node, tenant }
    }

    /// Whether a session or group of this shard is interested.
    #[inline]
    pub(super) fn has_local(&self) -> bool {
        !self.first.is_none() || self.more.is_some()
    }

    /// True if no session, group or shard is interested any more.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_local() && self.remote == 0
    }

    /// Adds a subscriber or replaces the one of the same session, which is returned.
    pub(super) fn put(&mut self, new: Packed) -> Option<Packed> {
        if self.first.is_none() {
            self.first = new;
            return None;
        }
        if self.first.session() == new.session() {
            return Some(std::mem::replace(&mut self.first, new));
        }
        self.more.get_or_insert_default().subscribers.put(new)
    }

    /// Takes the subscriber of a session out.
    pub(super) fn take(&mut self, session: u32) -> Option<Packed> {
        let taken = if self.first.session() == session && !self.first.is_none() {
            let next = self.more.as_mut().and_then(|more| more.subscribers.pop());
            std::mem::replace(&mut self.first, next.unwrap_or(Packed::NONE))
        } else {
            self.more.as_mut()?.subscribers.take(session)?
        };
        self.drop_more_if_empty();
        Some(taken)
    }

    /// The subscriber of a session.
    pub(super) fn find(&self, session: u32) -> Option<Packed> {
        if self.first.is_none() {
            return None;
        }
        if self.first.session() == session {
            return Some(self.first);
        }
        self.more.as_ref()?.subscribers.find(session)
    }

    /// Calls `visit` with each subscriber.
    #[inline]
    pub(super) fn for_each(&self, mut visit: impl FnMut(Packed)) {
        if !self.first.is_none() {
            visit(self.first);
        }
        match self.more.as_ref().map(|more| &more.subscribers) {
            None => {}
            Some(Others::Few(list)) => list.iter().copied().for_each(visit),
            Some(Others::Many(map)) => {
                for (session, rest) in map {
                    visit(Packed::from_parts(*session, *rest));
                }
            }
        }
    }

    /// Number of subscribers.
    #[inline]
    pub(super) fn subscribers(&self) -> usize {
        let others = match self.more.as_ref().map(|more| &more.subscribers) {
            None => 0,
            Some(Others::Few(list)) => list.len(),
            Some(Others::Many(map)) => map.len(),
        };
        usize::from(!self.first.is_none()) + others
    }

    /// The shared groups dealt by this shard.
    #[inline]
    pub(super) fn groups(&self) -> &[GroupKey] {
        self.more.as_ref().map_or(&[], |more| &more.groups)
    }

    /// Adds a group; returns whether it is new.
    pub(super) fn put_group(&mut self, group: GroupKey) -> bool {
        if self.groups().contains(&group) {
            return false;
        }
        self.more.get_or_insert_default().groups.push(group);
        true
    }

    /// Takes a group out; returns whether it was there.
    pub(super) fn take_group(&mut self, group: GroupKey) -> bool {
        let Some(more) = &mut self.more else {
            return false;
        };
        let Some(place) = more.groups.iter().position(|other| *other == group) else {
            return false;
        };
        more.groups.swap_remove(place);
        self.drop_more_if_empty();
        true
    }

    /// Shards that want messages for this filter, one bit each.
    #[inline]
    pub(super) fn remote(&self) -> u64 {
        self.remote
    }

    /// Notes whether another shard is interested; returns whether that is news.
    /// Whether another shard is interested.
    pub(super) fn is_remote(&self, shard: ShardId) -> bool {
        self.remote >> (shard.0 & 63) & 1 != 0
    }

    pub(super) fn set_remote(&mut self, shard: ShardId, interested: bool) -> bool {
        debug_assert!(shard.0 < crate::ids::MAX_SHARDS, "{shard} has no bit");
        let bit = 1_u64 << (u32::from(shard.0) % u64::BITS);
        let before = self.remote;
        self.remote = if interested { before | bit } else { before & !bit };
        self.remote != before
    }

    fn drop_more_if_empty(&mut self) {
        let more = self.more.as_deref();
        if more.is_some_and(|more| more.groups.is_empty() && more.subscribers.is_empty()) {
            self.more = None;
        }
    }
}

impl Default for Others {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Others {
    fn is_empty(&self) -> bool {
        match self {
            Self::Few(list) => list.is_empty(),
            Self::Many(map) => map.is_empty(),
        }
    }

    fn find(&self, session: u32) -> Option<Packed> {
        match self {
            Self::Few(list) => {
                let place = list.binary_search_by_key(&session, |other| other.session());
                place.ok().map(|place| list[place])
            }
            Self::Many(map) => {
                let rest = map.get(&session)?;
                Some(Packed::from_parts(session, *rest))
            }
        }
    }

    fn put(&mut self, new: Packed) -> Option<Packed> {
        match self {
            Self::Few(list) => {
                match list.binary_search_by_key(&new.session(), |other| other.session()) {
                    Ok(place) => return Some(std::mem::replace(&mut list[place], new)),
                    Err(place) => list.insert(place, new),
                }
                if list.len() > FEW_MAX {
                    let parts = list.iter().map(|one| (one.session(), one.options_and_id()));
                    *self = Self::Many(parts.collect());
                }
                None
            }
            Self::Many(map) => {
                let old = map.insert(new.session(), new.options_and_id())?;
                Some(Packed::from_parts(new.session(), old))
            }
        }
    }

    fn take(&mut self, session: u32) -> Option<Packed> {
        match self {
            Self::Few(list) => {
                let place = list.binary_search_by_key(&session, |other| other.session());
                place.ok().map(|place| list.remove(place))
            }
            Self::Many(map) => {
                let rest = map.remove(&session)?;
                self.settle();
                Some(Packed::from_parts(session, rest))
            }
        }
    }

    fn pop(&mut self) -> Option<Packed> {
        match self {
            Self::Few(list) => list.pop(),
            Self::Many(map) => {
                let (session, rest) = map.pop_last()?;
                self.settle();
                Some(Packed::from_parts(session, rest))
            }
        }
    }

    /// Makes a crowd that has shrunk a list again.
    fn settle(&mut self) {
        if let Self::Many(map) = self
            && map.len() <= MANY_MIN
        {
            let parts = map.iter().map(|(session, rest)| Packed::from_parts(*session, *rest));
            *self = Self::Few(parts.collect());
        }
    }
}
