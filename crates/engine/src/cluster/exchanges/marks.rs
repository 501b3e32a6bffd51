//! The partitions that have a message of another node, or of a shard of this process whose messages cross to other
//! nodes as well.
//!
//! A message that a group has dealt has a name too: the id under which the dealing shard keeps it. The shard keeps it
//! until it knows that the outcome is committed. If the member's node dies before, the message is dealt to the same
//! member again, and the successor of that node knows by the name that the member has it.

use crate::ids::{Partitions, ShardId, ShardPosition};
use crate::journal::Journal;
use crate::journal::keys::Key;
use crate::link::exchange_word::ExchangeName;
use crate::link::got::Got;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tidegate_mqtt::QoS;

/// Limit of lives of shards with marks. Beyond it the life with the oldest last message is forgotten.
const ORIGINS_MAX: usize = 256;

/// Messages of groups that are remembered, the last ones: more than a shard is given while others find out that a node
/// is dead.
const DEALS_MAX: usize = 4096;

/// The origin of messages that groups have dealt.
const DEALS: u64 = 0;

/// Number of sets of partitions that are compared with the set of a new mark. The marks of a shard have few different
/// sets: its own partitions, with the groups of each other shard, and the sets of a move.
const RECENT_MAX: usize = 8;

/// The partitions that have a message, and the shards that store this mark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    /// The partitions that have got it. Marks with the same sets share them: they are 256 bytes.
    pub(crate) by: Arc<Got>,
    /// The shards under whose number it is stored, one bit each.
    pub(crate) stored: u64,
}

/// The marks of the messages of one life of a shard.
#[derive(Debug, Default)]
struct OfOrigin {
    /// When its last exchange word came, counted in words.
    heard: u64,
    by_number: BTreeMap<u64, Mark>,
}

/// The sets of the latest marks.
#[derive(Debug, Default)]
struct Recent(VecDeque<Arc<Got>>);

impl Recent {
    /// These sets, shared with an earlier mark if one of the latest had the same.
    fn share(&mut self, got: Got) -> Arc<Got> {
        if let Some(known) = self.0.iter().find(|known| ***known == got) {
            return Arc::clone(known);
        }
        self.0.truncate(RECENT_MAX - 1);
        let shared = Arc::new(got);
        self.0.push_front(Arc::clone(&shared));
        shared
    }
}

/// The marks of messages that came from other nodes, until their publishers have released them.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    words: u64,
    recent: Recent,
    origins: BTreeMap<u64, OfOrigin>,
    /// Ids of the messages that groups have dealt, in their order of arrival.
    deals: VecDeque<u64>,
}

impl ExchangeName {
    /// The name of the message that a group has dealt under this id.
    pub(crate) fn of_deal(id: u64) -> Self {
        Self { origin: DEALS, number: id }
    }
}

impl Marks {
    fn find(&self, name: ExchangeName) -> Option<&Mark> {
        self.origins.get(&name.origin)?.by_number.get(&name.number)
    }

    /// The partitions that have a message.
    pub(crate) fn get(&self, name: ExchangeName) -> Got {
        self.find(name).map_or(Got::EMPTY, |mark| *mark.by)
    }

    /// True if this shard, or a node that it succeeds, has accepted the QoS 2 message that a group keeps under an id.
    pub(crate) fn has_deal(&self, qos: QoS, id: u64) -> bool {
        qos == QoS::ExactlyOnce && id != 0 && self.find(ExchangeName::of_deal(id)).is_some()
    }

    /// The names of the messages that some partitions have, by the sets of partitions that have them.
    pub(crate) fn of_partitions(&self, partitions: Partitions) -> BTreeMap<Got, Vec<ExchangeName>> {
        let mut names: BTreeMap<Got, Vec<ExchangeName>> = BTreeMap::new();
        for (origin, marks) in &self.origins {
            for (number, mark) in &marks.by_number {
                let by = mark.by.among(partitions);
                if !by.is_empty() {
                    names.entry(by).or_default().push(ExchangeName { origin: *origin, number: *number });
                }
            }
        }
        names
    }

