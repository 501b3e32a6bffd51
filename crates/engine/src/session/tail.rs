//! The end of a long queue, which is in the store alone.
//!
//! A queue keeps its share in memory. Messages beyond it are only written into the journal, and read ahead from the
//! store when the share runs low. The messages in memory are always older than the others, so a load delays only its
//! own messages. The newest of the others stay in memory as well, as long as the share has room for them: once they are
//! all that is left, they need no load. Messages whose turn can change stay in memory: messages with a priority, messages that the
//! newest replaces, and messages of shared groups, which other members may get.

use crate::now::Millis;

pub(crate) mod runs;

use crate::event::{Event, WantedQueue};
use crate::ids::{SessionKey, TenantId};
use crate::journal::Journal;
use crate::journal::keys::entries_from;
use crate::memory::MemoryUse;
use crate::session::table::Sessions;
use crate::session::{Delivery, Flow, Session};
use crate::wire::WireError;
use runs::Runs;
use std::collections::VecDeque;
use tidegate_mqtt::PacketId;

/// The highest number of a message, and the highest count of messages or bytes of one queue, that another node may name.
/// No sum of them overflows.
const MAX_NUMBER: u64 = 1 << 48;

/// A number of another node.
pub(crate) fn bounded(number: u64) -> Result<u64, WireError> {
    if number <= MAX_NUMBER { Ok(number) } else { Err(WireError { reading: "a number of a queue below 2^48" }) }
}

/// The part of a queue that is in the store alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    /// The number of its first message.
    pub first: u64,
    /// The number of its last message.
    pub last: u64,
    pub messages: u64,
    /// Their bytes in memory once loaded.
    pub bytes: u64,
    /// The batch of the journal that its last message was written in: a load sees it once that is committed.
    pub batch: u64,
    /// Whether a part of it is being read.
    pub loading: bool,
    /// The batch of the journal before whose commit no part is read again: the store has shown nothing.
    waits_for: u64,
    /// Whether all of it was committed at the request: then some of it has to come.
    pub seen: bool,
    /// Further parts to read one after another, since a move needs the whole queue in memory.
    pub parts_to_move: u32,
    /// The times at which its messages expire.
    pub runs: Runs,
    /// Its newest messages, which are in memory as well.
    newest: VecDeque<Delivery>,
    newest_bytes: u64,
    /// The part of its memory that is counted, bytes.
    pub counted: u64,
}

impl Tail {
    /// Without a message; the first one will have this number.
    pub(crate) fn beginning_at(first: u64) -> Self {
        Self { first, ..Self::default() }
    }

    /// Begins to read a part; returns false where one is being read already, or where the store would show nothing new.
    /// `committed` is the last committed batch of the journal.
    fn begin_loading(&mut self, committed: u64) -> bool {
        if self.loading || self.waits_for > committed {
            return false;
        }
        self.loading = true;
        self.seen = self.batch <= committed;
        true
    }

    /// No part is being read. The store has shown nothing, unless it was busy: then the next part is read when this batch is
    /// committed.
    fn load_after(&mut self, batch: u64, why: Unread) {
        self.loading = false;
        if why == Unread::Uncommitted {
            self.waits_for = batch;
        }
    }

    /// A stored message is appended.
    pub(crate) fn add(&mut self, number: u64, expires_at: Millis, bytes: u64) {
        self.count_in(number, bytes);
        self.runs.add(number, expires_at, bytes);
    }

    /// The same, where it is known when the message expires.
    pub(crate) fn count_in(&mut self, number: u64, bytes: u64) {
        self.last = number;
        self.messages += 1;
        self.bytes += bytes;
    }

    /// The number of its first message that is in memory as well, as are all messages behind it.
    pub(crate) fn first_copy(&self) -> Option<u64> {
        self.newest.front().map(|delivery| delivery.number)
    }

    /// Its messages that are in memory as well.
    pub(crate) fn copied_messages(&self) -> impl Iterator<Item = &Delivery> {
        self.newest.iter()
    }

    /// Keeps a copy of the message that was appended last, or none of any message where the queue's `room` in memory is
    /// too small, bytes.
    pub(crate) fn keep_newest(&mut self, delivery: Delivery, room: u64) {
        let cost = delivery.cost();
        if self.newest_bytes + cost > room {
            return self.forget_newest();
        }
        self.newest_bytes += cost;
        self.newest.push_back(delivery);
    }

    /// Only the store has its messages from now on, as when it is to be decided again whether they are delivered.
    pub(crate) fn forget_newest(&mut self) {
        (self.newest, self.newest_bytes) = (VecDeque::new(), 0);
    }

