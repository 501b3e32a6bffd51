//! Messages of brokers that are known to the sessions of partitions that have come from another home.
//!
//! A message reaches such a partition by the brokers of this process, by pieces of old homes, or by connections of dead
//! members, and often by several of these. One rule decides whether the partition has it: its last home had delivered
//! it; or it was passed on here; or a broker has delivered it here since the partition came. The store keeps what the
//! rule needs, in the batch with the messages themselves, so that a restart and a takeover follow the same rule.

use std::collections::{BTreeMap, VecDeque};

use super::noted::{Id, number_of};
use super::{begin, open, seal};
use crate::cluster::transfer::error::ImageError;
use crate::ids::{PartitionId, Partitions};
use crate::journal::Journal;
use crate::journal::keys::Key;
use crate::message::MessageRef;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::id::{MessageId, SeenIds};
use crate::partitions::put_partitions;
use crate::wire::{WireError, WireReader, WireWrite};
use tidegate_mqtt::QoS;

/// How much longer a broker may take for this process than for the last home, once all pieces have come, milliseconds.
const KNOWN_FOR_MS: u64 = 600_000;
/// Maximum number of known arrivals with all pieces; beyond it the earliest are forgotten, and a late message may come
/// twice.
const CLOSED_MAX: usize = 64;
/// Messages passed on that are known at most. Beyond it some are forgotten, and may come twice.
const PASSED_MAX: usize = 1 << 16;

/// Partitions that have come from other homes, and their messages.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// In the order in which they came. A partition belongs to its last one.
    all: VecDeque<Arrival>,
    /// Messages passed on.
    passed: BTreeMap<Id, PassedOn>,
    /// The number of the next one.
    next: u64,
}

/// The partitions to which a message was passed on.
#[derive(Debug, Default)]
struct PassedOn {
    to: Partitions,
    is_stored: bool,
}

impl PassedOn {
    fn store(&self, journal: &mut Journal, (origin, number): Id) {
        if self.is_stored {
            journal.put(Key::Passed(origin, number), |out| put_partitions(out, self.to));
        }
    }
}

/// Partitions that have come together.
#[derive(Debug)]
struct Arrival {
    /// Its number in the store.
    number: u64,
    partitions: Partitions,
    /// Messages that had come here before the partitions.
    before: SeenIds,
    /// Messages that partitions have from their last home.
    had: Lists,
    /// Time at which it is forgotten: never while pieces are awaited.
    until: Millis,
}

impl Arrival {
    /// The partitions that have a message from their last home, or by a broker since their arrival. `is_here` is true
    /// if a broker has delivered it here.
    fn having(&self, id: &MessageId, is_here: bool) -> Partitions {
        if is_here && !self.before.may_contain(id) {
            return self.partitions;
        }
        let had = self.had.0.iter().filter(|(_, ids)| ids.contains(id));
        had.fold(Partitions::NONE, |all, (of, _)| all.with(*of)).among(self.partitions)
    }

    fn store(&self, now: Now, journal: &mut Journal) {
        if !journal.is_on() {
            return;
        }
        journal.put(Key::Arrival(self.number), |out| {
            out.put_u64(now.to_unix(self.until));
            put_partitions(out, self.partitions);
            self.before.write(out);
            self.had.write(out);
        });
    }

    fn read(number: u64, now: Now, value: &[u8]) -> Result<Self, WireError> {
        let mut reader = WireReader::new(value);
        let until = now.from_unix(reader.u64("the end of an arrival")?);
        let partitions = Partitions::read(&mut reader)?;
        let mut before = SeenIds::as_written();
        before.read(&mut reader)?;
        let had = Lists::read(&mut reader)?;
        if !reader.is_empty() {
            return Err(WireError { reading: "the end of an arrival" });
        }
        Ok(Self { number, partitions, before, had, until })
    }
}

/// Messages that partitions have, as members send them to each other.
#[derive(Debug, Default)]
struct Lists(Vec<(Partitions, SeenIds)>);

