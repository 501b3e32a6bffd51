//! Fetches begin some in each turn: a SUBSCRIBE may name ten thousand filters, and each of them needs a fetch.

use super::Fetches;
use crate::connection::FetchRequest;
use crate::ids::SessionKey;
use crate::session::Session;
use crate::session::table::Sessions;
use std::collections::{BTreeSet, VecDeque};

/// Fetches that begin in one turn, of all SUBSCRIBE packets together with more than [`STARTS_IN_ANY_CASE`].
pub(super) const STARTS_PER_TURN: usize = 64;

/// Fetches of one SUBSCRIBE that begin at once. Most clients have no more, and need no place in the queue.
pub(crate) const STARTS_IN_ANY_CASE: usize = 8;

/// New subscriptions of one SUBSCRIBE whose fetches have not begun.
#[derive(Debug)]
pub(super) struct Starting {
    pub(super) session: SessionKey,
    requests: VecDeque<FetchRequest>,
}

impl Fetches {
    /// Notes new subscriptions of a session. Their fetches begin in this turn or in later ones.
    pub(crate) fn start_later(&mut self, sessions: &mut Sessions, session: SessionKey, requests: Vec<FetchRequest>) {
        let Some(one) = sessions.get_mut(session.0).filter(|_| !requests.is_empty()) else { return };
        one.rare_mut().fetches_starting += requests.len() as u32;
        self.starting.push_back(Starting { session, requests: requests.into() });
    }

    /// A turn begins.
    pub(crate) fn allow_starts(&mut self) {
        self.starts = STARTS_PER_TURN;
    }

    /// The next subscription whose fetch begins in this turn.
    pub(crate) fn next_start(&mut self, sessions: &mut Sessions) -> Option<(SessionKey, FetchRequest)> {
        if self.starts == 0 {
            return None;
        }
        let first = self.starting.front_mut()?;
        let (session, request) = (first.session, first.requests.pop_front()?);
        if first.requests.is_empty() {
            self.starting.pop_front();
        }
        self.starts -= 1;
        if let Some(rare) = sessions.get_mut(session.0).and_then(|session| session.rare.as_mut()) {
            rare.fetches_starting = rare.fetches_starting.saturating_sub(1);
        }
        Some((session, request))
    }

    /// The filters of a session whose fetches have not begun.
    pub(crate) fn starting_of(&self, session: &Session, key: SessionKey) -> BTreeSet<&str> {
        if session.rare.as_ref().is_none_or(|rare| rare.fetches_starting == 0) {
            return BTreeSet::new();
        }
        let of_session = self.starting.iter().filter(|one| one.session == key);
        of_session.flat_map(|one| &one.requests).map(|request| &*request.filter).collect()
    }
}
