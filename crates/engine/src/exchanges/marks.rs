//! Which partitions have got which messages of other nodes.

use std::collections::BTreeMap;

use super::ExchangeName;
use crate::durable::Key;
use crate::engine::Engine;
use crate::ids::{PartitionId, Partitions, ShardId};
use crate::link::exchange_word::ExchangeWord;
use crate::link::transfer_word::put_partitions;

/// Lives of shards of which something is remembered; that of the one that has been silent longest is forgotten.
const ORIGINS_MAX: usize = 256;

/// What is remembered of one message.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// Who has got it.
    by: Partitions,
    /// The shards under whose number it is stored, one bit each.
    stored: u64,
}

/// What is remembered of the messages of one life of a shard.
#[derive(Debug, Default)]
struct OfOrigin {
    /// When it was heard of last, in words.
    heard: u64,
    by_number: BTreeMap<u64, Mark>,
}

/// What is remembered of messages that came from other nodes, until their publishers have released them.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    words: u64,
    origins: BTreeMap<u64, OfOrigin>,
}

impl Marks {
    /// Who has got a message.
    pub(super) fn get(&self, name: ExchangeName) -> Partitions {
        let of_origin = self.origins.get(&name.origin).and_then(|origin| origin.by_number.get(&name.number));
        of_origin.map_or(Partitions::NONE, |mark| mark.by)
    }

    /// Those that a partition has got.
    pub(crate) fn of_partition(&self, partition: PartitionId) -> impl Iterator<Item = ExchangeName> + '_ {
        let of = move |(origin, marks): (&u64, &'_ OfOrigin)| {
            let origin = *origin;
            let its = marks.by_number.iter().filter(move |(_, mark)| mark.by.has(partition));
            its.map(move |(number, _)| ExchangeName { origin, number: *number }).collect::<Vec<_>>()
        };
        self.origins.iter().flat_map(of)
    }

    fn add(&mut self, name: ExchangeName, by: Partitions, stored: u64) -> Mark {
        self.words += 1;
        let origin = self.origins.entry(name.origin).or_default();
        origin.heard = self.words;
        let mark = origin.by_number.entry(name.number).or_default();
        mark.by = mark.by.with(by);
        mark.stored |= stored;
        *mark
    }

    /// Takes in what a store holds.
    pub(crate) fn restore(&mut self, name: ExchangeName, shard: ShardId, by: Partitions) {
        self.add(name, by, 1 << (shard.0 & 63));
    }

    /// Forgets what nobody asks for any more; returns it with the shards under whose number it is stored.
    fn forget_below(&mut self, origin: u64, done_below: u64) -> Vec<(ExchangeName, u64)> {
        let Some(marks) = self.origins.get_mut(&origin) else { return Vec::new() };
        if marks.by_number.first_key_value().is_none_or(|(first, _)| *first >= done_below) {
            return Vec::new();
        }
        let rest = marks.by_number.split_off(&done_below);
        let gone = std::mem::replace(&mut marks.by_number, rest);
        gone.into_iter().map(|(number, mark)| (ExchangeName { origin, number }, mark.stored)).collect()
    }

    /// Forgets the origin that has been silent longest, where there are too many.
    fn forget_silent(&mut self) -> Vec<(ExchangeName, u64)> {
        if self.origins.len() <= ORIGINS_MAX {
            return Vec::new();
        }
        let silent = self.origins.iter().min_by_key(|(_, marks)| marks.heard).map(|(origin, _)| *origin);
        let Some(origin) = silent else { return Vec::new() };
        let gone = self.forget_below(origin, u64::MAX);
        self.origins.remove(&origin);
        gone
    }
}

impl Engine {
    /// A message that another node names comes now. Returns who has got it already; from now on all who are here have.
    #[cold]
    pub(crate) fn mark_coming(&mut self, word: ExchangeWord) -> Partitions {
        let known = self.desk.exchanges.marks.get(word.name).with(word.covered);
        let here = self.desk.exchanges.here();
        self.put_mark(word.name, here);
        let done = self.desk.exchanges.marks.forget_below(word.name.origin, word.done_below);
        let silent = self.desk.exchanges.marks.forget_silent();
        for (name, stored) in done.into_iter().chain(silent) {
            self.delete_marks(name, stored);
        }
        known
    }

    /// Notes that these have got a message.
    pub(crate) fn put_mark(&mut self, name: ExchangeName, by: Partitions) {
        let own = 1 << self.place.shard.0;
        let stored = if self.desk.journal.is_on() { own } else { 0 };
        let mark = self.desk.exchanges.marks.add(name, by, stored);
        if stored != 0 {
            self.desk.journal.put(Key::Mark(name, self.place.shard), |out| put_partitions(out, mark.by));
        }
    }

    /// Of what an earlier process has stored under the numbers of several shards each has all, and one of this process's deletes it.
    fn delete_marks(&mut self, name: ExchangeName, stored: u64) {
        let its = |shard: u16| stored >> shard & 1 != 0 && shard % self.place.shards == self.place.shard.0;
        for shard in (0..crate::ids::MAX_SHARDS).filter(|shard| its(*shard)) {
            self.desk.journal.delete(Key::Mark(name, ShardId(shard)));
        }
    }
}
