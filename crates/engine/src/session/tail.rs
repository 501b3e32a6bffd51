//! The end of a long queue, which is in the store alone.
//!
//! A queue keeps its share in memory; what comes behind is only written into the journal, and read ahead from the store
//! when the share runs low. What is in memory is always older than what is not, so that nothing has to wait for a load
//! but the messages that it brings. Messages that are not simply the next ones stay in memory: those with a priority,
//! those of which only the newest counts, and those of shared groups, which other members may get.

pub(crate) mod runs;

use crate::desk::Desk;
use crate::durable::entries_from;
use crate::event::{Event, WantedQueue};
use crate::ids::{SessionKey, TenantId};
use crate::memory::MemoryUse;
use crate::message::Publication;
use crate::now::Millis;
use crate::session::table::Sessions;
use crate::session::{Delivery, Flow};
use crate::telling::reason::Reason;
use runs::Runs;

/// The part of a queue that is in the store alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    /// The number of its first message.
    pub first: u64,
    pub messages: u64,
    /// What they will cost in memory.
    pub bytes: u64,
    /// The batch of the journal that its last message was written in: a load sees it once that is committed.
    pub batch: u64,
    /// Whether a part of it is on its way.
    pub loading: bool,
    /// Whether all of it was committed when that was asked for: then some of it has to come.
    pub seen: bool,
    /// Which of its messages expire when.
    pub runs: Runs,
    /// What of the runs' memory is counted.
    pub counted: u64,
}

/// Bytes asked for at once.
const LOAD_BYTES: usize = 256 * 1024;

impl Flow {
    /// Messages that wait, and their bytes, in memory or not.
    #[inline]
    pub(crate) fn waiting(&self) -> (usize, u64) {
        let tail = self.tail.as_ref().map_or((0, 0), |tail| (tail.messages as usize, tail.bytes));
        (self.queue.len() + tail.0, self.queue_bytes + tail.1)
    }
}

impl Desk {
    /// Writes a message that a stored session is owed behind what its queue holds in memory, if it belongs there; says
    /// whether it did.
    pub(crate) fn enqueue_in_store(
        &mut self,
        publication: &mut Publication<'_>,
        to: SessionKey,
        terms: &crate::publish::deliver::Terms<'_>,
        delivery: &Delivery,
    ) -> bool {
        let share = self.memory.queue_share();
        let Some(session) = self.sessions.get_mut(to.0) else { return false };
        let Some(stored) = session.stored else { return false };
        let Some(flow) = session.flow.as_mut() else { return false };
        let cost = delivery.cost();
        let stays = self.moving.has(crate::ids::partition_of(session.tenant, &session.client_id));
        let beyond = flow.tail.is_some()
            || (!stays && !flow.queue.is_empty() && flow.queue_bytes + cost > share && flow.queue.is_in_order());
        if !beyond || !may_leave_memory(delivery) {
            return false;
        }
        flow.keeps_qos0 |= publication.qos < delivery.qos;
        let number = flow.number();
        let batch = self.journal.sequence();
        let tail = flow.tail.get_or_insert_with(|| Box::new(Tail { first: number, ..Tail::default() }));
        tail.messages += 1;
        tail.bytes += cost;
        tail.batch = batch;
        tail.runs.add(number, publication.expires_at, cost);
        // What several sessions share is read by another key, so that such a message is written for each of them.
        let wide = std::mem::replace(&mut publication.wide, false);
        self.journal.put_entry(stored, number, publication, terms, delivery.qos, None, false);
        publication.wide = wide;
        self.memory.stored_messages += 1;
        self.memory.stored_bytes += cost;
        self.sessions.count_runs(&mut self.memory, to);
        true
    }

    /// Asks for the next part of a queue when little of it is left in memory.
    pub(crate) fn read_ahead(&mut self, to: SessionKey) {
        let share = self.memory.queue_share();
        let Some(session) = self.sessions.get(to.0) else { return };
        let low = session.flow.as_ref().is_some_and(|flow| flow.queue_bytes <= share / 2);
        if session.connection.is_some() && low {
            self.load_tail(to);
        }
    }

