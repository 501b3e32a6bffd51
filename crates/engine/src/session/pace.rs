//! Publishers wait, for a moment, for a pipeline that takes messages almost as fast as they come.
//!
//! A pipeline shares the processors with its shard. A shard that takes more messages in a turn than the pipeline
//! acknowledges would fill the queue of its session up to the bound, in fresh memory for each message, and no message
//! would be delivered earlier. So publishers that make a long queue longer wait until the pipeline has taken some of
//! it, if it does so at once. Where it does not, the pipeline waits for its sink: then the queue takes the messages, and
//! publishers wait when it is full.

use crate::now::Millis;

/// Messages that wait for a pipeline, below which no publisher does.
const PACED_MESSAGES: usize = 1024;
/// Messages that the pipeline takes until publishers go on.
const TAKEN_MESSAGES: usize = PACED_MESSAGES / 2;
/// Messages by which a longer queue may grow before publishers wait again: a pipeline that returns to a long queue
/// shortens it, and publishers have a share meanwhile.
const GROWTH_MESSAGES: usize = TAKEN_MESSAGES / 2;
/// How long publishers wait at most, milliseconds.
pub(crate) const PACED_MS: u64 = 20;
/// How long no publisher waits for a pipeline that took longer, milliseconds: the first time, and at most. Each time
/// doubles it, so that a slow sink delays publishers of its pipeline by little.
const REST_MS: std::ops::RangeInclusive<u64> = 100..=10_000;

/// Whether publishers wait for the pace of a session.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Since when publishers wait.
    since: Option<Millis>,
    /// Until when none waits.
    rests_until: Option<Millis>,
    /// How long none has waited after the last time in vain, milliseconds; 0 after a time with success.
    rest_ms: u64,
    /// The fewest messages that have waited since publishers went on.
    fewest: usize,
}

impl Pace {
    /// Whether publishers wait for the pipeline, and not for the bound of a full queue.
    pub(crate) fn holds(&self) -> bool {
        self.since.is_some()
    }

    /// One more message comes to a queue with this number of them: whether its publisher waits with the next one.
    pub(crate) fn is_due(&mut self, now: Millis, waiting: usize) -> bool {
        self.fewest = self.fewest.min(waiting);
        let is_long = waiting >= PACED_MESSAGES && waiting >= self.fewest + GROWTH_MESSAGES;
        self.holds() || is_long && self.rests_until.is_none_or(|until| until <= now)
    }

    /// A publisher waits. Returns the length of a full queue that is half empty when publishers may go on.
    pub(crate) fn begin(&mut self, now: Millis, waiting: usize) -> usize {
        self.since = Some(now);
        waiting.saturating_sub(TAKEN_MESSAGES) * 2
    }

    /// Publishers that have waited go on, or wait for the bound of the queue, in which this number of messages wait.
    pub(crate) fn end(&mut self, waiting: usize) {
        if self.since.take().is_some() {
            (self.fewest, self.rest_ms) = (waiting, 0);
        }
    }

    /// When publishers have waited for too long.
    pub(crate) fn latest(&self) -> Option<Millis> {
        self.since.map(|since| since.plus(PACED_MS))
    }

    /// They have waited for too long.
    pub(crate) fn give_up(&mut self, now: Millis) {
        self.rest_ms = (self.rest_ms * 2).clamp(*REST_MS.start(), *REST_MS.end());
        (self.since, self.rests_until) = (None, Some(now.plus(self.rest_ms)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_queue_may_grow_by_less_than_is_taken() {
        let mut pace = Pace::default();
        let now = Millis(5);
        let mut waiting = 10 * PACED_MESSAGES;
        while waiting >= PACED_MESSAGES {
            let begun = waiting;
            assert!(pace.is_due(now, waiting));
            waiting = pace.begin(now, waiting) / 2;
            assert!(pace.is_due(now, waiting), "it holds");
            pace.end(waiting);
            assert!((1..GROWTH_MESSAGES).all(|more| !pace.is_due(now, waiting + more)));
            waiting += GROWTH_MESSAGES;
            assert!(waiting < begun);
        }
        assert!(!pace.is_due(now, PACED_MESSAGES - 1) && pace.is_due(now, PACED_MESSAGES));
    }

    #[test]
    fn a_slow_pipeline_is_waited_for_less_and_less() {
        let mut pace = Pace::default();
        assert_eq!((pace.latest(), pace.is_due(Millis(5), PACED_MESSAGES)), (None, true));
        let mut now = Millis(5);
        let mut rest = *REST_MS.start();
        for _ in 0..10 {
            pace.begin(now, PACED_MESSAGES);
            assert_eq!(pace.latest(), Some(now.plus(PACED_MS)));
            pace.give_up(now);
            assert_eq!((pace.holds(), pace.is_due(now.plus(rest - 1), 9 * PACED_MESSAGES)), (false, false));
            now = now.plus(rest);
            assert!(pace.is_due(now, 9 * PACED_MESSAGES));
            rest = (rest * 2).min(*REST_MS.end());
        }
        pace.begin(now, PACED_MESSAGES);
        pace.end(0);
        pace.begin(now, PACED_MESSAGES);
        pace.give_up(now);
        assert!(pace.is_due(now.plus(*REST_MS.start()), PACED_MESSAGES), "it was quick in between");
    }
}
