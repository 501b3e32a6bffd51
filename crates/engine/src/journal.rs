//! The changes of a turn, gathered for the store.

pub(crate) mod keys;

use crate::ids::{ConnectionKey, ShardId};
use crate::journal::keys::{Key, StoredSession};
use crate::message::Publication;
use crate::now::Now;
use crate::settings::Durability;
use crate::topics::is_own_topic;
use crate::wire::{WireError, WireReader, WireWrite};
use std::collections::VecDeque;
use std::num::NonZeroU64;
use tidegate_mqtt::QoS;

/// The operations that one shard gives the store at once: after a crash, all or none are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalBatch {
    /// Grows by one with each batch of this shard; for [`StoreCalls::handle_committed`](crate::StoreCalls::handle_committed).
    pub sequence: u64,
    /// The operations one after the other, numbers little-endian: `1 | length of the key (u16) | key | length of the
    /// value (u32) | value` puts a value, `2 | length of the key (u16) | key` deletes one. Empty when the batch only
    /// marks its place in the order.
    pub operations: Vec<u8>,
    /// Whether an output or something else waits for its commit. A batch for which nothing waits, such as the deletion
    /// of an acknowledged message, may be committed with a later one.
    pub is_awaited: bool,
    /// Whether usage that has changed belongs into it: something waits for it, or for batches of other shards behind it.
    pub takes_usage: bool,
}

/// Whether usage is written before other shards write the message that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UsageAhead {
    /// Other shards have written nothing for the last answer that waited for them.
    Off,
    /// They have.
    On,
    /// They may do so again: there is a batch, although it may be empty and nothing waits for it.
    Due,
}

const PUT: u8 = 1;

const DELETE: u8 = 2;

/// Writes operations, and tracks the outputs that wait for their commit.
#[derive(Debug)]
pub(crate) struct Journal {
    durability: Durability,
    operations: Vec<u8>,
    /// The number of the batch that is being gathered.
    sequence: u64,
    committed: u64,
    /// Whether someone waits for that batch although it may be empty.
    awaited: bool,
    usage_ahead: UsageAhead,
    /// Connections whose output is held, by the batch that they wait for, in its order.
    held: VecDeque<(u64, ConnectionKey)>,
    /// The latest time that a call has brought, for deadlines that go to the disk.
    pub now: Now,
    shard: ShardId,
    next_session: NonZeroU64,
    next_body: u64,
    /// Names of the messages that several nodes may read from this store.
    pub names: Names,
    /// Numbers of sessions and bodies below which this shard has said that it gives some out.
    reserved: Reserved,
    /// Whether the store accepts only deletions: changes that need it are refused.
    pub full: bool,
}

/// Makes names of messages.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// A seed that no other shard and no earlier process has, so that names differ.
    seed: u64,
    made: u64,
}

impl Names {
    pub(crate) fn new(seed: u64, shard: ShardId) -> Self {
        Self { seed: crate::hash::hash_bytes(seed, &shard.0.to_le_bytes()), made: 0 }
    }

    /// A name that no other message of the cluster has.
    pub(crate) fn make(&mut self) -> u64 {
        self.made += 1;
        crate::hash::hash_bytes(self.seed, &self.made.to_le_bytes()).max(1)
    }
}

impl Journal {
    pub(crate) fn new(durability: Durability, shard: ShardId, now: Now) -> Self {
        let first = u64::from(shard.0);
        Self {
            durability,
            operations: Vec::new(),
            sequence: 1,
            committed: 0,
            awaited: false,
            usage_ahead: UsageAhead::Off,
            held: VecDeque::new(),
            now,
            shard,
            reserved: Reserved::default(),
            next_session: NonZeroU64::MIN.saturating_add(NUMBERS - 1 + first),
            next_body: NUMBERS + first,
            names: Names::default(),
            full: false,
        }
    }

