//! One partition in memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Weak;

use bytes::Bytes;

use super::change::{Change, Origin};
use crate::feed::Feed;
use crate::{Bounds, BusError, Epoch, Keep, LogPartition, Position, Record};

/// Appends of one client that a partition remembers. A client has at most this number of unanswered appends.
pub(super) const REMEMBERED_APPENDS: usize = 1_024;
/// Clients whose appends a partition remembers. Beyond it the client whose last append is the oldest is forgotten.
const REMEMBERED_CLIENTS: usize = 256;

/// The last appends of a client, to recognise appends that are sent again.
#[derive(Default)]
struct Remembered {
    /// The highest number.
    last: u64,
    /// Numbers and where their records are, ascending.
    stored: VecDeque<(u64, Position)>,
}

/// Whether a partition knows an append.
pub(super) enum Earlier {
    /// It is new.
    None,
    /// It is stored, or on its way to the disk, at this position.
    At(Position),
    /// Later appends of the client are stored, and this one is not.
    Overtaken,
}

/// The records that are confirmed, and the numbers for records that are on their way to the disk.
#[derive(Default)]
pub(super) struct Partition {
    records: BTreeMap<Position, Record>,
    /// Of each key the latest record, where only that is kept.
    latest: HashMap<Bytes, Position>,
    first: Position,
    /// Everything below is confirmed.
    end: Position,
    /// The position of the next record or claim.
    next: Position,
    pub(super) owner: Option<Epoch>,
    /// Bytes of the records.
    pub(super) bytes: u64,
    pending: u64,
    pending_bytes: u64,
    feeds: Vec<Weak<Feed>>,
    clients: HashMap<u64, Remembered>,
}

impl Partition {
    /// Gives out the next position.
    pub(super) fn advance(&mut self) -> Position {
        let position = self.next;
        self.next = position.next();
        position
    }

    /// Takes room for a record that is about to be appended.
    pub(super) fn reserve(
        &mut self,
        size: u64,
        key: &Bytes,
        place: &LogPartition,
        max: (u64, u64),
    ) -> Result<(), BusError> {
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

    /// Whether an append was sent before.
    pub(super) fn earlier(&self, origin: Origin) -> Earlier {
        let Some(client) = self.clients.get(&origin.client).filter(|client| origin.number <= client.last) else {
            return Earlier::None;
        };
        let found = client.stored.binary_search_by_key(&origin.number, |(number, _)| *number);
        found.map_or(Earlier::Overtaken, |at| client.stored.get(at).map_or(Earlier::Overtaken, |it| Earlier::At(it.1)))
    }

    /// Remembers an append, in case it is sent again.
    pub(super) fn remember(&mut self, origin: Origin, position: Position) {
        if !self.clients.contains_key(&origin.client) && self.clients.len() >= REMEMBERED_CLIENTS {
            let last = |client: &Remembered| client.stored.back().map(|(_, position)| *position);
            let oldest = self.clients.iter().min_by_key(|(_, client)| last(client)).map(|(client, _)| *client);
            oldest.and_then(|oldest| self.clients.remove(&oldest));
        }
        let client = self.clients.entry(origin.client).or_default();
        client.last = origin.number;
        client.stored.push_back((origin.number, position));
        if client.stored.len() > REMEMBERED_APPENDS {
            client.stored.pop_front();
        }
    }

    /// Whether the record at a position is durable.
    pub(super) fn is_confirmed(&self, position: Position) -> bool {
        position < self.end
    }

    /// Repeats a change from a file.
    pub(super) fn recover(&mut self, change: Change, keep: Keep) {
        match change {
            Change::Claim { position, .. } => self.owner = Some(Epoch(position)),
            Change::Record { origin: Some(origin), ref record, .. } => self.remember(origin, record.position),
            Change::Remembered { client, last, stored, .. } => {
                self.clients.insert(client, Remembered { last, stored: stored.into() });
                return;
            }
            _ => {}
        }
        self.apply(change, keep);
    }

    /// Makes a change that is durable visible. A claim holds since it was made, and may have ended.
    pub(super) fn apply(&mut self, change: Change, keep: Keep) {
        match change {
            Change::Spec { .. } | Change::Remembered { .. } => {}
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
        // Records beyond the end are not there yet.
        let below = below.min(self.end);
        self.first = self.first.max(below);
        self.forget_clients();
        let left = self.records.split_off(&below);
        for record in std::mem::replace(&mut self.records, left).into_values() {
            self.bytes -= record.size() as u64;
            if self.latest.get(&record.key) == Some(&record.position) {
                self.latest.remove(&record.key);
            }
        }
    }

    /// Forgets clients whose last append is trimmed, and so far behind that no answer to it is under way.
    fn forget_clients(&mut self) {
        let Some(oldest) = self.first.0.checked_sub(REMEMBERED_APPENDS as u64) else { return };
        self.clients.retain(|_, client| client.stored.back().is_some_and(|(_, at)| at.0 >= oldest));
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds { first: self.first, next: self.end }
    }

    /// The changes with which a new file describes this partition.
    pub(super) fn image(&self, partition: u32, out: &mut Vec<Change>) {
        let owner = self.owner.map(|owner| owner.0);
        out.push(Change::Base { partition, first: self.first, next: self.end, owner });
        for (client, remembered) in &self.clients {
            // Records on their way to the disk follow in the file.
            let stored: Vec<_> = remembered.stored.iter().filter(|(_, at)| self.is_confirmed(*at)).copied().collect();
            if let Some((last, _)) = stored.last().copied() {
                out.push(Change::Remembered { partition, client: *client, last, stored });
            }
        }
        let change = |record: &Record| Change::Record { partition, origin: None, record: record.clone() };
        out.extend(self.records.values().map(change));
    }

    pub(super) fn add(&mut self, feed: Weak<Feed>) {
        self.feeds.push(feed);
    }

    /// Gives the readers records for their room. Returns the feeds with news, to be woken without a lock.
    pub(super) fn pump(&mut self, place: &LogPartition, keep: Keep) -> Vec<std::sync::Arc<Feed>> {
        self.feeds.retain(|feed| feed.upgrade().is_some_and(|feed| !feed.has_ended()));
        let feeds = self.feeds.iter().filter_map(Weak::upgrade);
        feeds.filter(|feed| self.fill(feed, place, keep)).collect()
    }

    fn fill(&self, feed: &Feed, place: &LogPartition, keep: Keep) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_whose_appends_are_long_trimmed_is_forgotten() {
        let mut partition = Partition::default();
        let end = REMEMBERED_APPENDS as u64 + 5;
        for number in 0..end {
            let position = partition.advance();
            // The first client appends twice, and then another one.
            partition.remember(Origin { client: u64::from(number > 1), number }, position);
            let record = Record { position, key: Bytes::new(), headers: Vec::new(), payload: Bytes::new() };
            partition.apply(Change::Record { partition: 0, origin: None, record }, Keep::All);
        }
        let knows = |partition: &Partition, client, number| {
            matches!(partition.earlier(Origin { client, number }), Earlier::At(_))
        };
        partition.apply(Change::Trim { partition: 0, below: Position(2) }, Keep::All);
        assert!(knows(&partition, 0, 1), "its answer may be under way");
        partition.apply(Change::Trim { partition: 0, below: Position(end) }, Keep::All);
        assert!(!knows(&partition, 0, 1) && knows(&partition, 1, end - 1));
    }
}
