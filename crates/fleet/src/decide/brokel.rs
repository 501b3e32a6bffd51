//! `brokel` and `brokel-window`: the study's policy, with aging over all observations or over a window of them.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::policy::{Guards, Policy, Proposal};
use super::{LevelObservation, Settings, SettingsError, threshold};
use crate::load::{Evaluator, FullAging, SignalSettings, Thresholds, WindowAging};

/// Aging against fixed thresholds, one resource at a time (BRK-37 to BRK-40).
pub(super) struct Brokel<A> {
    signals: SignalSettings,
    thresholds: Thresholds,
    aging: A,
    guards: Guards,
}

/// An evaluator whose observations outlive a restart.
pub(super) trait Aging: Evaluator + Serialize + DeserializeOwned {
    /// Continues from the state of another one.
    fn recall(&mut self, remembered: Self);
}

impl Aging for FullAging {
    fn recall(&mut self, remembered: Self) {
        *self = self.recalling(&remembered);
    }
}

impl Aging for WindowAging {
    fn recall(&mut self, remembered: Self) {
        *self = self.recalling(remembered);
    }
}

impl Brokel<FullAging> {
    /// `brokel`.
    pub(super) fn full(settings: &Settings) -> Result<Self, SettingsError> {
        Ok(Self::of(settings, FullAging::new(settings.smoothing, settings.view)?))
    }
}

impl Brokel<WindowAging> {
    /// `brokel-window`.
    pub(super) fn window(settings: &Settings) -> Result<Self, SettingsError> {
        Ok(Self::of(settings, WindowAging::new(settings.smoothing, settings.window)?))
    }
}

impl<A> Brokel<A> {
    fn of(settings: &Settings, aging: A) -> Self {
        let guards = threshold::guards(settings);
        Self { signals: settings.signals, thresholds: settings.thresholds, aging, guards }
    }
}

impl<A: Aging> Policy for Brokel<A> {
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
        self.aging.recall(serde_json::from_value(memory)?);
        Ok(())
    }
}
