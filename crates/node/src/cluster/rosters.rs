//! Which rosters the shards have been given, and which of them each has.

use std::sync::mpsc::Sender;

use tidegate_engine::ShardId;

/// Rosters by their numbers.
#[derive(Debug)]
pub(super) struct Rosters {
    /// The number of the last one.
    last: u64,
    /// The last one of which each shard says that it has it.
    heard: Vec<u64>,
    /// The last one whose nodes know what is wanted on each shard.
    settled: Vec<u64>,
    /// Who waits until all have one.
    waiting: Vec<(u64, Sender<()>)>,
}

impl Rosters {
    pub(super) fn new(shards: u16) -> Self {
        let none = vec![0; usize::from(shards)];
        Self { last: 0, heard: none.clone(), settled: none, waiting: Vec::new() }
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
    pub(super) fn heard(&self) -> u64 {
        self.heard.iter().copied().min().unwrap_or(self.last)
    }

    /// The last one whose nodes know what is wanted on all shards.
    pub(super) fn settled(&self) -> u64 {
        self.settled.iter().copied().min().unwrap_or(self.last)
    }

    /// Tells `done` when all shards have a roster.
    pub(super) fn wait(&mut self, number: u64, done: Sender<()>) {
        self.waiting.push((number, done));
        self.answer();
    }

    pub(super) fn note_heard(&mut self, shard: ShardId, number: u64) {
        if let Some(heard) = self.heard.get_mut(usize::from(shard.0)) {
            *heard = number.max(*heard);
        }
        self.answer();
    }

    pub(super) fn note_settled(&mut self, shard: ShardId, number: u64) {
        if let Some(settled) = self.settled.get_mut(usize::from(shard.0)) {
            *settled = number.max(*settled);
        }
    }

    fn answer(&mut self) {
        let heard = self.heard();
        for (_, done) in self.waiting.extract_if(.., |(number, _)| *number <= heard) {
            // Whoever asked may have stopped waiting.
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn whoever_waits_for_a_roster_hears_when_the_last_shard_has_it() {
        let mut rosters = Rosters::new(2);
        let (done, answers) = channel();
        let number = rosters.next();
        rosters.wait(number, done.clone());
        rosters.note_heard(ShardId(0), 1);
        assert!(answers.try_recv().is_err());
        assert_eq!((rosters.heard(), rosters.last()), (0, 1));
        rosters.note_heard(ShardId(1), 2);
        assert!(answers.try_recv().is_ok());
        rosters.wait(1, done);
        assert!(answers.try_recv().is_ok(), "all have it already");
        rosters.note_settled(ShardId(0), 2);
        assert_eq!(rosters.settled(), 0);
    }
}
