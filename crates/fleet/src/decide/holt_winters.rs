//! `holt-winters` and its preview: ahead of the load by one lead time.

use std::time::Duration;

use serde_json::Value;

use super::policy::{Gap, Guards, Policy, Proposal};
use super::settings::ceil;
use super::steady::{self, Steady};
use super::{Change, HeldBack, LevelObservation, Rule, Settings, SettingsError};
use crate::load::{Demand, HoltWinters};

/// The farthest forecast, in observations: an hour of them every 15 seconds.
const AHEAD_MAX: usize = 240;
/// A forecast is corrected downwards by this multiple of its usual error.
const ERRORS: f64 = 2.0;

/// `default`, and growth ahead of the forecast of the demand at the end of the lead time. The forecast counts from the
/// second season on, and only for demand that lasts longer than a peak: a rise that no season has shown is left to
/// `default`. The lead time is the measured one (boot and subscriptions) as soon as there is one. The preview shows the forecast without acting on it.
pub(super) struct Proactive {
    settings: Settings,
    preview: bool,
    reactive: Steady,
    demand: Demand,
    series: HoltWinters,
}

impl Proactive {
    pub(super) fn new(settings: &Settings, preview: bool) -> Result<Self, SettingsError> {
        let season = ceil(settings.season.as_secs_f64() / settings.interval.as_secs_f64());
        Ok(Self {
            settings: settings.clone(),
            preview,
            reactive: Steady::new(settings),
            demand: Demand::new(settings.signals),
            series: HoltWinters::new(settings.forecast, season)?,
        })
    }

    /// Observations from now until a resource that is asked for now serves, and the observation that sees it.
    fn ahead(&self, measured: Option<Duration>) -> usize {
        let lead_time = measured.unwrap_or(self.settings.lead_time).as_secs_f64();
        (ceil(lead_time / self.settings.interval.as_secs_f64()) as usize + 1).min(AHEAD_MAX)
    }

    /// The demand that is forecast for longer than a peak, from when a resource serves, less the error that forecasts
    /// usually have; `None` while no season is known.
    fn expected(&self, seen: &LevelObservation<'_>) -> Option<f64> {
        if !self.series.knows_the_season() {
            return None;
        }
        let longer = self.reactive.longer_than_a_peak().as_secs_f64() / self.settings.interval.as_secs_f64();
        let first = self.ahead(seen.lead_time);
        let forecasts = (first..=first + ceil(longer) as usize).filter_map(|ahead| self.series.forecast(ahead));
        let least = forecasts.fold(f64::INFINITY, f64::min) - ERRORS * self.series.usual_error();
        Some(least.max(0.0))
    }

    /// Growth to the expected demand, if that is too much for the planned resources.
    fn grow(&self, expected: f64, now: f64, proposal: &Proposal, seen: &LevelObservation<'_>) -> Option<Proposal> {
        let planned = seen.planned();
        let forecast = self.reactive.resources_for(expected);
        let reactive = match proposal.change {
            Change::Grow(count) => planned.saturating_add(count),
            Change::Hold | Change::Shrink(_) => planned,
        };
        if expected <= self.reactive.trip() * f64::from(planned) || forecast <= reactive {
            return None;
        }
        let serving = seen.serving;
        let text =
            format!("a demand of {expected:.2} resources is forecast, {now:.2} now on {serving}: asks for {forecast}");
        let mut ahead = Proposal::hold(Rule::Forecast, text).to(Change::between(planned, forecast));
        (ahead.signal, ahead.observed) = (proposal.signal, proposal.observed);
        (ahead.value, ahead.threshold) = (Some(expected / f64::from(planned.max(1))), Some(self.reactive.trip()));
        Some(ahead)
    }

    /// Keeps the resources that the demand expected soon needs.
    fn keep(&self, expected: f64, mut proposal: Proposal, seen: &LevelObservation<'_>) -> Proposal {
        let Change::Shrink(count) = proposal.change else { return proposal };
        let forecast = self.reactive.resources_for(expected);
        let spare = seen.serving.saturating_sub(forecast);
        if spare < count {
            proposal.change = if spare == 0 { Change::Hold } else { Change::Shrink(spare) };
            proposal.held_back.push(HeldBack::Forecast { forecast });
        }
        proposal
    }
}

impl Policy for Proactive {
    fn propose(&mut self, seen: &LevelObservation<'_>) -> Proposal {
        let proposal = self.reactive.propose(seen);
        let Some(reading) = steady::observe(&mut self.demand, &self.settings, seen) else {
            return proposal;
        };
        self.series.observe(reading.resources);
        let Some(expected) = self.expected(seen) else { return proposal };
        let ahead = self.grow(expected, reading.resources, &proposal, seen);
        match ahead {
            Some(_) if self.preview => {
                let mut proposal = proposal;
                proposal.held_back.push(HeldBack::Preview { forecast: self.reactive.resources_for(expected) });
                proposal
            }
            Some(ahead) => ahead,
            None if self.preview => proposal,
            None => self.keep(expected, proposal, seen),
        }
    }

    fn guards(&self) -> Guards {
        self.reactive.guards()
    }

    fn memory(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value((self.reactive.memory()?, &self.demand, &self.series))
    }

    fn recall(&mut self, memory: Value) -> Result<(), serde_json::Error> {
        let (reactive, demand, series) = serde_json::from_value(memory)?;
        let other = || serde::de::Error::custom("its season has another length");
        let series = self.series.recalling(series).ok_or_else(other)?;
        self.reactive.recall(reactive)?;
        (self.demand, self.series) = (self.demand.recalling(&demand), series);
        Ok(())
    }

    fn bridges(&mut self, gap: Gap) -> bool {
        let missed = (gap.length.as_secs_f64() / gap.interval.as_secs_f64()).round() - 1.0;
        if missed >= 1.0 {
            self.series.skip(ceil(missed));
        }
        if !self.reactive.bridges(gap) {
            self.reactive = Steady::new(&self.settings);
        }
        true
    }
}
