//! Room that is kept in queues for messages that every receiver takes, or none.

use std::collections::BTreeMap;

use crate::ids::{SessionKey, ShardId};

/// Names a reservation: the shard where the message entered, and that shard's number for it.
pub(crate) type ReservationId = (ShardId, u32);

/// Room kept in the queues of a shard. Each publisher has one message at most that waits for it.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    kept: BTreeMap<ReservationId, Vec<(SessionKey, u64)>>,
    /// Messages and bytes, by session.
    by_session: BTreeMap<u32, (usize, u64)>,
    /// The reservation that the next message of a shard uses.
    committing: BTreeMap<ShardId, u32>,
}

impl Reservations {
    /// Messages and bytes that are kept free for others in a session's queue.
    #[inline]
    pub(crate) fn of(&self, session: SessionKey) -> (usize, u64) {
        if self.by_session.is_empty() { (0, 0) } else { self.by_session.get(&session.0).copied().unwrap_or((0, 0)) }
    }

    /// Keeps room for a message of this cost in each of the sessions' queues.
    pub(crate) fn keep(&mut self, id: ReservationId, sessions: &[SessionKey], cost: u64) {
        for session in sessions {
            let sum = self.by_session.entry(session.0).or_insert((0, 0));
            sum.0 += 1;
            sum.1 += cost;
        }
        self.kept.insert(id, sessions.iter().map(|session| (*session, cost)).collect());
    }

    /// Gives the room of a reservation back, to be used at once or by anyone. Returns the sessions that it was kept in.
    pub(crate) fn release(&mut self, id: ReservationId) -> Vec<SessionKey> {
        let kept = self.kept.remove(&id).unwrap_or_default();
        for (session, cost) in &kept {
            if let Some(sum) = self.by_session.get_mut(&session.0) {
                sum.0 -= 1;
                sum.1 -= cost;
                if sum.0 == 0 {
                    self.by_session.remove(&session.0);
                }
            }
        }
        kept.into_iter().map(|(session, _)| session).collect()
    }

    /// The reservations of messages that entered at a shard.
    pub(crate) fn of_shard(&self, shard: ShardId) -> Vec<ReservationId> {
        self.kept.range((shard, 0)..=(shard, u32::MAX)).map(|(id, _)| *id).collect()
    }

    /// A session is gone, and with it the space in its queue.
    pub(crate) fn forget_session(&mut self, session: SessionKey) {
        if self.by_session.remove(&session.0).is_some() {
            for kept in self.kept.values_mut() {
                kept.retain(|(other, _)| *other != session);
            }
        }
    }

    /// The next message from a shard uses the reservation.
    pub(crate) fn commit(&mut self, id: ReservationId) {
        self.committing.insert(id.0, id.1);
    }

    /// The reservation that a message from a shard uses, which is over with it.
    #[inline]
    pub(crate) fn use_committed(&mut self, from: ShardId) {
        if !self.committing.is_empty()
            && let Some(number) = self.committing.remove(&from)
        {
            self.release((from, number));
        }
    }

    /// Compares the sums with their reservations.
    pub(crate) fn audit(&self, wrong: &mut dyn FnMut(String)) {
        let mut sums: BTreeMap<u32, (usize, u64)> = BTreeMap::new();
        for (session, cost) in self.kept.values().flatten() {
            let sum = sums.entry(session.0).or_insert((0, 0));
            sum.0 += 1;
            sum.1 += cost;
        }
        if sums != self.by_session {
            wrong(format!("reserved room: {:?} is kept, {sums:?} is true", self.by_session));
        }
    }

    /// Reservations that are not used or released.
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }
}
