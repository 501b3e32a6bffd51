//! The partitions that this process has, and how far each is done. The thread that speaks with the brokers and that of
//! the pipeline share them.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::super::ReplayAnswer;
use super::super::progress::Progress;

/// Acknowledges a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetToken {
    partition: i32,
    /// Which time it is that this process reads the partition.
    run: u64,
    offset: u64,
}

impl OffsetToken {
    /// Whether both are of one run of a partition.
    pub(super) fn is_of(self, other: Self) -> bool {
        (self.partition, self.run) == (other.partition, other.run)
    }
}

/// A partition of this process.
#[derive(Debug)]
struct PartitionShare {
    run: u64,
    progress: Progress,
    /// The offset below which the group has all as done.
    committed: u64,
    /// Behind the last record that the broker has.
    end: u64,
    /// Why it cannot be read, and when it is tried again.
    trouble: Option<(String, Instant)>,
}

#[derive(Debug, Default)]
struct SharesState {
    parts: BTreeMap<i32, PartitionShare>,
    runs: u64,
    /// Replays that are not done: their times in Unix milliseconds, and their answers.
    replays: Vec<(u64, ReplayAnswer)>,
    stopped: bool,
}

/// The partitions.
#[derive(Debug, Default)]
pub(super) struct Shares {
    state: Mutex<SharesState>,
    /// Rings when a message is done, and at the end.
    changed: Condvar,
}

impl Shares {
    fn state(&self) -> MutexGuard<'_, SharesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run of a partition at an offset; returns a token of the run that ends by that. Where the partition is
    /// read again, the group has another offset, and the next commit changes it.
    pub(super) fn begin(&self, partition: i32, offset: u64) -> Option<OffsetToken> {
        let mut state = self.state();
        state.runs += 1;
        let run = state.runs;
        let committed = state.parts.get(&partition).map_or(offset, |share| share.committed);
        let share = PartitionShare { run, progress: Progress::at(offset), committed, end: offset, trouble: None };
        let before = state.parts.insert(partition, share);
        before.map(|share| OffsetToken { partition, run: share.run, offset: 0 })
    }

    /// Drops the partitions that others have now; returns a token of each run that ends.
    pub(super) fn keep_only(&self, partitions: &[i32]) -> Vec<OffsetToken> {
        let mut state = self.state();
        let gone: Vec<i32> = state.parts.keys().copied().filter(|number| !partitions.contains(number)).collect();
        let end = |partition| {
            let share = state.parts.remove(&partition)?;
            Some(OffsetToken { partition, run: share.run, offset: 0 })
        };
        gone.into_iter().filter_map(end).collect()
    }

    /// The numbers of the partitions.
    pub(super) fn numbers(&self) -> Vec<i32> {
        self.state().parts.keys().copied().collect()
    }

    /// The partitions, and the offset that each is read from next.
    pub(super) fn positions(&self) -> Vec<(i32, i64)> {
        let position = |(number, share): (&i32, &PartitionShare)| (*number, as_offset(share.progress.next()));
        self.state().parts.iter().map(position).collect()
    }

    /// The same without the partitions that cannot be read and whose next attempt is later than `now`.
    pub(super) fn readable(&self, now: Instant) -> Vec<(i32, i64)> {
        let state = self.state();
        let is_due = |share: &PartitionShare| share.trouble.as_ref().is_none_or(|(_, until)| *until <= now);
        let due = state.parts.iter().filter(|(_, share)| is_due(share));
        due.map(|(number, share)| (*number, as_offset(share.progress.next()))).collect()
    }

    /// A partition cannot be read before `until`. Returns whether the reason is another one than before.
    pub(super) fn note_trouble(&self, partition: i32, why: String, until: Instant) -> bool {
        let mut state = self.state();
        let Some(share) = state.parts.get_mut(&partition) else { return false };
        let is_new = share.trouble.as_ref().is_none_or(|(before, _)| *before != why);
        share.trouble = Some((why, until));
        is_new
    }

    /// A partition was read. Returns whether it could not be read before.
    pub(super) fn end_trouble(&self, partition: i32) -> bool {
        self.state().parts.get_mut(&partition).is_some_and(|share| share.trouble.take().is_some())
    }

    /// The first partition that cannot be read, and why.
    pub(super) fn trouble(&self) -> Option<(i32, String)> {
        let state = self.state();
        state.parts.iter().find_map(|(number, share)| Some((*number, share.trouble.as_ref()?.0.clone())))
    }

    /// Notes that a record was taken; returns its token, or nothing when the partition has gone.
    pub(super) fn take(&self, partition: i32, offset: i64) -> Option<OffsetToken> {
        let mut state = self.state();
        let share = state.parts.get_mut(&partition)?;
        let offset = u64::try_from(offset).ok()?;
        share.progress.take(offset);
        Some(OffsetToken { partition, run: share.run, offset })
    }

    /// All up to these offsets was taken, or holds no record. `end` is behind the last record of the broker.
    pub(super) fn skip_to(&self, partition: i32, next: i64, end: i64) {
        if let Some(share) = self.state().parts.get_mut(&partition) {
            share.progress.skip_to(u64::try_from(next).unwrap_or_default());
            share.end = u64::try_from(end).unwrap_or_default();
        }
    }