impl Lists {
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u16(self.0.len() as u16);
        for (of, ids) in &self.0 {
            out.put_u16(of.iter().count() as u16);
            of.iter().for_each(|partition| out.put_u16(partition.0));
            ids.write(out);
        }
    }

    fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let mut lists = Vec::new();
        for _ in 0..reader.u16("a number of lists")? {
            let (mut of, mut ids) = (Partitions::NONE, SeenIds::as_written());
            for _ in 0..reader.u16("a number of partitions")? {
                of.add(PartitionId(reader.u16("a partition")?));
            }
            ids.read(reader)?;
            lists.push((of, ids));
        }
        Ok(Self(lists))
    }
}

impl Arrivals {
    /// Whether some partitions have this message otherwise than by a broker here.
    #[inline]
    pub(crate) fn concern(&self, id: &MessageId) -> bool {
        !self.all.is_empty() && self.have(id)
    }

    #[cold]
    fn have(&self, id: &MessageId) -> bool {
        self.passed.contains_key(&number_of(id))
            || self.all.iter().any(|arrival| arrival.had.0.iter().any(|(_, ids)| ids.contains(id)))
    }

    /// The partitions among these that do not have a message. `is_here` says whether a broker has delivered it here: then
    /// partitions that have always been here have it.
    pub(crate) fn lacking(&self, among: Partitions, id: &MessageId, is_here: bool) -> Partitions {
        let lacking = among.without(self.having(id, is_here));
        if !is_here {
            return lacking;
        }
        lacking.among(self.partitions())
    }

    /// Whether no partitions have come.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The partitions that have come.
    pub(crate) fn partitions(&self) -> Partitions {
        self.all.iter().fold(Partitions::NONE, |all, arrival| all.with(arrival.partitions))
    }

    /// The partitions without a list of the messages of their last home, such as partitions that were here before a late
    /// piece came for them.
    pub(crate) fn unlisted(&self) -> Partitions {
        let unlisted = self.all.iter().filter(|arrival| arrival.had.0.is_empty());
        unlisted.fold(Partitions::NONE, |all, arrival| all.with(arrival.partitions))
    }

    /// The arrived partitions that have a message.
    fn having(&self, id: &MessageId, is_here: bool) -> Partitions {
        let passed = self.passed.get(&number_of(id)).map(|passed| passed.to).unwrap_or_default();
        self.all.iter().fold(passed, |all, arrival| all.with(arrival.having(id, is_here)))
    }

    /// A broker delivers a message here for the first time. Returns the partitions that have it already; from now on it
    /// counts as delivered here.
    pub(crate) fn take_brought(&mut self, journal: &mut Journal, id: &MessageId) -> Partitions {
        let having = self.having(id, false);
        if self.passed.remove(&number_of(id)).is_some() {
            delete_passed(journal, number_of(id));
        }
        having
    }

    /// A message was passed on to partitions.
    pub(crate) fn note_passed(&mut self, journal: &mut Journal, id: &MessageId, message: &MessageRef, to: Partitions) {
        let id = number_of(id);
        let passed = self.passed.entry(id).or_default();
        passed.to = passed.to.with(to);
        // A message of QoS 1 may come twice after a restart.
        passed.is_stored |= journal.is_on() && message.qos == QoS::ExactlyOnce;
        passed.store(journal, id);
        // Better twice than memory without a bound.
        while self.passed.len() > PASSED_MAX {
            if let Some((id, _)) = self.passed.pop_first() {
                delete_passed(journal, id);
            }
        }
    }

    /// Adds partitions that have arrived. `seen` are the messages that brokers have delivered here, `had` the messages
    /// of the partitions, as written by [`Arrivals::write`].
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub(crate) fn add(
        &mut self,
        now: Now,
        journal: &mut Journal,
        partitions: Partitions,
        seen: SeenIds,
        had: Option<&[u8]>,
    ) -> Result<(), ImageError> {
        let lists = match had {
            Some(had) => Lists::read(&mut open(had)?)?,
            None => Lists::default(),
        };
        self.put(now, journal, partitions, seen, lists);
        Ok(())
    }

    fn put(&mut self, now: Now, journal: &mut Journal, partitions: Partitions, before: SeenIds, had: Lists) {
        self.forget(now, journal, partitions);
        let number = self.next;
        self.next += 1;
        let arrival = Arrival { number, partitions, before, had, until: Millis::NEVER };
        arrival.store(now, journal);
        self.all.push_back(arrival);
    }