    /// The messages up to a number are no longer a part of it.
    pub(crate) fn pass_newest(&mut self, number: u64) {
        while self.newest.front().is_some_and(|delivery| delivery.number <= number) {
            self.newest_bytes -= self.newest.pop_front().map_or(0, |delivery| delivery.cost());
        }
    }

    /// Whether all its messages are in memory, and none is awaited from the store.
    pub(crate) fn is_in_memory(&self) -> bool {
        !self.loading && self.newest.len() as u64 == self.messages
    }

    /// Its messages that are in memory, in their order.
    pub(crate) fn into_newest(self) -> VecDeque<Delivery> {
        self.newest
    }

    /// Messages and bytes of its newest messages, which are in memory as well.
    pub(crate) fn copies(&self) -> (usize, u64) {
        (self.newest.len(), self.newest_bytes)
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> u64 {
        self.runs.memory() + self.newest_bytes
    }

    /// The messages of another part are appended.
    pub(crate) fn append(&mut self, end: Self) {
        self.forget_newest();
        self.last = end.last;
        self.messages += end.messages;
        self.bytes += end.bytes;
        self.runs.append(end.runs);
    }
}

/// The place of a message that a session brought along. A read of the end of the queue passes over messages that are in
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdoptedPlace {
    /// It waits, before the end of the queue or as a part of it.
    Queue,
    /// It waits in memory, and its number is within the end of the queue.
    WithinTail,
    /// It is in flight under this packet id. A record of its own says its state.
    Sent(PacketId),
}

impl Flow {
    /// The places of waiting messages in memory, by their numbers.
    pub(crate) fn place_of_adopted(&self) -> impl Fn(u64) -> AdoptedPlace + use<> {
        let first = self.tail.as_ref().map_or(u64::MAX, |tail| tail.first);
        move |number| if number >= first { AdoptedPlace::WithinTail } else { AdoptedPlace::Queue }
    }

    /// Messages that wait, and their bytes, in memory or not.
    #[inline]
    pub(crate) fn waiting(&self) -> (usize, u64) {
        let tail = self.tail.as_ref().map_or((0, 0), |tail| (tail.messages as usize, tail.bytes));
        (self.queue.len() + tail.0, self.queue_bytes + tail.1)
    }
}

/// The reason why the end of a queue could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// The store has too much to read at the moment: it is asked again.
    Busy,
    /// It cannot be read. Its messages are given up and counted under [`Reason::QueueLost`](crate::Reason::QueueLost).
    Lost,
}

/// The reason why a part of a queue is requested again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The store has too much to read.
    Busy,
    /// The store has shown nothing, since nothing of it was committed.
    Uncommitted,
}

impl Sessions {
    /// The session that waits for a part of its queue; a later one of the same client id does not.
    pub(crate) fn wanted_by(&self, tenant: TenantId, client_id: &str, stored: u64) -> Option<SessionKey> {
        let key = self.find_session(tenant, client_id)?;
        let session = self.get(key.0)?;
        let waits = session.flow.as_ref()?.tail.as_ref()?.loading;
        (waits && session.stored.map(|stored| stored.0.get()) == Some(stored)).then_some(key)
    }
}

/// Bytes asked for at once from the end of a queue.
const LOAD_BYTES: usize = 256 * 1024;

/// Parts of a queue that are read for a move before it has to ask again: 16 MiB. A move that is called off asks no more.
const PARTS_OF_MOVE: u32 = 64;

impl Session {
    /// Requests the next part of the queue when less than half of `share` is in memory: the bytes that a queue may hold
    /// there.
    #[inline]
    pub(crate) fn read_ahead(&mut self, share: u64, journal: &Journal, events: &mut VecDeque<Event>) {
        let low = self.flow.as_ref().is_some_and(|flow| flow.queue_bytes <= share / 2);
        if self.connection.is_some() && low {
            self.load_tail(journal, events);
        }
    }

    /// Requests the next part of the queue, unless a request is pending.
    pub(crate) fn load_tail(&mut self, journal: &Journal, events: &mut VecDeque<Event>) {
        let Some(stored) = self.stored else { return };
        let Some(flow) = self.flow.as_mut() else { return };
        let Some(tail) = flow.tail.as_mut() else { return };
        if !tail.begin_loading(journal.committed()) {
            return;
        }
        let (from, to) = entries_from(stored, tail.first);
        let wanted = WantedQueue {
            tenant: self.tenant,
            client_id: self.client_id.to_string(),
            session: stored.0.get(),
            from,
            to,
            max_bytes: LOAD_BYTES,
        };
        events.push_back(Event::ReadQueue(wanted));
    }

