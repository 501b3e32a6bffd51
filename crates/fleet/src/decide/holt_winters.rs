//! `holt-winters` and its preview: ahead of the load by one lead time.

use std::time::Duration;

use serde_json::Value;

use super::hpa::{self, Formula, Hpa};
use super::policy::{Gap, Guards, Policy, Proposal};
use super::settings::ceil;
use super::{Change, HeldBack, LevelObservation, Rule, Settings, SettingsError, threshold};
use crate::load::{Demand, HoltWinters};

/// The farthest forecast, in observations: an hour of them every 15 seconds.
const AHEAD_MAX: usize = 240;

/// The larger of two numbers: HPA's formula, and the resources for the forecast demand at the time when a resource
/// requested now would serve. The lead time is the measured one (boot and subscriptions) as soon as there is one. The
/// preview acts on the formula alone.
pub(super) struct Proactive {
    settings: Settings,
    preview: bool,
    formula: Formula,
    windows: Hpa,
    demand: Demand,
    series: HoltWinters,
}

impl Proactive {
    pub(super) fn new(settings: &Settings, preview: bool) -> Result<Self, SettingsError> {
        let season = ceil(settings.season.as_secs_f64() / settings.interval.as_secs_f64());
        Ok(Self {
            settings: settings.clone(),
            preview,
            formula: Formula::new(settings),
            windows: Hpa::new(settings),
            demand: Demand::new(settings.signals),
            series: HoltWinters::new(settings.forecast, season)?,
        })
    }

    /// Observations from now until a resource that is asked for now serves, and the one at which it is seen.
    fn ahead(&self, measured: Option<Duration>) -> usize {
        let lead_time = measured.unwrap_or(self.settings.lead_time).as_secs_f64();
        (ceil(lead_time / self.settings.interval.as_secs_f64()) as usize + 1).min(AHEAD_MAX)
    }
}

impl Policy for Proactive {
    fn propose(&mut self, seen: &LevelObservation<'_>) -> Proposal {
        let reading = self.demand.observe(seen.time, seen.serving, seen.samples);
        let (Some(reading), Some(reactive)) = (reading, self.formula.recommend(seen)) else {
            return threshold::no_signal();
        };
        self.series.observe(reading.resources);
        let target = self.settings.thresholds.upper();
        let demand = self.series.forecast(self.ahead(seen.lead_time)).unwrap_or(reading.resources).max(0.0);
        let forecast = self.settings.resources_for(demand);
        if self.preview || forecast <= reactive.desired {
            let (stable, held) = self.windows.stabilise(seen, reactive.desired);
            let mut proposal = hpa::propose(seen, reactive, stable, held, target);
            if forecast > reactive.desired {
                proposal.held_back.push(HeldBack::Preview { forecast });
            }
            return proposal;
        }
        let (stable, held) = self.windows.stabilise(seen, forecast);
        let mut proposal = hpa::propose(seen, reactive, stable, held, target);
        proposal.rule = Rule::Forecast;
        proposal.wanted = Change::between(seen.planned(), forecast);
        proposal.value = Some(demand);
        let serving = seen.serving;
        proposal.text = format!(
            "a demand of {demand:.2} resources is forecast, {:.2} now on {serving}: asks for {forecast}",
            reading.resources
        );
        proposal
    }

    fn guards(&self) -> Guards {
        hpa::no_cool_down()
    }

    fn memory(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value((self.windows.memory()?, &self.demand, &self.series))
    }

    fn recall(&mut self, memory: Value) -> Result<(), serde_json::Error> {
        let (windows, demand, series) = serde_json::from_value(memory)?;
        let other = || serde::de::Error::custom("its season has another length");
        let series = self.series.recalling(series).ok_or_else(other)?;
        self.windows.recall(windows)?;
        (self.demand, self.series) = (self.demand.recalling(&demand), series);
        Ok(())
    }

    fn bridges(&mut self, gap: Gap) -> bool {
        let missed = (gap.length.as_secs_f64() / gap.interval.as_secs_f64()).round() - 1.0;
        if missed >= 1.0 {
            self.series.skip(ceil(missed));
        }
        true
    }
}