    /// Whether there is a store.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.durability != Durability::Memory
    }

    /// True if the store is too full for a retained value without a promise; above QoS 0 it is refused before any
    /// subscriber gets it.
    pub(crate) fn has_no_room_to_retain(&self, publication: &Publication<'_>) -> bool {
        self.full
            && self.is_on()
            && publication.qos == QoS::AtMostOnce
            && !publication.payload.is_empty()
            && !is_own_topic(publication.topic)
    }

    /// The number of the batch that is being gathered.
    #[inline]
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The same, and it is committed even if it stays empty.
    pub(crate) fn awaited_batch(&mut self) -> u64 {
        self.awaited = true;
        self.sequence
    }

    /// A message waits for other shards. If they write it, its usage is in a batch before their batches. All these batches
    /// share one sync; usage that is written at the answer would need a second sync.
    #[inline]
    pub(crate) fn note_crossing(&mut self) {
        if self.usage_ahead == UsageAhead::On {
            self.usage_ahead = UsageAhead::Due;
        }
    }

    /// Other shards have confirmed; `promises` if they have written a change.
    #[inline]
    pub(crate) fn note_confirmed(&mut self, promises: bool) {
        if self.usage_ahead != UsageAhead::Due {
            self.usage_ahead = if promises { UsageAhead::On } else { UsageAhead::Off };
        }
    }

    /// The batch that something has to wait for which promises all that was written so far, where promises wait at all.
    pub(crate) fn promised_batch(&mut self) -> Option<u64> {
        (self.durability == Durability::Commit).then(|| self.awaited_batch())
    }

    /// Whether a written operation is not known to be committed.
    pub(crate) fn has_uncommitted(&self) -> bool {
        !self.operations.is_empty() || self.committed + 1 < self.sequence
    }

    /// The last batch that is known to be committed.
    pub(crate) fn committed(&self) -> u64 {
        self.committed
    }

    /// Notes that all batches up to this one are committed.
    pub(crate) fn note_committed(&mut self, sequence: u64) {
        self.committed = self.committed.max(sequence);
    }

    /// The position of the turn's operations: two marks differ if an operation was written in between.
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        Mark { sequence: self.sequence, len: self.operations.len() }
    }

    /// Whether an operation was written since.
    #[inline]
    pub(crate) fn has_written_since(&self, mark: Mark) -> bool {
        self.mark() != mark
    }

    /// A number for a new session of this shard.
    pub(crate) fn new_session(&mut self) -> StoredSession {
        let number = self.next_session;
        self.next_session = number.saturating_add(NUMBERS);
        if number.get() >= self.reserved.sessions {
            let sessions = number.get().saturating_add(RESERVED_SESSIONS);
            self.reserve(Reserved { sessions, ..self.reserved });
        }
        StoredSession(number)
    }

    /// A number for a message that several entries refer to.
    pub(crate) fn new_body(&mut self) -> u64 {
        let number = self.next_body;
        self.next_body = number.saturating_add(NUMBERS);
        if number >= self.reserved.bodies {
            self.reserve(Reserved { bodies: number.saturating_add(RESERVED_BODIES), ..self.reserved });
        }
        number
    }

    /// Reserves numbers up to here. It is written before the first of them is used, so that a later process uses none
    /// of them again, whatever has been deleted since: the remains of an ended session must not become part of a new
    /// one.
    #[cold]
    fn reserve(&mut self, reserved: Reserved) {
        self.reserved = reserved;
        self.put(Key::Numbers(self.shard), |out| reserved.write(out));
    }

    /// Numbers that an earlier process may have given out are not given out again.
    pub(crate) fn note_used(&mut self, reserved: Reserved) {
        // The new record replaces the old one, so it must cover its numbers.
        self.reserved.sessions = self.reserved.sessions.max(reserved.sessions);
        self.reserved.bodies = self.reserved.bodies.max(reserved.bodies);
        if let Some(behind) = reserved.sessions.checked_sub(self.next_session.get()) {
            let rounds = behind / NUMBERS + 1;
            self.next_session = self.next_session.saturating_add(rounds.saturating_mul(NUMBERS));
        }
        if let Some(behind) = reserved.bodies.checked_sub(self.next_body) {
            let rounds = behind / NUMBERS + 1;
            self.next_body = self.next_body.saturating_add(rounds.saturating_mul(NUMBERS));
        }
    }

    /// Puts the value that `write` appends.
    #[inline]
    pub(crate) fn put(&mut self, key: Key<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        self.key(PUT, key);
        let at = self.operations.len();
        self.operations.extend_from_slice(&[0; 4]);
        write(&mut self.operations);
        let len = (self.operations.len() - at - 4) as u32;
        if let Some(place) = self.operations.get_mut(at..at + 4) {
            place.copy_from_slice(&len.to_le_bytes());
        }
    }

    /// Deletes a key.
    #[inline]
    pub(crate) fn delete(&mut self, key: Key<'_>) {
        self.key(DELETE, key);
    }

    #[inline]
    fn key(&mut self, operation: u8, key: Key<'_>) {
        self.operations.push(operation);
        let at = self.operations.len();
        self.operations.extend_from_slice(&[0; 2]);
        key.write(&mut self.operations);
        // A topic is at most 65,535 bytes long, and so, with its prefix, may a key not be: such a
        // filter or topic is refused where it comes in.
        let len = (self.operations.len() - at - 2) as u16;
        if let Some(place) = self.operations.get_mut(at..at + 2) {
            place.copy_from_slice(&len.to_le_bytes());
        }
    }

    /// The batch that an output has to wait for from now on, where outputs wait at all.
    #[inline]
    pub(crate) fn hold(&mut self, key: ConnectionKey) -> Option<u64> {
        if self.durability != Durability::Commit {
            return None;
        }
        self.awaited = true;
        if self.held.back() != Some(&(self.sequence, key)) {
            self.held.push_back((self.sequence, key));
        }
        Some(self.sequence)
    }

    /// Takes the gathered operations, if there are any or a waiter needs the batch.
    pub(crate) fn take(&mut self) -> Option<JournalBatch> {
        let for_usage = self.usage_ahead == UsageAhead::Due;
        if for_usage {
            self.usage_ahead = UsageAhead::On;
        }
        if self.operations.is_empty() && !self.awaited && !for_usage {
            return None;
        }
        let sequence = self.sequence;
        self.sequence += 1;
        let is_awaited = std::mem::take(&mut self.awaited);
        let room = self.operations.len().min(SPARE_BYTES);
        let room = if room == 0 { 0 } else { room + USAGE_BYTES };
        let operations = std::mem::replace(&mut self.operations, Vec::with_capacity(room));
        Some(JournalBatch { sequence, operations, is_awaited, takes_usage: is_awaited || for_usage })
    }

    /// The next connection whose output waited for a batch up to this one.
    pub(crate) fn pop_released(&mut self, committed: u64) -> Option<ConnectionKey> {
        let (sequence, key) = self.held.front().copied()?;
        if sequence > committed {
            return None;
        }
        self.held.pop_front();
        Some(key)
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.held.shrink_to_fit();
        self.operations.shrink_to_fit();
    }
}

