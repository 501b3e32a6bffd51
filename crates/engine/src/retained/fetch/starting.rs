//! Fetches begin some in each turn: a SUBSCRIBE may name ten thousand filters, and each of them needs a fetch.

use super::Fetches;
use crate::ids::SessionKey;
use crate::retained::fetch::settle_fetches;
use crate::state::ShardState;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Fetches that begin in one turn, of all SUBSCRIBE packets together with more than [`STARTS_IN_ANY_CASE`].
pub(super) const STARTS_PER_TURN: usize = 64;

/// Fetches of one SUBSCRIBE that begin at once. Most clients have no more, and need no place in the queue.
pub(crate) const STARTS_IN_ANY_CASE: usize = 8;

/// Bytes of a filter that waits, beside its text: its place in the set, and the allocator's overhead.
const WAITING_FILTER_BYTES: u64 = 64;

/// Subscriptions whose fetches have not begun.
///
/// A session has each filter once, and only while it is subscribed to it. So `limits.max_subscriptions_per_client`
/// bounds them too.
#[derive(Debug, Default)]
pub(super) struct Starting {
    /// Their filters, by session. No set is empty.
    filters: BTreeMap<u32, BTreeSet<Box<str>>>,
    /// The session whose fetch began last: sessions begin one fetch after another, so that none waits for ten thousand
    /// filters of another.
    last: u32,
}

impl Starting {
    pub(super) fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// How many wait of a session.
    pub(super) fn count_of(&self, session: SessionKey) -> usize {
        self.filters.get(&session.0).map_or(0, BTreeSet::len)
    }

    /// How many wait of all sessions.
    pub(super) fn count(&self) -> usize {
        self.filters.values().map(BTreeSet::len).sum()
    }

    fn take_next(&mut self) -> Option<(SessionKey, Box<str>)> {
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let next = self.filters.range(behind).next().or_else(|| self.filters.first_key_value());
        let session = *next?.0;
        let filters = self.filters.get_mut(&session)?;
        let filter = filters.pop_first()?;
        if filters.is_empty() {
            self.filters.remove(&session);
        }
        self.last = session;
        Some((SessionKey(session), filter))
    }

    fn remove(&mut self, session: SessionKey, filter: &str) -> bool {
        let Some(filters) = self.filters.get_mut(&session.0) else { return false };
        let removed = filters.remove(filter);
        if filters.is_empty() {
            self.filters.remove(&session.0);
        }
        removed
    }

    /// A filter of a session that was taken out counts no more.
    fn uncount(state: &mut ShardState, session: SessionKey, filter: &str) {
        state.memory.held -= waiting_bytes(filter);
        if let Some(rare) = state.sessions.get_mut(session.0).and_then(|session| session.rare.as_mut()) {
            rare.fetches_starting = rare.fetches_starting.saturating_sub(1);
        }
    }
}

/// Bytes that a waiting filter counts.
fn waiting_bytes(filter: &str) -> u64 {
    WAITING_FILTER_BYTES + filter.len() as u64
}

impl Fetches {
    /// Notes a new subscription of a session, whose fetch begins in this turn or in a later one. One that waits already
    /// begins once for both.
    pub(crate) fn start_later(&mut self, state: &mut ShardState, session: SessionKey, filter: Box<str>) {
        let Some(one) = state.sessions.get_mut(session.0) else { return };
        let bytes = waiting_bytes(&filter);
        if self.starting.filters.entry(session.0).or_default().insert(filter) {
            one.rare_mut().fetches_starting += 1;
            state.memory.held += bytes;
        }
    }

    /// A turn begins.
    pub(crate) fn allow_starts(&mut self) {
        self.starts = STARTS_PER_TURN;
    }

    /// The next subscription whose fetch begins in this turn.
    pub(crate) fn next_start(&mut self, state: &mut ShardState) -> Option<(SessionKey, Box<str>)> {
        if self.starts == 0 {
            return None;
        }
        let (session, filter) = self.starting.take_next()?;
        self.starts -= 1;
        Starting::uncount(state, session, &filter);
        Some((session, filter))
    }

    /// The fetch of a subscription does not begin later: its client has unsubscribed, or it begins now. Returns whether
    /// it waited.
    pub(crate) fn withdraw_start(&mut self, state: &mut ShardState, session: SessionKey, filter: &str) -> bool {
        let waits = self.starting.remove(session, filter);
        if waits {
            Starting::uncount(state, session, filter);
        }
        waits
    }

    /// No fetch of a session begins later.
    pub(super) fn withdraw_starts(&mut self, state: &mut ShardState, session: SessionKey) {
        for filter in self.starting.filters.remove(&session.0).unwrap_or_default() {
            Starting::uncount(state, session, &filter);
        }
    }

    /// Ends the fetch for a subscription that is gone, also if it has not begun.
    pub(crate) fn forget_fetch_of(&mut self, state: &mut ShardState, session: SessionKey, filter: &str) {
        if self.withdraw_start(state, session, filter)
            && let Some(session) = state.sessions.get_mut(session.0)
        {
            settle_fetches(session);
        }
        self.end_fetch_of(&mut state.sessions, session, filter);
    }

    /// Whether the fetch of a session's subscription has not begun.
    pub(crate) fn is_starting(&self, session: SessionKey, filter: &str) -> bool {
        self.starting.filters.get(&session.0).is_some_and(|filters| filters.contains(filter))
    }

    /// Bytes of the subscriptions whose fetches have not begun, counted one by one.
    pub(crate) fn starting_bytes(&self) -> u64 {
        self.starting.filters.values().flatten().map(|filter| waiting_bytes(filter)).sum()
    }
}