    /// The messages that groups of some partitions were dealt, each with these partitions.
    pub(crate) fn dealt_to(&self, partitions: Partitions) -> impl Iterator<Item = (ExchangeName, Partitions)> + '_ {
        let all = self.origins.iter().flat_map(move |(origin, marks)| {
            let named = move |(number, mark): (&u64, &Mark)| {
                (ExchangeName { origin: *origin, number: *number }, mark.by.groups.among(partitions))
            };
            marks.by_number.iter().map(named)
        });
        all.filter(|(_, groups)| !groups.is_empty())
    }

    pub(crate) fn add(&mut self, name: ExchangeName, by: Got, stored: u64) -> Mark {
        self.words += 1;
        let origin = self.origins.entry(name.origin).or_default();
        origin.heard = self.words;
        if name.origin == DEALS && !origin.by_number.contains_key(&name.number) {
            self.deals.push_back(name.number);
        }
        let mark = origin.by_number.entry(name.number).or_default();
        mark.by = self.recent.share(mark.by.with(by));
        mark.stored |= stored;
        mark.clone()
    }

    /// Adds a mark that a store holds.
    pub(crate) fn restore(&mut self, name: ExchangeName, shard: ShardId, by: Got) {
        self.add(name, by, 1 << (shard.0 & 63));
    }

    /// Forgets the marks below `done_below` of an origin; returns them with the shards under whose number they are
    /// stored.
    pub(crate) fn forget_below(&mut self, origin: u64, done_below: u64) -> Vec<(ExchangeName, u64)> {
        let Some(marks) = self.origins.get_mut(&origin) else { return Vec::new() };
        if marks.by_number.first_key_value().is_none_or(|(first, _)| *first >= done_below) {
            return Vec::new();
        }
        let rest = marks.by_number.split_off(&done_below);
        let gone = std::mem::replace(&mut marks.by_number, rest);
        gone.into_iter().map(|(number, mark)| (ExchangeName { origin, number }, mark.stored)).collect()
    }

    /// Forgets the origin that has been silent longest, where there are too many.
    pub(crate) fn forget_silent(&mut self) -> Vec<(ExchangeName, u64)> {
        if self.origins.len() <= ORIGINS_MAX {
            return Vec::new();
        }
        let others = self.origins.iter().filter(|(origin, _)| **origin != DEALS);
        let silent = others.min_by_key(|(_, marks)| marks.heard).map(|(origin, _)| *origin);
        let Some(origin) = silent else { return Vec::new() };
        let gone = self.forget_below(origin, u64::MAX);
        self.origins.remove(&origin);
        gone
    }

    /// Forgets the mark of a message that a group has dealt under an id; returns the shards under whose number it is
    /// stored.
    pub(crate) fn forget_deal(&mut self, id: u64) -> u64 {
        let mark = self.origins.get_mut(&DEALS).and_then(|deals| deals.by_number.remove(&id));
        mark.map_or(0, |mark| mark.stored)
    }

    /// Gives up a dealt message: it is forgotten, and may come again.
    pub(crate) fn give_up_deal(&mut self, id: u64) -> u64 {
        self.deals.retain(|other| *other != id);
        self.forget_deal(id)
    }

    /// Removes partitions whose sessions have left this shard from all marks. Returns the changed marks.
    pub(crate) fn leave(&mut self, partitions: Partitions) -> Vec<(ExchangeName, Mark)> {
        let mut changed = Vec::new();
        for (origin, marks) in &mut self.origins {
            marks.by_number.retain(|number, mark| {
                if mark.by.sessions.among(partitions).is_empty() {
                    return true;
                }
                mark.by = self.recent.share(mark.by.without_sessions(partitions));
                changed.push((ExchangeName { origin: *origin, number: *number }, mark.clone()));
                !mark.by.is_empty()
            });
        }
        changed
    }

    /// The one of them that came first, where there are too many.
    pub(crate) fn pop_deal(&mut self) -> Option<u64> {
        if self.deals.len() > DEALS_MAX { self.deals.pop_front() } else { None }
    }
}

impl Journal {
    /// After a change of the number of shards, each shard holds all marks of several earlier shards, and one shard of
    /// this process deletes each.
    pub(crate) fn delete_marks(&mut self, place: ShardPosition, name: ExchangeName, stored: u64) {
        let its = |shard: u16| stored >> shard & 1 != 0 && shard % place.shards == place.shard.0;
        for shard in (0..crate::ids::MAX_SHARDS).filter(|shard| its(*shard)) {
            self.delete(Key::Mark(name, ShardId(shard)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PartitionId;

    #[test]
    fn marks_with_the_same_partitions_share_them() {
        let mut marks = Marks::default();
        let got = |step: u16| Got { sessions: Partitions::that(|it| it.0 % step == 0), groups: Partitions::NONE };
        let name = |number: u64| ExchangeName { origin: 1 + number % 3, number };
        let by_origin = |number: u64| got(2 + (number % 3) as u16);
        let first: Vec<Mark> = (0..3).map(|number| marks.add(name(number), by_origin(number), 0)).collect();
        for number in 3..3_000 {
            let mark = marks.add(name(number), by_origin(number), 1);
            assert!(Arc::ptr_eq(&mark.by, &first[(number % 3) as usize].by) && mark.stored == 1, "{number}");
        }
        // A partition that leaves makes one set of each.
        let left = marks.leave(Partitions::of(PartitionId(0)));
        assert_eq!(left.len(), 3_000);
        let one = &left.iter().find(|(it, _)| it.origin == 2).unwrap().1.by;
        assert!(left.iter().filter(|(it, _)| it.origin == 2).all(|(_, mark)| Arc::ptr_eq(&mark.by, one)));
        assert_eq!(**one, Got { sessions: got(3).sessions.without(Partitions::of(PartitionId(0))), ..Got::EMPTY });
    }
}
