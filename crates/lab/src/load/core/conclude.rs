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
        let mut totals = Totals::new();
        for publisher in &mut self.publishers {
            publisher.offer_the_rest(self.times.measured_to);
            for (topic, stream) in publisher.streams() {
                let sent = publisher.share(publisher.sent, topic);
                let offered = publisher.share(publisher.offered, topic);
                let refused = self.refused.get(&stream).copied().unwrap_or_default();
                totals.insert(stream, StreamTotals { sent, offered, refused });
            }
        }
        totals
    }

    /// All processes have sent all messages: missing ones are awaited.
    pub(crate) fn drain(&mut self, totals: &Totals, now_ns: u64) {
        self.phase = Phase::Draining;
        self.times.measured_to = self.times.measured_to.min(now_ns);
        self.note_places();
        // Answers are still being given; how many there will be is not known.
        if !self.respondents.is_empty() || self.plan.groups.iter().any(ClientGroup::is_respondent) {
            return;
        }
        let mut outstanding = self.publishers.iter().map(|publisher| publisher.unacknowledged() as u64).sum::<u64>();
        let slow: Vec<bool> = self.receivers.iter().map(|receiver| self.is_slow(receiver.client)).collect();
        self.each_due(totals, |receiver, due, missing, totals| {
            if slow[receiver as usize] {
                return;
            }
            // Refused messages will not arrive.
            outstanding += missing.total().min(due).saturating_sub(u64::from(totals.refused));
        });
        self.outstanding = Some(outstanding);
    }

    /// Whether a client reads slowly on purpose.
    pub(super) fn is_slow(&self, client: u32) -> bool {
        self.plan.groups[usize::from(self.clients[client as usize].group)].is_slow()
    }

    /// Notes how many clients there are at each of several places.
    fn note_places(&mut self) {
        if self.plan.target.others.is_empty() {
            return;
        }
        let mut connected = vec![0; 1 + self.plan.target.others.len()];
        for client in self.clients.iter().filter(|client| client.is_connected()) {
            connected[usize::from(client.place)] += 1;
        }
        self.books.connections.at_places = connected;
    }

    /// Whether a stream is that of a publisher of this process and group.
    fn is_of_group(&self, stream: u32, group: usize) -> bool {
        let owner = self.owners.get(stream as usize).and_then(|owner| self.publishers.get(*owner as usize));
        owner.is_some_and(|publisher| usize::from(self.clients[publisher.client as usize].group) == group)
    }

    /// Visits all messages due to a receiver of this process.
    fn each_due(&mut self, totals: &Totals, mut look: impl FnMut(u32, u64, Missing, StreamTotals)) {
        for receiver in 0..self.receivers.len() as u32 {
            let (from_begin, now) = {
                let place = &self.receivers[receiver as usize];
                (place.from_begin, place.circumstances())
            };
            for stream in self.streams_of(receiver).iter() {
                let mut total = totals.get(stream).copied().unwrap_or_default();
                if let Some(answered) = self.answered.get(stream) {
                    total = StreamTotals { sent: *answered, offered: *answered, refused: 0 };
                }
                if let Some(track) = self.ledger.track(receiver, *stream) {
                    look(receiver, track.due(total.sent), track.missing(total.sent, now), total);
                } else if from_begin {
                    let mut missing = Missing::default();
                    let cause = if now.epoch == 0 { now.connected } else { now.away };
                    missing.add(cause, u64::from(total.sent));
                    look(receiver, u64::from(total.sent), missing, total);
                }
            }
        }
    }

    /// The result of this process.
    pub(crate) fn conclude(&mut self, totals: &Totals, now_ns: u64) -> LoadOutcome {
        for client in 0..self.clients.len() as u32 {
            if !self.clients[client as usize].is_connected() && self.phase != Phase::Over {
                self.note_absence(client, now_ns);
            }
        }
        let (mut due, mut losses, mut never_sent) = (0, crate::load::Losses::default(), 0);
        self.each_due(totals, |_, of_one, mut missing, totals| {
            due += of_one;
            never_sent += u64::from(totals.offered.saturating_sub(totals.sent));
            let refused = missing.take(u64::from(totals.refused));
            losses.refused += refused;
            losses.overflow += missing.overflow;
            losses.expiry += missing.expiry;
            losses.disconnect += missing.disconnect;
            losses.unknown += missing.unknown;
        });
        let mut books = std::mem::take(&mut self.books);
        for publisher in &self.publishers {
            let group = usize::from(self.clients[publisher.client as usize].group);
            books.groups[group].counts.offered += publisher.offered;
            losses.unsent += publisher.offered - publisher.sent;
        }
        for (group, rounds) in self.rounds.iter().enumerate() {
            let Some(rounds) = rounds else { continue };
            let own = totals.iter().filter(|(stream, _)| self.is_of_group(**stream, group));
            books.groups[group].rounds = Some(rounds.conclude(own.map(|(stream, total)| (*stream, total.offered))));
        }
        books.began_ns = self.times.began;
        books.measured_from_ns = self.times.measured_from;
        books.measured_to_ns = self.times.measured_to;
        books.note_end();
        for (group, of_group) in books.groups.iter().enumerate() {
            books.counts.add(&of_group.counts);
            let of_plan = &self.plan.groups[group];
            if !of_plan.passes_on() && !of_plan.is_slow() {
                books.latency.add(&of_group.latency);
            }
        }
        books.counts.due = due;
        books.counts.deadline_misses =
            if self.plan.deadline_ms.is_some() { books.counts.late + losses.deliveries() + never_sent } else { 0 };
        books.losses = losses;
        self.refusals.tell(&mut books);
        books
    }
}

impl Missing {
    /// Takes up to `count` away, those of unknown cause first; returns the number.
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
