//! The end of an exchange: its result.

use super::Exchange;
use crate::load::LoadOutcome;
use crate::load::judge::judge;
use crate::load::shell::Clock;

impl Exchange<'_> {
    pub(super) fn end_sending(&mut self) {
        let now_ns = self.clock.now_ns();
        if let Some((began_ns, cpu_ns)) = self.measured_cpu {
            let generator = &mut self.books.outcome.generator;
            generator.cpu_ns = Clock::cpu_ns() - cpu_ns;
            #[expect(clippy::cast_precision_loss, reason = "a share needs no more than a float has")]
            let share = generator.cpu_ns as f64 / now_ns.saturating_sub(began_ns).max(1) as f64;
            generator.busiest = share;
        }
        let until_ns = self.books.outcome.measured_to_ns;
        for publisher in &mut self.publishers {
            publisher.offer_the_rest(until_ns, self.plan.messages.unwrap_or(u64::MAX));
        }
        self.books.outcome.measured_to_ns = until_ns.min(now_ns);
    }

    pub(super) fn conclude(mut self, stopped: bool) -> LoadOutcome {
        let cpu_ns = Clock::cpu_ns() - self.cpu_ns;
        let last = self.books.meter.end_second(self.ready as u64, cpu_ns);
        let due = self.due_deliveries();
        let mut outcome = self.books.outcome;
        outcome.series.push(last);
        outcome.stopped = stopped;
        outcome.note_end();
        outcome.zero_unix_ns = self.clock.zero_unix_ns();
        outcome.connections.most = self.ready as u64;
        let unsent: u64 = self.publishers.iter().map(|publisher| publisher.unsent).sum();
        outcome.groups[0].counts.offered = outcome.groups[0].counts.sent + unsent;
        for group in 0..outcome.groups.len() {
            let (counts, latency) = (outcome.groups[group].counts, outcome.groups[group].latency.clone());
            outcome.counts.add(&counts);
            outcome.latency.add(&latency);
        }
        outcome.counts.due = due;
        outcome.losses.unsent = unsent;
        outcome.losses.refused = (outcome.counts.refused * u64::from(self.plan.fan_out())).min(outcome.counts.lost());
        outcome.losses.unknown = outcome.counts.lost() - outcome.losses.refused;
        if self.plan.deadline_ms.is_some() {
            let never = unsent * u64::from(self.plan.fan_out());
            outcome.counts.deadline_misses = outcome.counts.late + outcome.counts.lost() + never;
        }
        outcome.generator.invalid =
            without_parties(&outcome).or_else(|| too_short(&outcome)).or_else(|| judge(&outcome));
        outcome
    }
}

/// Why there was no exchange, when a side of it could not take part.
fn without_parties(outcome: &LoadOutcome) -> Option<String> {
    let (problem, connections) = outcome.problems.iter().max_by_key(|(_, connections)| **connections)?;
    let is_idle = outcome.counts.sent == 0 || outcome.connections.accepted == 0;
    is_idle.then(|| format!("nothing was exchanged ({connections} connections failed): {problem}"))
}

/// The reason why no message was counted: the measured time was over before the first one was sent. A rate of 0 would
/// be a fault of the run, not of the broker.
fn too_short(outcome: &LoadOutcome) -> Option<String> {
    let is_empty = outcome.counts.offered == 0 && !outcome.stopped;
    is_empty.then(|| {
        let measured_ms = outcome.measured_to_ns.saturating_sub(outcome.measured_from_ns) / 1_000_000;
        format!(
            "nothing was sent in the {measured_ms} ms that count, since what warmed up was still under way: give it more time, \
             with a greater --time-scale"
        )
    })
}
