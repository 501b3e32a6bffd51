//! The received messages of an exchange.

use super::Sink;
use super::party::{Member, Publisher};
use super::plan::ExchangePlan;
use crate::load::core::meter::Meter;
use crate::load::ledger::{Cause, Circumstances, Ledger, Receipt};
use crate::load::stamp::{Marks, Stamp};
use crate::load::{GroupOutcome, LoadOutcome};

/// No party is ever disconnected on purpose: a lost connection stays lost.
const HERE: Circumstances = Circumstances { epoch: 0, connected: Cause::Unknown, away: Cause::Disconnect };

/// The received messages.
pub(super) struct Books {
    pub(super) marks: Marks,
    ledger: Ledger,
    pub(super) outcome: LoadOutcome,
    pub(super) meter: Meter,
    deadline_ns: u64,
    /// Deliveries that each publisher need not wait for any more.
    pub(super) settled: Vec<u64>,
}

impl Books {
    pub(super) fn new(plan: &ExchangePlan) -> Self {
        let mut outcome = LoadOutcome::default();
        for name in ["publishers", "subscribers"] {
            outcome.groups.push(GroupOutcome { name: name.to_owned(), ..GroupOutcome::default() });
        }
        Self {
            marks: Marks::of(plan.seed),
            ledger: Ledger::default(),
            outcome,
            meter: Meter::default(),
            deadline_ns: plan.deadline_ms.map_or(u64::MAX, |deadline_ms| deadline_ms * 1_000_000),
            settled: vec![0; plan.publishers as usize],
        }
    }
}

/// Adds a party's messages to the accounts.
pub(super) struct Heard<'a> {
    pub(super) books: &'a mut Books,
    pub(super) publishers: &'a mut [Publisher],
    pub(super) member: Member,
    pub(super) now_ns: u64,
}

impl Sink for Heard<'_> {
    fn message(&mut self, payload: &[u8]) {
        let Member::Subscriber(subscriber) = self.member else { return };
        let books = &mut *self.books;
        books.meter.current.received += 1;
        let of_group = &mut books.outcome.groups[1];
        let of_us = [books.marks.measured, books.marks.warm_up];
        let stamp = Stamp::read(payload).filter(|stamp| of_us.contains(&stamp.mark));
        let Some((stamp, settled)) =
            stamp.and_then(|stamp| Some((stamp, books.settled.get_mut(stamp.stream as usize)?)))
        else {
            of_group.counts.foreign += 1;
            return;
        };
        if stamp.mark == books.marks.warm_up {
            *settled += 1;
            return;
        }
        match books.ledger.take(subscriber as u32, stamp.stream, stamp.sequence, true, HERE) {
            Receipt::Duplicate => {
                of_group.counts.duplicates += 1;
                return;
            }
            Receipt::Reordered => of_group.counts.reordered += 1,
            Receipt::New { missing } => *settled += u64::from(missing) + 1,
        }
        let latency_ns = self.now_ns.saturating_sub(stamp.scheduled_ns);
        of_group.counts.received += 1;
        of_group.counts.bytes_received += payload.len() as u64;
        of_group.counts.late += u64::from(latency_ns > books.deadline_ns);
        of_group.latency.record(latency_ns);
        books.meter.latency.record(latency_ns);
        books.outcome.note_receipt(books.outcome.measured_from_ns, self.now_ns);
    }

    fn acknowledged(&mut self, messages: u64) {
        let Member::Publisher(publisher) = self.member else { return };
        self.books.meter.current.acknowledged += messages;
        for _ in 0..messages {
            // Brokers confirm in the order of arrival, or nearly so.
            let first = self.publishers[publisher].in_flight.pop_front();
            if let Some(scheduled_ns) = first.filter(|at_ns| *at_ns >= self.books.outcome.measured_from_ns) {
                self.books.outcome.groups[0].counts.acknowledged += 1;
                self.books.outcome.acknowledgement.record(self.now_ns.saturating_sub(scheduled_ns));
            }
        }
        self.books.outcome.last_ns = self.now_ns;
    }

    fn refused(&mut self, messages: u64) {
        let Member::Publisher(publisher) = self.member else { return };
        self.books.outcome.groups[0].counts.refused += messages;
        let in_flight = &mut self.publishers[publisher].in_flight;
        in_flight.drain(..in_flight.len().min(messages as usize));
    }
}
