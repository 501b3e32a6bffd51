//! A filter that makes a broker close the connection is found, and not asked for there.
//!
//! Filters that were unanswered when a broker closed the connection are asked for one at a time on the next one. A
//! filter that is asked for alone when the broker closes the connection again and again counts as refused, and is tried
//! again more rarely.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::asking::Change;
use crate::now::Millis;

/// How often a filter has to be under way alone when the broker closes the connection until it is not asked for any
/// more.
const BLAMED_MAX: u8 = 2;
/// Filters known of one broker that end its connections; beyond it the oldest is forgotten.
const ENDING_MAX: usize = 1_024;
/// After how long a broker is asked for one of these again, milliseconds; each time it may cost a connection.
const ASK_ENDING_AGAIN_MS: u64 = 600_000;

/// The filters of a broker that end its connections, and the suspects.
#[derive(Debug)]
pub(crate) struct Ending {
    /// Unanswered when a connection was closed, each with how often it was so alone.
    suspects: BTreeMap<Box<str>, u8>,
    /// The filters that end connections, in the order in which they are tried again.
    known: VecDeque<Box<str>>,
    /// Time of the next attempt.
    pub(super) again_at: Millis,
}

impl Default for Ending {
    fn default() -> Self {
        Self { suspects: BTreeMap::new(), known: VecDeque::new(), again_at: Millis::NEVER }
    }
}

impl Ending {
    /// Whether a filter is to be requested alone.
    pub(super) fn is_suspect(&self, filter: &str) -> bool {
        self.suspects.contains_key(filter)
    }

    /// Whether no filter is to be requested alone.
    pub(super) fn suspects_nothing(&self) -> bool {
        self.suspects.is_empty()
    }

    /// Whether a filter ends connections.
    pub(super) fn is_known(&self, filter: &str) -> bool {
        self.known.iter().any(|known| **known == *filter)
    }

    /// The broker has answered for a filter.
    pub(crate) fn note_answered(&mut self, filter: &str) {
        self.suspects.remove(filter);
    }

    /// Moves suspects to the end, so that they are asked for after all others, and removes filters that must not be
    /// asked for. Returns the filters that count as refused from the beginning.
    pub(super) fn arrange(
        &mut self,
        queue: &mut VecDeque<Change>,
        wanted: &BTreeMap<Box<str>, u64>,
    ) -> BTreeSet<Box<str>> {
        let all = std::mem::take(queue);
        let all = all.into_iter().filter(|change| !self.is_known(&change.filter));
        let (alone, mut rest): (VecDeque<Change>, VecDeque<Change>) =
            all.partition(|change| self.is_suspect(&change.filter));
        self.suspects.retain(|filter, _| alone.iter().any(|change| change.filter == *filter));
        rest.extend(alone);
        *queue = rest;
        self.known.iter().filter(|filter| wanted.contains_key(*filter)).cloned().collect()
    }

    /// The broker has closed the connection while these were unanswered. Returns the filter that ends connections, once
    /// it is found.
    pub(crate) fn note_closed<'a>(
        &mut self,
        mut asked: impl Iterator<Item = &'a Change>,
        now: Millis,
    ) -> Option<&'a str> {
        let first = asked.next()?;
        let others: Vec<&Change> = asked.collect();
        let blamed = others.is_empty() && self.is_suspect(&first.filter);
        let times = self.suspects.entry(first.filter.clone()).or_default();
        *times += u8::from(blamed);
        if *times < BLAMED_MAX {
            self.suspects.extend(others.into_iter().map(|change| (change.filter.clone(), 0)));
            return None;
        }
        self.suspects.remove(&first.filter);
        if self.known.len() >= ENDING_MAX {
            self.known.pop_front();
        }
        self.known.push_back(first.filter.clone());
        self.again_at = now.plus(ASK_ENDING_AGAIN_MS);
        Some(&first.filter)
    }

    /// The filter that is tried again now, if any is.
    pub(super) fn next_again(&mut self, now: Millis, wanted: &BTreeMap<Box<str>, u64>) -> Option<Box<str>> {
        if self.again_at > now {
            return None;
        }
        let filter = self.known.pop_front();
        self.again_at = if self.known.is_empty() { Millis::NEVER } else { now.plus(ASK_ENDING_AGAIN_MS) };
        let filter = filter.filter(|filter| wanted.contains_key(filter))?;
        self.suspects.insert(filter.clone(), BLAMED_MAX - 1);
        Some(filter)
    }
}
