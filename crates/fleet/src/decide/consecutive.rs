//! `consecutive`: the observation itself, violations in a row.

use serde_json::Value;

use super::policy::{Guards, Policy, Proposal};
use super::{LevelObservation, Settings, SettingsError, threshold};
use crate::load::{Consecutive, Raw, Side, SignalSettings, Thresholds};

/// The raw load against fixed thresholds; one resource once there are enough violations in a row.
pub(super) struct ConsecutiveViolations {
    signals: SignalSettings,
    thresholds: Thresholds,
    consecutive: Consecutive,
    guards: Guards,
}

impl ConsecutiveViolations {
    pub(super) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let consecutive = Consecutive::new(settings.violations)?;
        let guards = threshold::guards(settings);
        Ok(Self { signals: settings.signals, thresholds: settings.thresholds, consecutive, guards })
    }
}

impl Policy for ConsecutiveViolations {
    fn propose(&mut self, seen: &LevelObservation<'_>) -> Proposal {
        let load = match threshold::evaluate(&self.signals, &mut Raw, seen) {
            Err(proposal) => return proposal,
            Ok(load) => load,
        };
        let band = self.thresholds;
        let side = band.side(load.load);
        let counted = self.consecutive.observe(side);
        let (run, needed) = (self.consecutive.run(), self.consecutive.needed());
        let how = format!("{run} in a row");
        let proposal = threshold::propose(side, load, band.lower(), band.upper(), &how);
        if side != Side::Within && counted == Side::Within {
            return threshold::held_by_run(proposal, run, needed);
        }
        proposal
    }

    fn guards(&self) -> Guards {
        self.guards
    }

    fn memory(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(&self.consecutive)
    }

    fn recall(&mut self, memory: Value) -> Result<(), serde_json::Error> {
        self.consecutive = self.consecutive.recalling(&serde_json::from_value(memory)?);
        Ok(())
    }
}
