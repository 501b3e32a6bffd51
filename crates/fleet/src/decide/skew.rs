//! A resource that is full while the others are not.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{LevelObservation, Settings};
use crate::load::Sample;

/// The hottest resource is skewed from this multiple of the mean on.
const SKEWED_FROM: f64 = 1.5;
/// Growths for a hot resource in a row. If it stays hot, its load cannot be shared, as that of one topic.
const GROWTHS_MAX: u32 = 2;
/// Time without a hot resource after which growth for one is allowed again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(900);

/// The hottest resource of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hottest {
    /// Its place among the samples.
    pub index: usize,
    /// Its load, 1 being full.
    pub load: f64,
    /// The mean load.
    pub mean: f64,
    /// Messages that wait for it, or are lost, per second.
    lacks: bool,
}

impl Hottest {
    /// The hottest of the samples, where there are two or more.
    pub(super) fn of(settings: &Settings, samples: &[Sample]) -> Option<Self> {
        if samples.len() < 2 {
            return None;
        }
        let load = |sample: &Sample| {
            let largest = settings.signals.read(std::slice::from_ref(sample), 1).largest();
            largest.map(|(_, load)| load)
        };
        let loads: Vec<(f64, usize)> =
            samples.iter().enumerate().filter_map(|(index, sample)| Some((load(sample)?, index))).collect();
        let (hottest, index) = loads.iter().copied().max_by(|left, right| left.0.total_cmp(&right.0))?;
        let sample = samples.get(index)?;
        #[expect(clippy::cast_precision_loss, reason = "a fleet has far fewer than 2^52 resources")]
        let mean = loads.iter().map(|(load, _)| load).sum::<f64>() / loads.len() as f64;
        let lacks = sample.sound_queued().unwrap_or(0.0) > 0.0 || sample.sound_drops().unwrap_or(0.0) > 0.0;
        Some(Self { index, load: hottest, mean, lacks })
    }

    /// Whether it is full although the mean is not.
    pub(super) fn is_skewed(&self, full_from: f64) -> bool {
        self.load > full_from && self.load > SKEWED_FROM * self.mean
    }
}

/// How long a resource has been hot, and the growths for it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Skew {
    since: Option<Duration>,
    seen: Option<Duration>,
    /// Growths that happened: the next observation shows one more resource.
    growths: u32,
    /// The resources that served when the last observation asked for one more.
    #[serde(default)]
    asked: Option<u32>,
}

/// The action for a hot resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Remedy {
    /// It has been hot for that time, which may be a peak.
    Wait(Duration),
    /// One more resource may take some of its load.
    Grow,
    /// More resources have not helped.
    Useless,
}

impl Skew {
    /// Takes in the hottest resource; returns the remedy when messages wait for it.
    pub(super) fn note(
        &mut self,
        hottest: Option<Hottest>,
        full_from: f64,
        longer_than_a_peak: Duration,
        seen: &LevelObservation<'_>,
    ) -> Option<(Hottest, Remedy)> {
        // A growth that a bound or a guard has held back, or that failed, has not shown whether it helps.
        if self.asked.take().is_some_and(|serving| seen.planned() > serving) {
            self.growths += 1;
        }
        let hot = hottest.filter(|hottest| hottest.is_skewed(full_from) && hottest.lacks);
        let Some(hot) = hot else {
            self.since = None;
            if self.seen.is_some_and(|then| seen.time.saturating_sub(then) > FORGOTTEN_AFTER) {
                *self = Self::default();
            }
            return None;
        };
        self.seen = Some(seen.time);
        if seen.pending > 0 {
            // The starting one may take its load.
            self.since = None;
            return Some((hot, Remedy::Wait(Duration::ZERO)));
        }
        let lasted = seen.time.saturating_sub(*self.since.get_or_insert(seen.time));
        let remedy = match lasted {
            lasted if lasted < longer_than_a_peak => Remedy::Wait(lasted),
            _ if self.growths >= GROWTHS_MAX => Remedy::Useless,
            _ => {
                self.asked = Some(seen.serving);
                self.since = None;
                Remedy::Grow
            }
        };
        Some((hot, remedy))
    }
}