    /// Asks for the next part of a queue unless one is on its way.
    pub(crate) fn load_tail(&mut self, to: SessionKey) {
        let Some(session) = self.sessions.get_mut(to.0) else { return };
        let Some(stored) = session.stored else { return };
        let Some(flow) = session.flow.as_mut() else { return };
        let Some(tail) = flow.tail.as_mut().filter(|tail| !tail.loading) else { return };
        tail.loading = true;
        tail.seen = tail.batch <= self.journal.committed();
        let (from, to) = entries_from(stored, tail.first);
        let wanted = WantedQueue {
            tenant: session.tenant,
            client_id: session.client_id.to_string(),
            session: stored.0.get(),
            from,
            to,
            max_bytes: LOAD_BYTES,
        };
        self.events.push_back(Event::ReadQueue(wanted));
    }

    /// Takes the messages that expired first out of the end of a queue, if any have; returns how many. They are
    /// deleted unread, so that nobody but the counters is told.
    pub(crate) fn expire_in_tail(&mut self, now: Millis, to: SessionKey) -> u64 {
        let Some(session) = self.sessions.get_mut(to.0) else { return 0 };
        let stored = session.stored;
        let Some(tail) = session.flow.as_mut().and_then(|flow| flow.tail.as_mut()) else { return 0 };
        let Some(run) = tail.runs.pop_expired(now, tail.first) else { return 0 };
        tail.first = tail.runs.remove(&run, tail.first);
        let messages = (run.last - run.first + 1).min(tail.messages);
        let bytes = if messages == tail.messages { tail.bytes } else { run.bytes.min(tail.bytes) };
        tail.messages -= messages;
        tail.bytes -= bytes;
        let over = tail.messages == 0 && !tail.loading;
        self.memory.stored_messages -= messages;
        self.memory.stored_bytes -= bytes;
        if over && let Some(tail) = session.flow.as_mut().and_then(|flow| flow.tail.take()) {
            self.memory.forget_tail(tail.messages, tail.bytes, tail.counted);
        }
        self.sessions.count_runs(&mut self.memory, to);
        self.counters.dropped[Reason::MessageExpired.number()] += messages;
        for number in run.first..=run.last {
            self.journal.forget_stored(stored, number);
        }
        messages
    }
}

/// Whether a message may wait outside memory.
fn may_leave_memory(delivery: &Delivery) -> bool {
    delivery.qos != tidegate_mqtt::QoS::AtMostOnce
        && delivery.group.is_none()
        && !delivery.latest
        && delivery.message.priority == 0
}

/// Why the end of a queue did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// The store has too much to read at the moment: it is asked again.
    Busy,
    /// It cannot be read. What it held is given up and counted under [`Reason::QueueLost`].
    Lost,
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

impl Desk {
    /// Asks again for a part of a queue, once what is being gathered is committed.
    pub(crate) fn read_later(&mut self, key: SessionKey) {
        let flow = self.sessions.get_mut(key.0).and_then(|session| session.flow.as_mut());
        if let Some(tail) = flow.and_then(|flow| flow.tail.as_mut()) {
            tail.loading = false;
            let batch = self.journal.awaited_batch();
            self.to_read.push_back((batch, key));
        }
    }

    /// Asks again for what could not be seen before a commit.
    pub(crate) fn read_committed(&mut self, committed: u64) {
        while let Some((_, key)) = self.to_read.front().filter(|(batch, _)| *batch <= committed).copied() {
            self.to_read.pop_front();
            self.read_ahead(key);
        }
    }
}

impl Sessions {
    /// Counts the memory of what is known of the end of a queue.
    pub(crate) fn count_runs(&mut self, memory: &mut MemoryUse, to: SessionKey) {
        let flow = self.get_mut(to.0).and_then(|session| session.flow.as_mut());
        let Some(tail) = flow.and_then(|flow| flow.tail.as_mut()) else { return };
        let before = std::mem::replace(&mut tail.counted, tail.runs.memory());
        memory.held = memory.held - before + tail.counted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::{Key, StoredSession};

    #[test]
    fn a_tail_counts_towards_what_waits() {
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
