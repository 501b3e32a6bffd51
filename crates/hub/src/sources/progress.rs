//! Up to which position of a partition all messages are done.

use std::collections::VecDeque;

/// Positions that were taken, and which of them are done.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// In ascending order.
    under_way: VecDeque<(u64, bool)>,
    /// Behind the last position that was taken.
    next: u64,
}

impl Progress {
    /// Nothing is taken; the first message is at `next` or behind it.
    pub(super) fn at(next: u64) -> Self {
        Self { under_way: VecDeque::new(), next }
    }

    /// Notes that a message was taken. Positions ascend.
    pub(super) fn take(&mut self, position: u64) {
        self.under_way.push_back((position, false));
        self.next = position.saturating_add(1);
    }

    /// There is no message below `next` that was not taken.
    pub(super) fn skip_to(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// Notes that a message is done.
    pub(super) fn finish(&mut self, position: u64) {
        if let Ok(at) = self.under_way.binary_search_by_key(&position, |(position, _)| *position)
            && let Some((_, done)) = self.under_way.get_mut(at)
        {
            *done = true;
        }
        while self.under_way.front().is_some_and(|(_, done)| *done) {
            self.under_way.pop_front();
        }
    }

    /// All messages below it are done.
    pub(super) fn done(&self) -> u64 {
        self.under_way.front().map_or(self.next, |(position, _)| *position)
    }

    /// Behind the last position that was taken.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Messages below a position that were taken and are not done.
    pub(super) fn open_below(&self, end: u64) -> u64 {
        self.under_way.iter().map(|(position, done)| u64::from(*position < end && !done)).sum()
    }

    /// Messages that are not done, or that wait for an earlier one.
    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn done_is_below_the_first_message_that_is_not() {
        let mut progress = Progress::at(3);
        assert_eq!(progress.done(), 3);
        for position in [5, 6, 9] {
            progress.take(position);
        }
        progress.finish(6);
        assert_eq!((progress.done(), progress.len(), progress.open_below(9)), (5, 3, 1));
        progress.finish(5);
        assert_eq!((progress.done(), progress.len()), (9, 1));
        progress.finish(7);
        progress.finish(9);
        assert_eq!((progress.done(), progress.len()), (10, 0));
    }
}
