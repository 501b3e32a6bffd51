//! The end of a run: compares sent and received messages.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Core, Phase};
use crate::load::ledger::Missing;
use crate::load::outcome::LoadOutcome;
use crate::load::plan::ClientGroup;

/// The messages sent on a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamTotals {
    /// Messages sent.
    pub(crate) sent: u32,
    /// Messages that were to be sent.
    pub(crate) offered: u32,
    /// Messages sent that the broker has refused.
    pub(crate) refused: u32,
}

/// The messages sent on all streams of all processes.
pub(crate) type Totals = HashMap<u32, StreamTotals>;

impl Core {
    /// The messages sent by this process, after the last one.
    pub(crate) fn totals(&mut self) -> Totals {
        self.publishers.totals(self.run.times.measured_to)
    }

    /// All processes have sent all messages: missing ones are awaited.
    pub(crate) fn drain(&mut self, totals: &Totals, now_ns: u64) {
        self.run.phase = Phase::Draining;
        self.run.times.measured_to = self.run.times.measured_to.min(now_ns);
        self.run.note_addresses();
        // Answers are still being given; how many there will be is not known.
        if self.receivers.has_respondents() || self.run.plan.groups.iter().any(ClientGroup::is_respondent) {
            return;
        }
        let mut outstanding = self.publishers.unacknowledged();
        self.receivers.each_due(&self.run, totals, |client, due, missing, totals| {
            if self.run.group_of(client).is_slow() {
                return;
            }
            // Refused messages will not arrive.
            outstanding += missing.total().min(due).saturating_sub(u64::from(totals.refused));
        });
        self.run.outstanding = Some(outstanding);
    }

    /// The result of this process.
    pub(crate) fn conclude(&mut self, totals: &Totals, now_ns: u64) -> LoadOutcome {
        for client in 0..self.run.clients.count() as u32 {
            if !self.run.clients[client].is_connected() && self.run.phase != Phase::Over {
                self.receivers.note_absence(&self.run, client, now_ns);
            }
        }
        let (mut due, mut losses, mut never_sent) = (0, crate::load::Losses::default(), 0);
        self.receivers.each_due(&self.run, totals, |_, of_one, mut missing, totals| {
            due += of_one;
            never_sent += u64::from(totals.offered.saturating_sub(totals.sent));
            let refused = missing.take(u64::from(totals.refused));
            losses.refused += refused;
            losses.overflow += missing.overflow;
            losses.expiry += missing.expiry;
            losses.disconnect += missing.disconnect;
            losses.unknown += missing.unknown;
        });
        let mut books = std::mem::take(&mut self.run.books);
        for publisher in self.publishers.iter() {
            let group = usize::from(self.run.clients[publisher.client].group);
            books.groups[group].counts.offered += publisher.offered;
            losses.unsent += publisher.offered - publisher.sent;
        }
        for (group, rounds) in self.receivers.rounds().iter().enumerate() {
            let Some(rounds) = rounds else { continue };
            let group_of = |client| usize::from(self.run.clients[client].group);
            let own =
                totals.iter().filter(|(stream, _)| self.publishers.client_of(**stream).map(group_of) == Some(group));
            books.groups[group].rounds = Some(rounds.conclude(own.map(|(stream, total)| (*stream, total.offered))));
        }
        books.began_ns = self.run.times.began;
        books.measured_from_ns = self.run.times.measured_from;
        books.measured_to_ns = self.run.times.measured_to;
        books.note_end();
        for (group, of_group) in books.groups.iter().enumerate() {
            books.counts.add(&of_group.counts);
            let of_plan = &self.run.plan.groups[group];
            if !of_plan.passes_on() && !of_plan.is_slow() {
                books.latency.add(&of_group.latency);
            }
        }
        books.counts.due = due;
        books.counts.deadline_misses =
            if self.run.plan.deadline_ms.is_some() { books.counts.late + losses.deliveries() + never_sent } else { 0 };
        books.losses = losses;
        self.refusals.tell(&mut books);
        books
    }
}

impl Missing {
    /// Takes up to `count` away, messages of unknown cause first; returns the number.
    fn take(&mut self, count: u64) -> u64 {
        let mut left = count;
        for cause in [&mut self.unknown, &mut self.overflow, &mut self.disconnect, &mut self.expiry] {
            let taken = left.min(*cause);
            *cause -= taken;
            left -= taken;
        }
        count - left
    }
}
