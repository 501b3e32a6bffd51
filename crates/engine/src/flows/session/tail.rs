//! The end of a long queue is read from the store.

use crate::events::reason::Reason;
use crate::flows::contexts::Reading;
use crate::ids::SessionKey;
use crate::now::Millis;
use crate::records::stored::EntryRead;
use crate::session::tail::{Tail, Unread};

impl Reading<'_> {
    /// Puts one message back into memory, or passes over one that is there; returns how many that were.
    pub(crate) fn take_read(&mut self, now: Millis, key: SessionKey, read: EntryRead) -> u64 {
        let EntryRead { number, delivery, .. } = read;
        let allowed =
            delivery.as_ref().is_none_or(|delivery| self.rules.may_receive(self.state, key, delivery.message.topic()));
        let owed = delivery.as_ref().is_none_or(|delivery| self.is_owed_still(key, number, &delivery.message));
        let state = &mut *self.state;
        let share = state.memory.queue_share();
        let Some(session) = state.sessions.get_mut(key.0) else { return 0 };
        let stored = session.stored;
        let Some(flow) = session.flow.as_mut() else { return 0 };
        let Some(tail) = flow.tail.as_mut().filter(|tail| number >= tail.first && tail.messages > 0) else { return 0 };
        tail.first = number + 1;
        tail.pass_newest(number);
        if tail.runs.is_gone(number) {
            return 1;
        }
        let Some(delivery) = delivery else { return 1 };
        let cost = delivery.cost();
        tail.messages -= 1;
        let out = cost.min(tail.bytes);
        tail.bytes -= out;
        state.memory.stored_messages -= 1;
        state.memory.stored_bytes -= out;
        if delivery.is_expired(now) {
            state.drop_expired(key, &delivery);
            return 1;
        }
        if !allowed || !owed {
            let reason = if owed { Reason::NotAuthorized } else { Reason::SessionDiscarded };
            state.reports().drop_for(reason, key, delivery.message.topic());
            state.journal.forget_stored(stored, number);
            return 1;
        }
        let expires_at = delivery.message.expires_at;
        flow.queue.push_back(delivery);
        flow.queue_bytes += cost;
        let queue_bytes = flow.queue_bytes;
        if let Some(tail) = flow.tail.as_mut().filter(|tail| queue_bytes + tail.copies().1 > share) {
            tail.forget_newest();
        }
        state.memory.queued_messages += 1;
        state.memory.queued_bytes += cost;
        state.memory.held += cost;
        state.sessions.note_expiry(&mut state.timers, key, expires_at);
        1
    }

    /// Repeats the read of the tail after the next commit.
    pub(crate) fn read_later(&mut self, key: SessionKey, why: Unread) {
        if let Some(session) = self.state.sessions.get_mut(key.0) {
            session.read_later(&mut self.state.journal, &mut self.state.to_read, key, why);
        }
    }

    pub(crate) fn give_up_tail(&mut self, key: SessionKey) {
        if let Some(tail) = self.drop_tail(key) {
            self.state.counters.dropped[Reason::QueueLost.number()] += tail.messages;
        }
    }

    pub(crate) fn drop_tail(&mut self, key: SessionKey) -> Option<Tail> {
        let tail = self.state.sessions.get_mut(key.0)?.flow.as_mut()?.tail.take()?;
        // A part that was read may have cost a little more or less than it was reckoned with.
        self.state.memory.forget_tail(tail.messages, tail.bytes, tail.counted);
        Some(*tail)
    }
}
