//! Long queues that are sent to the store of the new home before their sessions move.
//!
//! The end of a long queue is in the store alone. The old home reads it from there in pieces and sends these, while it still
//! serves the client. The new home writes the messages under the number of a session that does not exist yet. The image of
//! the session names them then, so that the time in which no node serves the client does not depend on the length of the
//! queue. Until the image arrives nothing is owed there, and a restart drops the pieces.

use std::collections::BTreeMap;

use crate::cluster::transfer::error::ImageError;
use crate::durable::session_record::put_ahead;
use crate::ids::{PartitionId, Partitions, ShardPosition, TenantId, partition_of};
use crate::image::tail::{SentAhead, TailImage};
use crate::journal::Journal;
use crate::journal::keys::{Key, StoredSession, entries_from};
use crate::records::stored::ReadEntry;
use crate::session::Session;
use crate::session::tail::bounded;
use crate::wire::{WireError, WireReader, WireWrite};

/// A queue whose end is in the store alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongQueue {
    /// The partition of its client.
    pub partition: PartitionId,
    /// The tenant of its client.
    pub tenant: TenantId,
    /// Its client.
    pub client_id: String,
    /// The number of its session in this store.
    pub session: u64,
    /// The number of the first message that is in the store alone.
    pub first: u64,
    /// The highest number of such a message.
    pub last: u64,
    /// Bytes of these messages in memory once loaded.
    pub bytes: u64,
}

impl LongQueue {
    /// The range of keys of the messages behind a number.
    pub fn keys_behind(&self, number: u64) -> Option<(Vec<u8>, Vec<u8>)> {
        let session = StoredSession::of_number(self.session)?;
        Some(entries_from(session, number.saturating_add(1).max(self.first)))
    }

    /// A piece of the queue for the new home: pairs of the store up to [`LongQueue::last`], and the number up to which the
    /// queue is there with it. `ends` says whether these pairs are all up to the end of the range. Messages that stay in
    /// memory are left out: the image brings them.
    ///
    /// # Errors
    /// When a pair is no message of this queue.
    pub fn piece(&self, transfer: u64, pairs: &[(Vec<u8>, Vec<u8>)], ends: bool) -> Result<(Vec<u8>, u64), ImageError> {
        let mut out = Vec::new();
        out.put_u64(transfer);
        out.put_u16(self.tenant.0);
        out.put_bytes(self.client_id.as_bytes());
        out.put_u64(self.session);
        let mut reached = if ends { self.last } else { 0 };
        for (key, value) in pairs {
            let (session, number) = match Key::read(key)? {
                Key::Entry(session, number) => (session.0.get(), number),
                _ => return Err(WireError { reading: "a message of a queue" }.into()),
            };
            if session != self.session {
                return Err(WireError { reading: "a message of this queue" }.into());
            }
            if number > self.last {
                reached = self.last;
                break;
            }
            reached = reached.max(number);
            if !ReadEntry::stays_in_memory(value) {
                out.put_u64(number);
                out.put_bytes(value);
            }
        }
        Ok((out, reached))
    }
}

/// Queues that the new homes of their sessions have, by the numbers of the sessions in this store.
#[derive(Debug, Default)]
pub(crate) struct QueuesSent(BTreeMap<u64, SentAhead>);

impl QueuesSent {
    /// The images of these sessions follow.
    pub(crate) fn note(&mut self, place: ShardPosition, sent: &[SentAhead]) {
        self.0.extend(sent.iter().filter(|sent| place.owns(sent.partition)).map(|sent| (sent.session, *sent)));
    }

    /// The part of the queue of a session that is at the new home.
    pub(crate) fn of(&self, session: &Session) -> Option<&SentAhead> {
        self.0.get(&session.stored?.0.get())
    }

    /// The partitions do not move any more.
    pub(crate) fn forget(&mut self, partitions: Partitions) {
        self.0.retain(|_, sent| !partitions.has(sent.partition));
    }
}

/// How a piece of a queue was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceTaken {
    /// Its partition is worked by another shard.
    Elsewhere,
    /// There is no store, or it is full.
    NoRoom,
    /// It is written.
    Written,
}

/// Queues that have come before their sessions.
#[derive(Debug, Default)]
pub(crate) struct QueuesAhead(BTreeMap<(TenantId, Box<str>), QueueAhead>);

/// A queue that has come before its session.
#[derive(Debug)]
struct QueueAhead {
    /// The move.
    transfer: u64,
    /// The number of its session in the store of the old home.
    session: u64,
    /// The number that its session gets here.
    stored: StoredSession,
    /// The numbers of its messages, first and last of each range, in their order.
    numbers: Vec<(u64, u64)>,
}

impl QueueAhead {
    fn last(&self) -> u64 {
        self.numbers.last().map_or(0, |(_, last)| *last)
    }

    fn add(&mut self, number: u64) {
        match self.numbers.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => self.numbers.push((number, number)),
        }
    }

    /// How many of its messages have numbers of a range.
    fn count(&self, first: u64, last: u64) -> u64 {
        let within = |(from, to): &(u64, u64)| to.min(&last).saturating_add(1).saturating_sub(*from.max(&first));
        self.numbers.iter().map(within).sum()
    }

    /// Whether it has all messages that an image names.
    fn has_all_of(&self, tail: &TailImage) -> bool {
        let first = tail.tail.first;
        let gone = tail.tail.runs.gone().iter();
        let gone: u64 = gone.map(|(from, to)| self.count(*from.max(&first), *to.min(&tail.last))).sum();
        self.transfer == tail.transfer
            && self.session == tail.session
            && self.count(first, tail.last).checked_sub(gone) == Some(tail.tail.messages)
            && tail.brought().all(|number| number < first || self.count(number, number) == 0)
    }
}

