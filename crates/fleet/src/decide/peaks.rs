//! Peaks that return in a rhythm, as a job that all devices run every five minutes gives.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Settings;

/// Equal pauses that make a rhythm. With two of them, peaks at random times would often seem to have one.
const PAUSES: u32 = 3;
/// The peaks around these pauses.
const PEAKS: usize = PAUSES as usize + 1;
/// How far each pause of a new rhythm may be from their mean, in intervals between observations.
const BEGUN_WITHIN: f64 = 1.0 / 3.0;
/// The least period of a rhythm, in times of the longest peak and an interval: closer peaks are a load.
const APART: f64 = 2.0;
/// How far the newest pause of a known rhythm may be from the others, in intervals.
const KEPT_WITHIN: f64 = 2.0;

/// Observations in a row with more than the usual demand.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Peak {
    first: Duration,
    last: Duration,
    /// The demand above the usual one, summed up.
    weight: f64,
    /// The same, each observation multiplied by its seconds.
    moment: f64,
    crest: f64,
}

impl Peak {
    /// Its centre in seconds. It is known more exactly than its beginning, which is between two observations.
    fn centre_s(&self) -> f64 {
        self.moment / self.weight
    }
}

/// The newest peaks, and their rhythm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Peaks {
    under_way: Option<Peak>,
    /// Ended peaks, the newest last.
    past: VecDeque<Peak>,
    /// Seconds from one to the next.
    period_s: Option<f64>,
}

/// A peak that is to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    /// The demand at its crest.
    pub(super) demand: f64,
    /// Seconds until resources should serve.
    pub(super) in_s: f64,
    /// Seconds from one to the next.
    pub(super) period_s: f64,
}

impl Peaks {
    /// Takes the demand of an observation in, and the usual one; above `limit` it is part of a peak.
    pub(super) fn note(&mut self, now: Duration, demand: f64, (usual, limit): (f64, f64), settings: &Settings) {
        if demand > limit && demand > usual {
            let new = Peak { first: now, last: now, weight: 0.0, moment: 0.0, crest: 0.0 };
            let peak = self.under_way.get_or_insert(new);
            peak.last = now;
            peak.weight += demand - usual;
            peak.moment += (demand - usual) * now.as_secs_f64();
            peak.crest = peak.crest.max(demand);
            return;
        }
        match self.under_way.take() {
            Some(peak) if peak.last.saturating_sub(peak.first) <= settings.peak => self.end(peak, settings),
            Some(_) => *self = Self::default(),
            None if self.is_overdue(now, settings) => *self = Self::default(),
            None => {}
        }
    }

    fn end(&mut self, peak: Peak, settings: &Settings) {
        self.past.push_back(peak);
        if self.past.len() > PEAKS {
            self.past.pop_front();
        }
        let Some((first, before)) = self.past.front().zip(self.past.iter().rev().nth(1)) else { return };
        if self.past.len() < PEAKS {
            return;
        }
        // A rhythm that is known may vary more than one that begins.
        let interval_s = settings.interval.as_secs_f64();
        let pause = peak.centre_s() - before.centre_s();
        let continues = self.period_s.is_some_and(|period| (pause - period).abs() <= KEPT_WITHIN * interval_s);
        let mean = (peak.centre_s() - first.centre_s()) / f64::from(PAUSES);
        let pauses = self.past.iter().zip(self.past.iter().skip(1)).map(|(one, next)| next.centre_s() - one.centre_s());
        let are_apart = mean > APART * (settings.peak + settings.interval).as_secs_f64();
        let is_even = pauses.map(|pause| (pause - mean).abs()).all(|error| error <= BEGUN_WITHIN * interval_s);
        self.period_s = (continues || (is_even && are_apart)).then_some(mean);
    }

    /// Whether the next peak of the rhythm has not come.
    fn is_overdue(&self, now: Duration, settings: &Settings) -> bool {
        let Some((period, last)) = self.period_s.zip(self.past.back()) else { return false };
        let late = settings.peak + settings.interval.mul_f64(KEPT_WITHIN + 1.0);
        now.as_secs_f64() > last.centre_s() + period + late.as_secs_f64()
    }

    /// The first peak that resources with this lead time can still be ready for.
    pub(super) fn expected(&self, now: Duration, lead_s: f64, settings: &Settings) -> Option<Expected> {
        let (period_s, last) = self.period_s.zip(self.past.back())?;
        let demand = self.past.iter().map(|peak| peak.crest).fold(0.0, f64::max);
        let early = settings.peak.as_secs_f64() / 2.0 + settings.interval.as_secs_f64();
        let ready = last.centre_s() - early - now.as_secs_f64();
        let ahead = ((lead_s - ready) / period_s).ceil().max(1.0);
        Some(Expected { demand, in_s: ready + ahead * period_s, period_s })
    }
}
