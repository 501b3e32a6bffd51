//! One partition in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Weak;

use bytes::Bytes;

use super::change::Change;
use crate::feed::Feed;
use crate::{Bounds, BusError, Epoch, Keep, Place, Position, Record};

/// The records that are confirmed, and the numbers for those that are on their way to the disk.
#[derive(Default)]
pub(super) struct Partition {
    records: BTreeMap<Position, Record>,
    /// Of each key the latest record, where only that is kept.
    latest: HashMap<Bytes, Position>,
    first: Position,
    /// Everything below is confirmed.
    end: Position,
    /// The position of what comes next.
    next: Position,
    pub(super) owner: Option<Epoch>,
    /// Bytes of the records.
    pub(super) bytes: u64,
    pending: u64,
    pending_bytes: u64,
    feeds: Vec<Weak<Feed>>,
}

impl Partition {
    /// Gives out the next position.
    pub(super) fn advance(&mut self) -> Position {
        let position = self.next;
        self.next = position.next();
        position
    }

    /// Takes room for a record that is about to be appended.
    pub(super) fn reserve(&mut self, size: u64, key: &Bytes, place: &Place, max: (u64, u64)) -> Result<(), BusError> {
        let full = |limit: &str| Err(BusError::Full { place: place.clone(), limit: limit.to_owned() });
        let is_replaced = self.latest.contains_key(key);
        if !is_replaced && self.records.len() as u64 + self.pending >= max.0 {
            return full("max_records");
        }
        if self.bytes + self.pending_bytes + size > max.1 {
            return full("max_bytes");
        }
        self.pending += 1;
        self.pending_bytes += size;
        Ok(())
    }

    /// Gives back the room of a record: it was stored, or could not be.
    pub(super) fn settle(&mut self, size: u64) {
        self.pending -= 1;
        self.pending_bytes -= size;
    }

    /// Makes a change again that a file tells of.
    pub(super) fn recover(&mut self, change: Change, keep: Keep) {
        if let Change::Claim { position, .. } = change {
            self.owner = Some(Epoch(position));
        }
        self.apply(change, keep);
    }

    /// Makes a change that is durable visible. A claim holds since it was made, and may have ended.
    pub(super) fn apply(&mut self, change: Change, keep: Keep) {
        match change {
            Change::Spec { .. } => {}
            Change::Base { first, next, owner, .. } => {
                (self.first, self.end, self.next) = (first, next, self.next.max(next));
                self.owner = owner.map(Epoch);
            }
            Change::Record { record, .. } => {
                self.reach(record.position.next());
                if keep == Keep::LatestOfKey
                    && let Some(earlier) = self.latest.insert(record.key.clone(), record.position)
                {
                    self.remove(earlier);
                }
                self.bytes += record.size() as u64;
                self.records.insert(record.position, record);
            }
            Change::Claim { position, .. } => {
                self.reach(position.next());
            }
            Change::Trim { below, .. } => self.trim(below),
        }
    }

    fn reach(&mut self, end: Position) {
        self.end = self.end.max(end);
        self.next = self.next.max(end);
    }

    fn remove(&mut self, position: Position) {
        if let Some(record) = self.records.remove(&position) {
            self.bytes -= record.size() as u64;
        }
    }

    fn trim(&mut self, below: Position) {
        // Nobody trims what is not there yet.
        let below = below.min(self.end);
        self.first = self.first.max(below);
        let left = self.records.split_off(&below);
        for record in std::mem::replace(&mut self.records, left).into_values() {
            self.bytes -= record.size() as u64;
            if self.latest.get(&record.key) == Some(&record.position) {
                self.latest.remove(&record.key);
            }
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds { first: self.first, next: self.end }
    }

    /// What a new file has to say of this partition.
    pub(super) fn image(&self, partition: u32, out: &mut Vec<Change>) {
        let owner = self.owner.map(|owner| owner.0);
        out.push(Change::Base { partition, first: self.first, next: self.end, owner });
        out.extend(self.records.values().map(|record| Change::Record { partition, record: record.clone() }));
    }

    pub(super) fn add(&mut self, feed: Weak<Feed>) {
        self.feeds.push(feed);
    }

    /// Gives the readers what they have room for. Returns those that have news, to be woken without a lock.
    pub(super) fn pump(&mut self, place: &Place, keep: Keep) -> Vec<std::sync::Arc<Feed>> {
        self.feeds.retain(|feed| feed.upgrade().is_some_and(|feed| !feed.has_ended()));
        let feeds = self.feeds.iter().filter_map(Weak::upgrade);
        feeds.filter(|feed| self.fill(feed, place, keep)).collect()
    }

    fn fill(&self, feed: &Feed, place: &Place, keep: Keep) -> bool {
        let from = feed.next();
        if from < self.first {
            if from > Position::START && keep == Keep::All {
                feed.fail(BusError::Trimmed { place: place.clone(), from, first: self.first });
                return true;
            }
            feed.pass(self.first);
        }
        for record in self.records.range(feed.next()..).map(|(_, record)| record) {
            if !feed.has_room() {
                return feed.next() > from;
            }
            feed.push(record.clone());
        }
        feed.pass(self.end);
        feed.next() > from
    }
}