    /// Pieces are awaited for partitions that may have come before: in an earlier life of this process, or from a home
    /// whose pieces seemed to have ended. Partitions without an arrival have been here all the time, such as
    /// partitions of a member that is back before another one had them: they have what brokers have delivered here.
    pub(crate) fn resume(&mut self, now: Now, journal: &mut Journal, partitions: Partitions) {
        let mut resident = partitions;
        for arrival in &mut self.all {
            resident = resident.without(arrival.partitions);
            if !arrival.partitions.among(partitions).is_empty() && arrival.until != Millis::NEVER {
                arrival.until = Millis::NEVER;
                arrival.store(now, journal);
            }
        }
        if !resident.is_empty() {
            self.put(now, journal, resident, SeenIds::as_written(), Lists::default());
        }
    }

    /// Pieces are awaited for the `open` partitions alone. The others are known for a while.
    pub(crate) fn close(&mut self, now: Now, journal: &mut Journal, open: Partitions) {
        for arrival in &mut self.all {
            if arrival.until == Millis::NEVER && arrival.partitions.among(open).is_empty() {
                arrival.until = now.monotonic.plus(KNOWN_FOR_MS);
                arrival.store(now, journal);
            }
        }
        let mut closed = self.all.iter().filter(|arrival| arrival.until != Millis::NEVER);
        let surplus = closed.clone().count().saturating_sub(CLOSED_MAX);
        let surplus: Vec<u64> = closed.by_ref().take(surplus).map(|arrival| arrival.number).collect();
        self.remove(journal, |arrival| surplus.contains(&arrival.number));
    }

    /// Forgets arrivals whose messages no broker delivers any more.
    #[inline]
    pub(crate) fn forget_old(&mut self, now: Now, journal: &mut Journal) {
        if !self.all.is_empty() {
            self.forget_those_over(now, journal);
        }
    }

    #[cold]
    fn forget_those_over(&mut self, now: Now, journal: &mut Journal) {
        if self.all.iter().any(|arrival| arrival.until <= now.monotonic) {
            self.remove(journal, |arrival| arrival.until <= now.monotonic);
        }
    }

    /// Partitions have left, or come once more.
    pub(crate) fn forget(&mut self, now: Now, journal: &mut Journal, partitions: Partitions) {
        for arrival in &mut self.all {
            let left = arrival.partitions.without(partitions);
            if left != arrival.partitions && !left.is_empty() {
                arrival.partitions = left;
                arrival.store(now, journal);
            }
        }
        self.remove(journal, |arrival| arrival.partitions.without(partitions).is_empty());
        self.forget_passed(journal, partitions);
    }

    fn remove(&mut self, journal: &mut Journal, is_over: impl Fn(&Arrival) -> bool) {
        let mut over = Partitions::NONE;
        self.all.retain(|arrival| {
            let keep = !is_over(arrival);
            if !keep {
                over = over.with(arrival.partitions);
                if journal.is_on() {
                    journal.delete(Key::Arrival(arrival.number));
                }
            }
            keep
        });
        self.forget_passed(journal, over);
    }

    fn forget_passed(&mut self, journal: &mut Journal, partitions: Partitions) {
        if partitions.is_empty() {
            return;
        }
        self.passed.retain(|id, passed| {
            let left = passed.to.without(partitions);
            if left.is_empty() {
                delete_passed(journal, *id);
            } else if left != passed.to {
                // Otherwise a partition that comes once more would count as having the message after a restart.
                passed.to = left;
                passed.store(journal, *id);
            }
            !left.is_empty()
        });
    }

