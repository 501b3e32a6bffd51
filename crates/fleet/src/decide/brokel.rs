//! `brokel`: the study's policy.

use serde_json::Value;

use super::policy::{Guards, Policy, Proposal};
use super::{LevelObservation, Settings, SettingsError, threshold};
use crate::load::{Evaluator, FullAging, SignalSettings, Thresholds};

/// Full aging against fixed thresholds, one resource at a time (BRK-37 to BRK-40).
pub(super) struct Brokel {
    signals: SignalSettings,
    thresholds: Thresholds,
    aging: FullAging,
    guards: Guards,
}

impl Brokel {
    pub(super) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let aging = FullAging::new(settings.smoothing, settings.view)?;
        let guards = threshold::guards(settings);
        Ok(Self { signals: settings.signals, thresholds: settings.thresholds, aging, guards })
    }
}

impl Policy for Brokel {
    fn propose(&mut self, seen: &LevelObservation<'_>) -> Proposal {
        let how = self.aging.describe();
        match threshold::evaluate(&self.signals, &mut self.aging, seen) {
            Err(proposal) => proposal,
            Ok(load) => {
                let band = self.thresholds;
                threshold::propose(band.side(load.load), load, band.lower(), band.upper(), &how)
            }
        }
    }

    fn guards(&self) -> Guards {
        self.guards
    }

    fn memory(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(&self.aging)
    }

    fn recall(&mut self, memory: Value) -> Result<(), serde_json::Error> {
        self.aging = self.aging.recalling(&serde_json::from_value(memory)?);
        Ok(())
    }
}
