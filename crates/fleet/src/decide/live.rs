//! `live`: thresholds that follow the load.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::policy::{Guards, Policy, Proposal};
use super::{LevelObservation, Settings, SettingsError, threshold};
use crate::load::{Evaluator, FullAging, LiveThresholds, SignalSettings};

/// Full aging against live thresholds, one resource at a time.
pub(super) struct Live {
    signals: SignalSettings,
    aging: FullAging,
    thresholds: LiveThresholds,
    guards: Guards,
    before: Option<Before>,
}

/// The observation before.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Before {
    serving: u32,
    load: f64,
}

impl Live {
    pub(super) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let aging = FullAging::new(settings.smoothing, settings.view)?;
        let thresholds = LiveThresholds::new(settings.thresholds);
        Ok(Self { signals: settings.signals, aging, thresholds, guards: threshold::guards(settings), before: None })
    }
}

impl Policy for Live {
    fn propose(&mut self, seen: &LevelObservation<'_>) -> Proposal {
        let how = self.aging.describe();
        let load = match threshold::evaluate(&self.signals, &mut self.aging, seen) {
            Err(proposal) => {
                if let Some(observed) = proposal.observed {
                    self.thresholds.observe(observed);
                }
                return proposal;
            }
            Ok(load) => load,
        };
        self.thresholds.observe(load.observed);
        let now = Before { serving: seen.serving, load: load.load };
        match self.before.replace(now) {
            Some(before) if seen.serving > before.serving => self.thresholds.arrived(load.load),
            Some(before) if seen.serving < before.serving => self.thresholds.left(before.load, load.load),
            _ => {}
        }
        let (lower, upper) = (self.thresholds.lower(), self.thresholds.upper());
        threshold::propose(self.thresholds.side(load.load), load, lower, upper, &how)
    }

    fn guards(&self) -> Guards {
        self.guards
    }

    fn memory(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value((&self.aging, &self.thresholds, self.before))
    }

    fn recall(&mut self, memory: Value) -> Result<(), serde_json::Error> {
        let (aging, thresholds, before) = serde_json::from_value(memory)?;
        self.aging = self.aging.recalling(&aging);
        (self.thresholds, self.before) = (thresholds, before);
        Ok(())
    }
}
