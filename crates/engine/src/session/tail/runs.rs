//! When messages expire that wait in the store alone: by runs of messages that came one after the other and expire in
//! the same second.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::now::{Millis, Now};
use crate::session::expiring::tick_after;
use crate::session::tail::bounded;
use crate::wire::{WireError, WireReader, WireWrite};

/// Messages of one run, so that a turn deletes no more at once.
const RUN_MAX: u64 = 256;

/// Messages of a tail with consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub expires_at: Millis,
    pub first: u64,
    pub last: u64,
    pub bytes: u64,
}

/// The expiring messages of a tail, and the numbers removed before the tail reached them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    /// The run that the next message may continue.
    open: Option<Run>,
    closed: BinaryHeap<Reverse<Run>>,
    /// Numbers behind the first of the tail that have expired, first and last of each range, in their order.
    gone: Vec<(u64, u64)>,
}

impl Runs {
    /// A message was appended to the tail.
    pub(crate) fn add(&mut self, number: u64, expires_at: Millis, bytes: u64) {
        if expires_at == Millis::NEVER {
            return;
        }
        let expires_at = tick_after(expires_at);
        if let Some(run) = &mut self.open
            && run.last + 1 == number
            && run.expires_at == expires_at
            && number - run.first < RUN_MAX
        {
            run.last = number;
            run.bytes += bytes;
            return;
        }
        let before = self.open.replace(Run { expires_at, first: number, last: number, bytes });
        self.closed.extend(before.map(Reverse));
    }

    /// The messages of another part are appended.
    pub(crate) fn append(&mut self, mut end: Self) {
        if let Some(open) = end.open.take() {
            let before = self.open.replace(open);
            self.closed.extend(before.map(Reverse));
        }
        self.closed.append(&mut end.closed);
        self.gone.append(&mut end.gone);
    }

    /// Numbers of messages that have expired behind the first message of the tail, first and last of each range.
    pub(crate) fn gone(&self) -> &[(u64, u64)] {
        &self.gone
    }

    /// Appends the runs to an image.
    pub(crate) fn write(&self, out: &mut Vec<u8>, now: Now) {
        let closed = self.closed.iter().map(|Reverse(run)| run);
        out.put_u32((self.closed.len() + usize::from(self.open.is_some())) as u32);
        // The open one is the last one.
        for run in closed.chain(&self.open) {
            out.put_u64(now.to_unix(run.expires_at));
            for number in [run.first, run.last, run.bytes] {
                out.put_u64(number);
            }
        }
        out.put_u32(self.gone.len() as u32);
        for (first, last) in &self.gone {
            out.put_u64(*first);
            out.put_u64(*last);
        }
    }

    /// Reads runs of an image.
    pub(crate) fn read(reader: &mut WireReader<'_>, now: Now) -> Result<Self, WireError> {
        let mut runs = Self::default();
        for _ in 0..reader.u32("a number of runs of messages")? {
            let expires_at = now.from_unix(reader.u64("an expiry")?);
            let (first, last) = Self::read_range(reader)?;
            let bytes = bounded(reader.u64("the bytes of a run")?)?;
            let before = runs.open.replace(Run { expires_at, first, last, bytes });
            runs.closed.extend(before.map(Reverse));
        }
        for _ in 0..reader.u32("a number of ranges")? {
            let range = Self::read_range(reader)?;
            if runs.gone.last().is_some_and(|(_, before)| *before >= range.0) {
                return Err(WireError { reading: "numbers in their order" });
            }
            runs.gone.push(range);
        }
        Ok(runs)
    }

    /// The first and the last number of a run.
    fn read_range(reader: &mut WireReader<'_>) -> Result<(u64, u64), WireError> {
        let mut number = || reader.u64("a message's number").and_then(bounded);
        let (first, last) = (number()?, number()?);
        let is_run = last.checked_sub(first).is_some_and(|behind| behind <= RUN_MAX);
        if is_run { Ok((first, last)) } else { Err(WireError { reading: "a run of messages" }) }
    }

    /// Bytes of memory that the runs take.
    pub(crate) fn memory(&self) -> u64 {
        (self.closed.len() * size_of::<Run>() + self.gone.len() * size_of::<(u64, u64)>()) as u64
    }

    /// When the first run expires; [`Millis::NEVER`] if none does.
    pub(crate) fn next_expiry(&self) -> Millis {
        let closed = self.closed.peek().map_or(Millis::NEVER, |Reverse(run)| run.expires_at);
        self.open.map_or(Millis::NEVER, |run| run.expires_at).min(closed)
    }

