//! The numbers that shards of other nodes have in this process.
//!
//! A number identifies one life of one shard. It is reused only when all shards of this process know that it is free,
//! and have handed each other all earlier records: so a record about the old life never reaches a shard that knows the
//! new one.

use tidegate_engine::{MAX_SHARDS, ShardId};

/// The number of a session.
pub(super) type SessionId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// Nobody's since this roster.
    Free(u64),
    Taken(SessionId),
}

/// No numbers could be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSlots {
    /// Free as soon as all shards know of the departures.
    Yet,
    /// Not with the nodes that there are.
    Left,
}

/// All numbers above the numbers of the process's own shards.
#[derive(Debug)]
pub(super) struct Slots {
    own: u16,
    slots: Vec<Slot>,
}

impl Slots {
    /// For a process with this number of shards.
    pub(super) fn new(own: u16) -> Self {
        Self { own, slots: vec![Slot::Free(0); usize::from(MAX_SHARDS.saturating_sub(own))] }
    }

    /// How many numbers there are for shards of others.
    pub(super) fn len(&self) -> u16 {
        self.slots.len() as u16
    }

    /// Gives a session numbers for its shards: the numbers that have been free for the longest time. All shards have
    /// confirmed the rosters up to `received`.
    pub(super) fn take(&mut self, session: SessionId, shards: u16, received: u64) -> Result<Vec<ShardId>, NoSlots> {
        let free = |(at, slot): (usize, &Slot)| match slot {
            Slot::Free(since) => Some((*since, at)),
            Slot::Taken(_) => None,
        };
        let mut free: Vec<(u64, usize)> = self.slots.iter().enumerate().filter_map(free).collect();
        if free.len() < usize::from(shards) {
            return Err(NoSlots::Left);
        }
        free.retain(|(since, _)| *since <= received);
        if free.len() < usize::from(shards) {
            return Err(NoSlots::Yet);
        }
        free.sort_unstable();
        free.truncate(usize::from(shards));
        for (_, at) in &free {
            if let Some(slot) = self.slots.get_mut(*at) {
                *slot = Slot::Taken(session);
            }
        }
        Ok(free.into_iter().map(|(_, at)| ShardId(self.own + at as u16)).collect())
    }

    /// Takes the numbers of a session back, from this roster on.
    pub(super) fn free(&mut self, session: SessionId, since: u64) {
        for slot in self.slots.iter_mut().filter(|slot| **slot == Slot::Taken(session)) {
            *slot = Slot::Free(since);
        }
    }

    /// The session that has a number.
    pub(super) fn holder(&self, shard: ShardId) -> Option<SessionId> {
        match self.slots.get(usize::from(shard.0.checked_sub(self.own)?))? {
            Slot::Taken(session) => Some(*session),
            Slot::Free(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_behind_the_own_ones_and_end_at_the_last() {
        let mut slots = Slots::new(60);
        assert_eq!(slots.len(), 4);
        assert_eq!(slots.take(1, 3, 0), Ok(vec![ShardId(60), ShardId(61), ShardId(62)]));
        assert_eq!(slots.take(2, 2, 0), Err(NoSlots::Left));
        assert_eq!(slots.take(2, 1, 0), Ok(vec![ShardId(63)]));
        assert_eq!(
            (slots.holder(ShardId(61)), slots.holder(ShardId(63)), slots.holder(ShardId(3))),
            (Some(1), Some(2), None)
        );
        assert_eq!(Slots::new(MAX_SHARDS).take(1, 1, 0), Err(NoSlots::Left));
    }

    #[test]
    fn a_number_is_reused_late_and_after_all_shards_know() {
        let mut slots = Slots::new(60);
        slots.take(1, 2, 0).unwrap();
        slots.free(1, 7);
        assert_eq!(slots.take(2, 2, 6), Ok(vec![ShardId(62), ShardId(63)]), "unused numbers first");
        assert_eq!(slots.take(3, 1, 6), Err(NoSlots::Yet));
        assert_eq!(slots.take(3, 1, 7), Ok(vec![ShardId(60)]));
    }
}
