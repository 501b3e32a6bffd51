//! A transaction that stays open. A record waits until all replicas have it, not for the end of a transaction, which
//! takes the coordinator several writes and the client some pauses. Fencing does not depend on the end: a newer
//! producer has the coordinator end the transaction, and its claim carries a newer epoch, after which the partition
//! takes no records of an older one. Readers of such a log take all stored records, however their transaction ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::Producer as _;

use super::super::client::is_fenced;
use super::super::producer::{Producer, Report};
use super::{again, until};
use crate::Position;

/// Interval of checks whether the producer still works, while records are unconfirmed.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The longest wait for the end of a transaction at a time.
const END_WITHIN: Duration = Duration::from_millis(200);
/// A transaction without records for so long ends, so that none is open for ever.
const IDLE: Duration = Duration::from_secs(1);
/// The part of its timeout for which a transaction is open at most, as long as the brokers answer.
const PART_OF_TIMEOUT: u32 = 4;
/// The part of its timeout after which Kafka may have ended it: its clock is not ours.
const EXPIRED_AFTER: u32 = 2;

/// A transaction that stays open.
pub(super) struct Open {
    /// The time of its beginning, if it is open.
    since: Option<Instant>,
    /// True from the request to end it to the answer: nothing can be sent meanwhile.
    ends: bool,
    /// When the last record was sent.
    last: Instant,
    timeout: Duration,
    waiting: Arc<Mutex<Waiting>>,
}

/// Unconfirmed records.
#[derive(Default)]
struct Waiting {
    /// The time until which each may wait, in their order.
    deadlines: VecDeque<Instant>,
    failed: Option<String>,
    is_fenced: bool,
    /// The time from which Kafka may have ended the open transaction.
    expires: Option<Instant>,
}

impl Waiting {
    /// The brokers take no more records of this producer. That happens when another owner has begun. Kafka says the
    /// same to a producer whose transaction has outlived its timeout during an outage, although no other owner has the
    /// partition.
    fn shut_out(&mut self, now: Instant) {
        self.is_fenced |= self.expires.is_none_or(|expires| now < expires);
    }
}

/// The next step.
pub(super) enum Turn {
    /// Nothing.
    Goes,
    /// The transaction is to be ended.
    Due,
    /// Nothing can be sent any more, and why.
    Failed(String),
}

impl Open {
    /// One that Kafka aborts after a timeout.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { since: None, ends: false, last: Instant::now(), timeout, waiting: Arc::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// How long the next look may wait; without a limit while there is nothing to look for.
    pub(super) fn pause(&self) -> Option<Duration> {
        let since = self.since?;
        if self.ends || !self.waiting().deadlines.is_empty() {
            return Some(LOOK_EVERY);
        }
        let end = (self.last + IDLE).min(since + self.timeout / PART_OF_TIMEOUT);
        Some(end.saturating_duration_since(Instant::now()).max(LOOK_EVERY))
    }