    /// The messages that these partitions have: `seen` are the messages that brokers have delivered here.
    pub(crate) fn write(&self, seen: &SeenIds, partitions: Partitions) -> Vec<u8> {
        let mut lists: Vec<(Partitions, SeenIds)> = Vec::new();
        let mut resident = partitions;
        for arrival in &self.all {
            let of = arrival.partitions.among(partitions);
            if of.is_empty() {
                continue;
            }
            resident = resident.without(of);
            lists.push((of, seen.without(&arrival.before)));
            let had = arrival.had.0.iter().map(|(had_by, ids)| (had_by.among(of), ids));
            for (had_by, ids) in had.filter(|(had_by, _)| !had_by.is_empty()) {
                // Mostly the partitions have the same messages: one list says so.
                match lists.iter_mut().find(|(known, _)| *known == had_by) {
                    Some((_, known)) => known.add(ids),
                    None => lists.push((had_by, ids.clone())),
                }
            }
        }
        if !resident.is_empty() {
            lists.push((resident, seen.clone()));
        }
        for (id, passed) in &self.passed {
            let of = passed.to.among(partitions);
            let id = MessageId { origin: id.0, number: id.1, entered: 0, publisher: 0, retain: false };
            match lists.iter_mut().find(|(known, _)| *known == of) {
                _ if of.is_empty() => {}
                Some((_, ids)) => drop(ids.insert(&id)),
                None => {
                    let mut ids = SeenIds::default();
                    ids.insert(&id);
                    lists.push((of, ids));
                }
            }
        }
        let mut out = begin();
        Lists(lists).write(&mut out);
        seal(out)
    }

    /// Restores an arrival from the store. They come in the order of their numbers.
    ///
    /// # Errors
    /// When the value is damaged.
    pub(crate) fn restore(&mut self, number: u64, now: Now, value: &[u8]) -> Result<(), WireError> {
        let mut arrival = Arrival::read(number, now, value)?;
        // Pieces that are still awaited say so themselves.
        arrival.until = arrival.until.min(now.monotonic.plus(KNOWN_FOR_MS));
        self.next = self.next.max(number + 1);
        self.all.push_back(arrival);
        Ok(())
    }

    /// Restores the partitions to which a message was passed on.
    ///
    /// # Errors
    /// When the value is damaged.
    pub(crate) fn restore_passed(&mut self, id: Id, value: &[u8]) -> Result<(), WireError> {
        let mut reader = WireReader::new(value);
        let to = Partitions::read(&mut reader)?;
        self.passed.insert(id, PassedOn { to, is_stored: true });
        if reader.is_empty() { Ok(()) } else { Err(WireError { reading: "the end of a set of partitions" }) }
    }
}

fn delete_passed(journal: &mut Journal, (origin, number): Id) {
    if journal.is_on() {
        journal.delete(Key::Passed(origin, number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ShardId, TenantId};
    use crate::message::Publication;
    use crate::settings::Durability;

    /// The partitions to which messages were passed on, as a restart reads them from the store.
    fn restored(journal: &mut Journal) -> Result<Arrivals, WireError> {
        let (mut arrivals, operations) = (Arrivals::default(), journal.take().expect("a batch").operations);
        let mut reader = WireReader::new(&operations);
        while !reader.is_empty() {
            let is_put = reader.u8("an operation")? == 1;
            let len = reader.u16("the length of a key")?;
            let key = Key::read(reader.take(usize::from(len), "a key")?)?;
            let value = if is_put { reader.bytes("a value")? } else { &[] };
            match key {
                Key::Passed(origin, number) if is_put => arrivals.restore_passed((origin, number), value)?,
                Key::Passed(origin, number) => drop(arrivals.passed.remove(&(origin, number))),
                _ => {}
            }
        }
        Ok(arrivals)
    }

    #[test]
    fn a_restart_knows_which_partitions_were_forgotten() {
        let (now, mut arrivals) = (Now::default(), Arrivals::default());
        let mut journal = Journal::new(Durability::Commit, ShardId(0), now);
        let id = MessageId { origin: 1, number: 2, entered: 0, publisher: 0, retain: false };
        let message =
            Publication::new(TenantId::DEFAULT, "t", QoS::ExactlyOnce, false, &[], Millis::NEVER, b"x", 0).keep();
        let [leaves, stays] = [3, 4].map(|number| Partitions::of(PartitionId(number)));
        arrivals.note_passed(&mut journal, &id, &message, leaves.with(stays));
        arrivals.forget(now, &mut journal, leaves);
        for known in [&arrivals, &restored(&mut journal).expect("operations")] {
            assert_eq!(known.lacking(leaves.with(stays), &id, false), leaves);
        }
    }
}
