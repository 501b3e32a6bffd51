//! The end of a long queue is left to the store and read again.

use crate::ids::SessionKey;
use crate::memory::MemoryUse;
use crate::message::Publication;
use crate::now::Millis;
use crate::session::table::Sessions;
use crate::session::tail::Tail;
use crate::session::{Delivery, Flow};
use crate::state::ShardState;
use std::collections::BTreeSet;

impl ShardState {
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
        let tail = flow.tail.get_or_insert_with(|| Box::new(Tail::beginning_at(number)));
        tail.add(number, publication.expires_at, cost);
        tail.batch = batch;
        // An image has the messages that came after the end of the queue was sent to the new home.
        let room = if stays { u64::MAX } else { share.saturating_sub(flow.queue_bytes) };
        tail.keep_newest(Delivery { number, ..delivery.clone() }, room);
        if tail.copies().0 == 1 {
            self.copied.insert(to);
        }
        // A message shared by several sessions is read by another key, so it is written for each of them.
        let wide = std::mem::replace(&mut publication.wide, false);
        self.journal.put_entry(stored, number, publication, terms, delivery.qos, None, false);
        publication.wide = wide;
        self.memory.stored_messages += 1;
        self.memory.stored_bytes += cost;
        session.count_tail(&mut self.memory);
        true
    }
}

/// Whether a message may wait outside memory.
fn may_leave_memory(delivery: &Delivery) -> bool {
    delivery.qos != tidegate_mqtt::QoS::AtMostOnce
        && delivery.group.is_none()
        && !delivery.latest
        && delivery.message.priority == 0
}

impl Flow {
    /// Ends the tail of the queue if all its messages are in memory. Returns when the first of them expires.
    #[cold]
    pub(crate) fn end_tail_in_memory(&mut self, memory: &mut MemoryUse) -> Millis {
        let Some(tail) = self.tail.take_if(|tail| tail.is_in_memory()) else { return Millis::NEVER };
        memory.forget_tail(tail.messages, tail.bytes, tail.counted);
        let mut first_expiry = Millis::NEVER;
        for delivery in tail.into_newest() {
            let cost = delivery.cost();
            first_expiry = first_expiry.min(delivery.message.expires_at);
            self.queue.push_back(delivery);
            self.queue_bytes += cost;
            memory.count_queued(cost);
        }
        first_expiry
    }
}

/// Leaves the ends of queues to the store alone that are in memory as well; returns whether that has freed memory.
#[cold]
pub(crate) fn shed_copies(copied: &mut BTreeSet<SessionKey>, sessions: &mut Sessions, memory: &mut MemoryUse) -> bool {
    let held = memory.held;
    for key in std::mem::take(copied) {
        if let Some(session) = sessions.get_mut(key.0) {
            session.forget_newest(memory);
        }
    }
    memory.held < held
}

impl ShardState {
    /// Reads again for messages that were invisible before a commit.
    pub(crate) fn read_committed(&mut self, committed: u64) {
        while let Some((_, key)) = self.to_read.front().filter(|(batch, _)| *batch <= committed).copied() {
            self.to_read.pop_front();
            let share = self.memory.queue_share();
            if let Some(session) = self.sessions.get_mut(key.0) {
                session.read_ahead(share, &self.journal, &mut self.events);
            }
        }
    }
}
