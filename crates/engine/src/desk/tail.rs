//! The end of a long queue is left to the store and read again.

use crate::desk::Desk;
use crate::event::{Event, WantedQueue};
use crate::ids::SessionKey;
use crate::journal::keys::entries_from;
use crate::message::Publication;
use crate::now::Millis;
use crate::session::Delivery;
use crate::session::tail::Tail;
use crate::telling::reason::Reason;

/// Bytes asked for at once.
const LOAD_BYTES: usize = 256 * 1024;

impl Desk {
    /// Writes a message that a stored session is owed behind what its queue holds in memory, if it belongs there; says
    /// whether it did.
    pub(crate) fn enqueue_in_store(
        &mut self,
        publication: &mut Publication<'_>,
        to: SessionKey,
        terms: &crate::session::terms::Terms<'_>,
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