/// Numbers are dealt out to as many shards as there can be, so that another number of shards after a restart gives none
/// out twice.
const NUMBERS: u64 = crate::ids::MAX_SHARDS as u64;

/// Numbers of sessions that are reserved at once, including numbers of the other shards.
const RESERVED_SESSIONS: u64 = NUMBERS * 1024;

/// The same for messages that several entries refer to.
const RESERVED_BODIES: u64 = NUMBERS * 1024 * 1024;

/// Below which numbers a shard gives some out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub sessions: u64,
    pub bodies: u64,
}

impl Reserved {
    fn write(self, out: &mut Vec<u8>) {
        out.put_u64(self.sessions);
        out.put_u64(self.bodies);
    }

    pub(crate) fn read(value: &[u8]) -> Result<Self, WireError> {
        let mut reader = WireReader::new(value);
        let (sessions, bodies) = (reader.u64("reserved numbers")?, reader.u64("reserved numbers")?);
        if reader.is_empty() { Ok(Self { sessions, bodies }) } else { Err(WireError { reading: "the end of a value" }) }
    }
}

/// Room for the usage of a payer, which the shell adds to a batch.
const USAGE_BYTES: usize = 128;

/// Room that is kept for the next batch.
const SPARE_BYTES: usize = 64 * 1024;

/// A place in the turn's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    sequence: u64,
    len: usize,
}

impl Journal {
    /// A waiting message is not needed any more.
    #[inline]
    pub(crate) fn forget_stored(&mut self, session: Option<StoredSession>, number: u64) {
        if let Some(stored) = session {
            self.delete_entry(stored, Numbers { entry: number, separate: false });
        }
    }
}

/// How a message is stored: the number of its entry (0: not stored), and whether a separate record has its progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub entry: u64,
    pub separate: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now::Millis;

    #[test]
    fn usage_comes_before_the_batches_of_other_shards() {
        let mut journal = Journal::new(Durability::Commit, ShardId(0), Now { monotonic: Millis(0), unix: 0 });
        journal.note_crossing();
        assert_eq!(journal.take(), None, "perhaps no shard writes anything");
        journal.note_confirmed(true);
        journal.note_crossing();
        let batch = journal.take().expect("a batch for the usage");
        assert!(batch.operations.is_empty() && !batch.is_awaited && batch.takes_usage);
        assert_eq!(journal.take(), None);
        journal.note_confirmed(false);
        journal.note_crossing();
        assert_eq!(journal.take(), None);
    }

    #[test]
    fn a_batch_for_which_nothing_waits_takes_no_usage() {
        let mut journal = Journal::new(Durability::Commit, ShardId(0), Now { monotonic: Millis(0), unix: 0 });
        journal.delete(Key::Body(7));
        let batch = journal.take().expect("a batch");
        assert!(!batch.is_awaited && !batch.takes_usage);
        journal.awaited_batch();
        assert!(journal.take().expect("an empty batch").takes_usage);
    }
}
