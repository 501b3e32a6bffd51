//! `brokel-window`: the study's policy with aging over a window.

use serde_json::Value;

use super::policy::{Guards, Policy, Proposal};
use super::{LevelObservation, Settings, SettingsError, threshold};
use crate::load::{Evaluator, SignalSettings, Thresholds, WindowAging};

/// Window aging against fixed thresholds, one resource at a time.
pub(super) struct BrokelWindow {
    signals: SignalSettings,
    thresholds: Thresholds,
    aging: WindowAging,
    guards: Guards,
}

impl BrokelWindow {
    pub(super) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let aging = WindowAging::new(settings.smoothing, settings.window)?;
        let guards = threshold::guards(settings);
        Ok(Self { signals: settings.signals, thresholds: settings.thresholds, aging, guards })
    }
}

impl Policy for BrokelWindow {
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
        self.aging = self.aging.recalling(serde_json::from_value(memory)?);
        Ok(())
    }
}