    /// A message is done.
    pub(super) fn finish(&self, token: OffsetToken) {
        let mut state = self.state();
        if let Some(share) = state.parts.get_mut(&token.partition).filter(|share| share.run == token.run) {
            share.progress.finish(token.offset);
        }
        self.changed.notify_all();
    }

    /// The offsets for the group to note: partitions and the offsets below which all is done.
    pub(super) fn to_commit(&self) -> Vec<(i32, i64)> {
        let state = self.state();
        let changed = state.parts.iter().filter(|(_, share)| share.progress.done() != share.committed);
        changed.map(|(number, share)| (*number, as_offset(share.progress.done()))).collect()
    }

    /// The group has noted them.
    pub(super) fn committed(&self, offsets: &[(i32, i64)]) {
        let mut state = self.state();
        for (partition, offset) in offsets {
            if let Some(share) = state.parts.get_mut(partition) {
                share.committed = u64::try_from(*offset).unwrap_or_default();
            }
        }
    }

    /// Messages that were taken and are not done.
    pub(super) fn under_way(&self) -> usize {
        self.state().parts.values().map(|share| share.progress.len()).sum()
    }

    /// Records that the brokers have and that were not taken.
    pub(super) fn waiting(&self) -> u64 {
        self.state().parts.values().map(|share| share.end.saturating_sub(share.progress.next())).sum()
    }

    /// Waits until a message is done, or for `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        let state = self.state();
        if !state.stopped {
            drop(self.changed.wait_timeout(state, limit));
        }
    }

    pub(super) fn ask_for_replay(&self, from: u64, answer: ReplayAnswer) {
        self.state().replays.push((from, answer));
        self.changed.notify_all();
    }

    /// The earliest time of the replays that are not done, and the number of these replays.
    pub(super) fn replays(&self) -> Option<(u64, usize)> {
        let state = self.state();
        state.replays.iter().map(|(from, _)| *from).min().map(|from| (from, state.replays.len()))
    }

    /// The first `count` replays are done.
    pub(super) fn end_replays(&self, count: usize) {
        let mut state = self.state();
        let count = count.min(state.replays.len());
        for (_, answer) in state.replays.drain(..count) {
            // An operator that has gone needs no answer.
            let _ = answer.send(Ok(()));
        }
    }

    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.state().stopped
    }
}

fn as_offset(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_notes_offsets_below_the_first_open_message() {
        let shares = Shares::default();
        assert_eq!(shares.begin(0, 3), None);
        let tokens: Vec<OffsetToken> = [3, 4, 6].into_iter().filter_map(|offset| shares.take(0, offset)).collect();
        shares.skip_to(0, 9, 12);
        assert_eq!((shares.positions(), shares.waiting(), shares.under_way()), (vec![(0, 9)], 3, 3));
        shares.finish(tokens[1]);
        assert_eq!(shares.to_commit(), []);
        shares.finish(tokens[0]);
        assert_eq!(shares.to_commit(), [(0, 6)]);
        shares.committed(&[(0, 6)]);
        shares.finish(tokens[2]);
        assert_eq!(shares.to_commit(), [(0, 9)], "offsets without a record are done, too");
    }

    #[test]
    fn tokens_of_an_earlier_run_finish_nothing() {
        let shares = Shares::default();
        shares.begin(0, 0);
        shares.begin(1, 0);
        let old = shares.take(0, 0).unwrap();
        assert!(shares.begin(0, 0).unwrap().is_of(old), "the partition is read again");
        let new = shares.take(0, 0).unwrap();
        assert!(!new.is_of(old));
        shares.finish(old);
        assert_eq!(shares.under_way(), 1);
        let gone = shares.keep_only(&[1]);
        assert!(gone[0].is_of(new) && gone.len() == 1);
        assert_eq!((shares.take(0, 1), shares.numbers()), (None, vec![1]));
    }

    #[test]
    fn a_partition_in_trouble_does_not_stop_the_others() {
        let (shares, now) = (Shares::default(), Instant::now());
        shares.begin(0, 5);
        shares.begin(1, 7);
        let later = now + Duration::from_secs(1);
        assert!(shares.note_trouble(0, "compressed".into(), later));
        assert!(!shares.note_trouble(0, "compressed".into(), later), "the same reason is reported once");
        assert_eq!((shares.readable(now), shares.readable(later)), (vec![(1, 7)], vec![(0, 5), (1, 7)]));
        assert_eq!(shares.trouble(), Some((0, "compressed".to_owned())));
        assert!(shares.end_trouble(0) && !shares.end_trouble(0) && !shares.end_trouble(1));
        assert_eq!(shares.readable(now).len(), 2);
    }

    #[test]
    fn a_replay_is_kept_until_its_offsets_are_committed() {
        let (shares, (answer, answered)) = (Shares::default(), std::sync::mpsc::channel());
        shares.begin(0, 9);
        shares.ask_for_replay(70, answer.clone());
        shares.ask_for_replay(50, answer);
        assert_eq!(shares.replays(), Some((50, 2)), "the earlier time has the messages of both");
        shares.begin(0, 4);
        assert_eq!(shares.to_commit(), [(0, 4)], "a crash now must not lose the replay");
        shares.committed(&[(0, 4)]);
        assert_eq!((shares.to_commit(), answered.try_recv().is_err()), (vec![], true));
        shares.end_replays(1);
        answered.try_recv().unwrap().unwrap();
        assert_eq!(shares.replays(), Some((50, 1)));
    }
}