    /// Takes the run that expired first, as far as it is at `first` or behind, if any has.
    pub(crate) fn pop_expired(&mut self, now: Millis, first: u64) -> Option<Run> {
        while self.next_expiry() <= now {
            let closed = self.closed.peek().filter(|Reverse(run)| run.expires_at == self.next_expiry());
            let mut run = if closed.is_some() { self.closed.pop()?.0 } else { self.open.take()? };
            if run.last < first {
                continue;
            }
            let (all, left) = (run.last - run.first + 1, run.last - run.first.max(first) + 1);
            run.bytes = if left == all { run.bytes } else { run.bytes / all * left };
            run.first = run.first.max(first);
            return Some(run);
        }
        None
    }

    /// The messages of a run are gone; returns the first number of the tail from now on.
    pub(crate) fn remove(&mut self, run: &Run, first: u64) -> u64 {
        if run.first > first {
            let at = self.gone.partition_point(|(other, _)| *other < run.first);
            self.gone.insert(at, (run.first, run.last));
            return first;
        }
        run.last + 1
    }

    /// Whether a message of the tail is gone. Numbers are requested in their order, and once each.
    pub(crate) fn is_gone(&mut self, number: u64) -> bool {
        let passed = self.gone.partition_point(|(_, last)| *last < number);
        self.gone.drain(..passed);
        self.gone.first().is_some_and(|(first, _)| *first <= number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_another_node_are_bounded() {
        let now = Now { monotonic: Millis(5_000), unix: 1_000_000 };
        for (number, bytes) in [(u64::MAX - 1, 10), (1, u64::MAX)] {
            let (mut runs, mut out) = (Runs::default(), Vec::new());
            runs.add(number, Millis(9_000), bytes);
            runs.write(&mut out, now);
            assert!(Runs::read(&mut WireReader::new(&out), now).is_err());
        }
    }

    #[test]
    fn runs_are_read_as_they_were_written() {
        let now = Now { monotonic: Millis(5_000), unix: 1_000_000 };
        let mut runs = Runs::default();
        for number in 1..=600 {
            runs.add(number, Millis(9_000 + number / 100 * 1_000), 10);
        }
        runs.remove(&Run { expires_at: Millis(9_000), first: 20, last: 30, bytes: 0 }, 1);
        let mut out = Vec::new();
        runs.write(&mut out, now);
        let mut read = Runs::read(&mut WireReader::new(&out), now).unwrap();
        assert_eq!((read.open, read.gone()), (runs.open, runs.gone()));
        let popped = |runs: &mut Runs| std::iter::from_fn(|| runs.pop_expired(Millis(20_000), 1)).collect::<Vec<_>>();
        assert_eq!(popped(&mut read), popped(&mut runs));
        for len in 0..out.len() {
            assert!(Runs::read(&mut WireReader::new(&out[..len]), now).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn messages_of_one_second_are_one_run() {
        let mut runs = Runs::default();
        for number in 1..=200 {
            runs.add(number, Millis(5_000 - number % 900), 10);
        }
        runs.add(201, Millis::NEVER, 10);
        runs.add(202, Millis(5_000), 10);
        assert_eq!((runs.closed.len(), runs.next_expiry()), (1, Millis(5_000)));
        assert_eq!(runs.pop_expired(Millis(4_999), 1), None);
        let run = runs.pop_expired(Millis(5_000), 101).unwrap();
        assert_eq!((run.first, run.last, run.bytes), (101, 200, 1_000));
        assert_eq!(runs.remove(&run, 101), 201);
        let run = runs.pop_expired(Millis(5_000), 201).unwrap();
        assert_eq!((run.first, run.last), (202, 202));
        assert_eq!(runs.remove(&run, 201), 201, "another message is before it");
        assert_eq!((runs.is_gone(201), runs.is_gone(202), runs.is_gone(203)), (false, true, false));
        assert_eq!(runs.next_expiry(), Millis::NEVER);
        assert_eq!(runs.memory(), 0);
    }

    #[test]
    fn a_run_is_bounded() {
        let mut runs = Runs::default();
        for number in 1..=RUN_MAX * 3 {
            runs.add(number, Millis(5_000), 10);
        }
        let sizes = std::iter::from_fn(|| runs.pop_expired(Millis(5_000), 1)).map(|run| run.last - run.first + 1);
        assert_eq!(sizes.collect::<Vec<_>>(), [RUN_MAX; 3]);
    }
}