    /// Requests the rest of the queue for a move, part after part.
    pub(crate) fn load_tail_to_move(&mut self, journal: &Journal, events: &mut VecDeque<Event>) {
        let tail = self.flow.as_mut().and_then(|flow| flow.tail.as_mut());
        if let Some(tail) = tail {
            tail.parts_to_move = PARTS_OF_MOVE;
        }
        self.load_tail(journal, events);
    }

    /// Requests the next part for a move that has asked for it, if the session `moves` still.
    pub(crate) fn load_next_to_move(&mut self, moves: bool, journal: &Journal, events: &mut VecDeque<Event>) {
        let Some(tail) = self.flow.as_mut().and_then(|flow| flow.tail.as_mut()) else { return };
        if !moves {
            tail.parts_to_move = 0;
        }
        if tail.parts_to_move > 0 && !tail.loading {
            tail.parts_to_move -= 1;
            self.load_tail(journal, events);
        }
    }

    /// Deletes the run of messages in the tail that expired first, and returns their number. They are deleted unread: the
    /// caller counts them.
    pub(crate) fn expire_in_tail(&mut self, memory: &mut MemoryUse, journal: &mut Journal, now: Millis) -> u64 {
        let stored = self.stored;
        let Some(tail) = self.flow.as_mut().and_then(|flow| flow.tail.as_mut()) else { return 0 };
        let Some(run) = tail.runs.pop_expired(now, tail.first) else { return 0 };
        tail.forget_newest();
        tail.first = tail.runs.remove(&run, tail.first);
        let messages = (run.last - run.first + 1).min(tail.messages);
        let bytes = if messages == tail.messages { tail.bytes } else { run.bytes.min(tail.bytes) };
        tail.messages -= messages;
        tail.bytes -= bytes;
        let over = tail.messages == 0 && !tail.loading;
        memory.stored_messages -= messages;
        memory.stored_bytes -= bytes;
        if over && let Some(tail) = self.flow.as_mut().and_then(|flow| flow.tail.take()) {
            memory.forget_tail(tail.messages, tail.bytes, tail.counted);
        }
        self.count_tail(memory);
        for number in run.first..=run.last {
            journal.forget_stored(stored, number);
        }
        messages
    }

    /// Ends the pending request for a part of the queue. `key` is the key of this session: the request is repeated once
    /// the current batch of the journal is committed.
    pub(crate) fn read_later(
        &mut self,
        journal: &mut Journal,
        to_read: &mut VecDeque<(u64, SessionKey)>,
        key: SessionKey,
        why: Unread,
    ) {
        if let Some(tail) = self.flow.as_mut().and_then(|flow| flow.tail.as_mut()) {
            let batch = journal.awaited_batch();
            tail.load_after(batch, why);
            to_read.push_back((batch, key));
        }
    }

    /// The tail is in the store alone from now on.
    pub(crate) fn forget_newest(&mut self, memory: &mut MemoryUse) {
        if let Some(tail) = self.flow.as_mut().and_then(|flow| flow.tail.as_mut()) {
            tail.forget_newest();
            self.count_tail(memory);
        }
    }

    /// Counts the memory of the tail.
    pub(crate) fn count_tail(&mut self, memory: &mut MemoryUse) {
        let Some(tail) = self.flow.as_mut().and_then(|flow| flow.tail.as_mut()) else { return };
        let now = tail.memory();
        let before = std::mem::replace(&mut tail.counted, now);
        memory.held = memory.held - before + tail.counted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::keys::{Key, StoredSession, entries_from};

    #[test]
    fn a_tail_is_read_again_after_the_next_commit() {
        let mut tail = Tail { batch: 4, ..Tail::beginning_at(1) };
        assert!(tail.begin_loading(3) && !tail.seen);
        assert!(!tail.begin_loading(3), "it is being read");
        tail.load_after(5, Unread::Uncommitted);
        assert!(!tail.begin_loading(3) && !tail.begin_loading(4), "nothing new can be there");
        assert!(tail.begin_loading(5) && tail.seen);
        tail.load_after(7, Unread::Busy);
        assert!(tail.begin_loading(5), "a busy store is asked again at once");
    }

    #[test]
    fn a_tail_counts_as_queued_messages() {
        let tail = Tail { first: 3, messages: 2, bytes: 200, ..Tail::default() };
        let flow = Flow { tail: Some(Box::new(tail)), ..Flow::default() };
        assert_eq!(flow.waiting(), (2, 200));
        assert!(!flow.is_idle());
        let stored = StoredSession(std::num::NonZeroU64::MIN);
        let (from, to) = entries_from(stored, 3);
        let mut key = Vec::new();
        Key::Entry(stored, 3).write(&mut key);
        assert!(from == key && key < to);
    }
}