    /// The time at which the oldest unconfirmed record has waited for too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting().deadlines.front().copied()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.waiting().failed.is_some()
    }

    /// True if it ended without another owner, and no waiter gets that outcome.
    pub(super) fn is_over_unsaid(&self) -> bool {
        let waiting = self.waiting();
        !waiting.is_fenced && waiting.failed.is_none() && waiting.deadlines.is_empty()
    }

    /// Whether an error says that another owner has begun.
    pub(super) fn is_fenced_by(&self, error: &KafkaError) -> bool {
        let mut waiting = self.waiting();
        if is_fenced(error) {
            waiting.shut_out(Instant::now());
        }
        waiting.is_fenced
    }

    /// Whether it is open, and until when it certainly is.
    fn set(&mut self, since: Option<Instant>) {
        self.since = since;
        self.waiting().expires = since.map(|since| since + self.timeout / EXPIRED_AFTER);
    }

    /// Begins it, unless it is open.
    pub(super) fn begin(&mut self, producer: &Producer, deadline: Instant) -> Result<(), KafkaError> {
        if self.ends {
            again(deadline, || producer.commit_transaction(until(deadline)))?;
            self.ends = false;
            self.set(None);
        }
        if self.since.is_none() {
            producer.begin_transaction()?;
            self.set(Some(Instant::now()));
        }
        self.last = Instant::now();
        Ok(())
    }

    /// The report of a record, with true if another owner has begun.
    pub(super) fn report(
        &self,
        deadline: Instant,
        tell: impl FnOnce(Result<Position, KafkaError>, bool) + Send + 'static,
    ) -> Report {
        self.waiting().deadlines.push_back(deadline);
        let waiting = Arc::clone(&self.waiting);
        Report::new(move |outcome| {
            let is_fenced = {
                let mut waiting = lock(&waiting);
                waiting.deadlines.pop_front();
                if let Err(error) = &outcome {
                    if is_fenced(error) {
                        waiting.shut_out(Instant::now());
                    }
                    waiting.failed.get_or_insert_with(|| error.to_string());
                }
                waiting.is_fenced
            };
            tell(outcome, is_fenced);
        })
    }

    /// Looks at it.
    pub(super) fn turn(&mut self, producer: &Producer, is_up: bool) -> Turn {
        let (now, mut waiting) = (Instant::now(), lock(&self.waiting));
        if let Some((code, reason)) = producer.client().fatal_error() {
            let codes =
                [RDKafkaErrorCode::Fenced, RDKafkaErrorCode::ProducerFenced, RDKafkaErrorCode::InvalidProducerEpoch];
            if codes.contains(&code) {
                waiting.shut_out(now);
            }
            return Turn::Failed(reason);
        }
        if let Some(reason) = &waiting.failed {
            return Turn::Failed(reason.clone());
        }
        if waiting.deadlines.front().is_some_and(|deadline| *deadline <= now) {
            return Turn::Failed("the brokers do not confirm the sent records".to_owned());
        }
        let Some(since) = self.since.filter(|_| is_up) else { return Turn::Goes };
        let is_idle = waiting.deadlines.is_empty() && now.duration_since(self.last) >= IDLE;
        let is_old = now.duration_since(since) >= self.timeout / PART_OF_TIMEOUT;
        if self.ends || is_idle || is_old { Turn::Due } else { Turn::Goes }
    }

    /// Ends it, or continues to; the next record begins another one. The brokers may be away without notice, so it
    /// waits for their answer only for a moment.
    pub(super) fn end(&mut self, producer: &Producer) -> Result<(), KafkaError> {
        self.ends = true;
        match producer.commit_transaction(END_WITHIN) {
            Ok(()) => {
                self.ends = false;
                self.set(None);
            }
            Err(KafkaError::Transaction(error)) if error.is_retriable() => {}
            // Records are still on their way, as while a partition gets another leader. They have their own time;
            // nothing is sent after them.
            Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut)) => {}
            Err(error) => {
                self.is_fenced_by(&error);
                return Err(error);
            }
        }
        Ok(())
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn shut_out_after(open_for: Duration) -> bool {
        let mut open = Open::new(TIMEOUT);
        let began = Instant::now();
        open.set(Some(began));
        open.waiting().shut_out(began + open_for);
        let is_fenced = open.waiting().is_fenced;
        assert_eq!(open.is_over_unsaid(), !is_fenced);
        is_fenced
    }

    #[test]
    fn an_expired_transaction_is_not_taken_for_a_new_owner() {
        // While the brokers answer it is ended after a quarter: so another owner has begun.
        assert!(shut_out_after(TIMEOUT / PART_OF_TIMEOUT));
        assert!(!shut_out_after(TIMEOUT / EXPIRED_AFTER));
        assert!(!shut_out_after(TIMEOUT * 2));
    }

    #[test]
    fn an_owner_fenced_between_transactions_was_replaced() {
        let mut open = Open::new(TIMEOUT);
        let began = Instant::now();
        open.set(Some(began));
        open.set(None);
        open.waiting().shut_out(began + TIMEOUT * 2);
        assert!(open.waiting().is_fenced);
    }

    #[test]
    fn a_waiting_append_gets_the_outcome_of_its_record() {
        let mut open = Open::new(TIMEOUT);
        let began = Instant::now();
        open.set(Some(began));
        let report = open.report(began + TIMEOUT, |_, _| {});
        open.waiting().shut_out(began + TIMEOUT);
        assert!(!open.is_over_unsaid());
        drop(report);
    }
}
