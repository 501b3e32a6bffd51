//! The rosters that the shards were given, and the last one of each shard.

use std::sync::mpsc::Sender;

use tidegate_engine::ShardId;

/// Rosters by their numbers.
#[derive(Debug)]
pub(super) struct Rosters {
    /// The number of the last one.
    last: u64,
    /// The last roster that each shard has confirmed.
    received: Vec<u64>,
    /// The last roster whose nodes know the interest of each shard.
    settled: Vec<u64>,
    /// Waiting callers, answered when all shards have one.
    waiting: Vec<(u64, Sender<()>)>,
}

impl Rosters {
    pub(super) fn new(shards: u16) -> Self {
        let none = vec![0; usize::from(shards)];
        Self { last: 0, received: none.clone(), settled: none, waiting: Vec::new() }
    }

    /// The number of the last one.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The number of a new one.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The last one that all shards have.
    pub(super) fn received(&self) -> u64 {
        self.received.iter().copied().min().unwrap_or(self.last)
    }

    /// The last roster whose nodes know the interest of all shards.
    pub(super) fn settled(&self) -> u64 {
        self.settled.iter().copied().min().unwrap_or(self.last)
    }

    /// Tells `done` when all shards have a roster.
    pub(super) fn wait(&mut self, number: u64, done: Sender<()>) {
        self.waiting.push((number, done));
        self.answer();
    }

    pub(super) fn note_received(&mut self, shard: ShardId, number: u64) {
        if let Some(received) = self.received.get_mut(usize::from(shard.0)) {
            *received = number.max(*received);
        }
        self.answer();
    }

    pub(super) fn note_settled(&mut self, shard: ShardId, number: u64) {
        if let Some(settled) = self.settled.get_mut(usize::from(shard.0)) {
            *settled = number.max(*settled);
        }
    }

    fn answer(&mut self) {
        let received = self.received();
        for (_, done) in self.waiting.extract_if(.., |(number, _)| *number <= received) {
            // The waiting caller may have given up.
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_waiter_is_notified_when_all_shards_have_the_roster() {
        let mut rosters = Rosters::new(2);
        let (done, answers) = channel();
        let number = rosters.next();
        rosters.wait(number, done.clone());
        rosters.note_received(ShardId(0), 1);
        assert!(answers.try_recv().is_err());
        assert_eq!((rosters.received(), rosters.last()), (0, 1));
        rosters.note_received(ShardId(1), 2);
        assert!(answers.try_recv().is_ok());
        rosters.wait(1, done);
        assert!(answers.try_recv().is_ok(), "all have it already");
        rosters.note_settled(ShardId(0), 2);
        assert_eq!(rosters.settled(), 0);
    }
}