impl QueuesAhead {
    /// Writes a piece of a queue. Messages that are here already are passed over.
    ///
    /// # Errors
    /// When the piece is damaged; nothing of it is written then.
    pub(crate) fn take(
        &mut self,
        place: ShardPosition,
        journal: &mut Journal,
        piece: &[u8],
    ) -> Result<PieceTaken, ImageError> {
        let mut reader = WireReader::new(piece);
        let transfer = reader.u64("a move")?;
        let tenant = TenantId(reader.u16("a tenant")?);
        let client_id = reader.text("a client id")?;
        let session = reader.u64("a session's number")?;
        if !place.owns(partition_of(tenant, client_id)) {
            return Ok(PieceTaken::Elsewhere);
        }
        if !journal.is_on() || journal.full {
            return Ok(PieceTaken::NoRoom);
        }
        let (now, mut entries) = (journal.now, Vec::new());
        while !reader.is_empty() {
            let (number, value) = (bounded(reader.u64("a message's number")?)?, reader.bytes("a message")?);
            ReadEntry::read(value, now, tenant, &[])?;
            if ReadEntry::stays_in_memory(value) || entries.last().is_some_and(|(before, _)| *before >= number) {
                return Err(WireError { reading: "a message of a queue" }.into());
            }
            entries.push((number, value));
        }
        let name = (tenant, Box::from(client_id));
        if let Some(other) = self.0.get(&name).filter(|it| it.transfer != transfer || it.session != session) {
            journal.delete(Key::Session(other.stored));
            self.0.remove(&name);
        }
        let queue = self.0.entry(name).or_insert_with(|| {
            let stored = journal.new_session();
            journal.put(Key::Session(stored), |out| put_ahead(out, tenant, client_id));
            QueueAhead { transfer, session, stored, numbers: Vec::new() }
        });
        let last = queue.last();
        for (number, value) in entries.into_iter().filter(|(number, _)| *number > last) {
            journal.put(Key::Entry(queue.stored, number), |out| out.extend_from_slice(value));
            queue.add(number);
        }
        Ok(PieceTaken::Written)
    }

    /// Drops the queues of all other moves. The store deletes their messages when it merges.
    pub(crate) fn keep(&mut self, journal: &mut Journal, transfers: &[u64]) {
        self.0.retain(|_, queue| {
            let stays = transfers.contains(&queue.transfer);
            if !stays {
                journal.delete(Key::Session(queue.stored));
            }
            stays
        });
    }

    /// Checks that the queue of a session has come as its image says.
    ///
    /// # Errors
    /// When messages of it are missing.
    pub(crate) fn check(&self, session: &Session, tail: &TailImage) -> Result<(), ImageError> {
        let queue = self.0.get(&(session.tenant, session.client_id.clone()));
        if queue.is_some_and(|queue| queue.has_all_of(tail)) {
            return Ok(());
        }
        Err(ImageError::QueueMissing(session.client_id.to_string()))
    }

    /// Gives a session its queue. Messages that left the queue since they were sent are deleted.
    pub(crate) fn give(&mut self, journal: &mut Journal, session: &mut Session, tail: TailImage) {
        let Some(queue) = self.0.remove(&(session.tenant, session.client_id.clone())) else { return };
        let first = tail.tail.first;
        let passed = queue.numbers.iter().map(|(from, to)| (*from, *to.min(&first.saturating_sub(1))));
        let gone = tail.tail.runs.gone().iter().copied();
        for number in passed.chain(gone).flat_map(|(from, to)| from..=to) {
            journal.delete(Key::Entry(queue.stored, number));
        }
        session.stored = Some(queue.stored);
        tail.join(journal, session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tail::Tail;

    fn queue(numbers: &[u64]) -> QueueAhead {
        let stored = StoredSession(std::num::NonZeroU64::MIN);
        let mut queue = QueueAhead { transfer: 1, session: 2, stored, numbers: Vec::new() };
        for number in numbers {
            queue.add(*number);
        }
        queue
    }

    #[test]
    fn a_queue_counts_its_messages_by_ranges() {
        let queue = queue(&[3, 4, 5, 8, 9]);
        assert_eq!((queue.numbers.len(), queue.last()), (2, 9));
        let counts = [(1, 9), (4, 8), (6, 7), (9, 20), (10, 20), (5, 4)].map(|(first, last)| queue.count(first, last));
        assert_eq!(counts, [5, 3, 0, 1, 0, 0]);
    }

    #[test]
    fn an_image_names_only_messages_that_have_come() {
        let queue = queue(&[3, 4, 5, 8, 9]);
        let named = |transfer, session, (first, last), messages| {
            let mut image = TailImage::default();
            (image.transfer, image.session, image.last) = (transfer, session, last);
            image.tail = Tail::beginning_at(first);
            image.tail.messages = messages;
            queue.has_all_of(&image)
        };
        assert!(named(1, 2, (4, 9), 4) && named(1, 2, (6, 8), 1));
        assert!(!named(1, 2, (4, 10), 5) && !named(1, 2, (4, 9), 3));
        assert!(!named(7, 2, (4, 9), 4), "of another move");
        assert!(!named(1, 7, (4, 9), 4), "of another session");
    }
}
