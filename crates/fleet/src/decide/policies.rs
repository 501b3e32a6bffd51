//! The policies of their names.

use super::brokel::Brokel;
use super::consecutive::ConsecutiveViolations;
use super::holt_winters::Proactive;
use super::hpa::Hpa;
use super::latency::Latency;
use super::live::Live;
use super::policy::Policy;
use super::policy_name::PolicyName;
use super::settings::{Settings, SettingsError};
use super::steady::Steady;

impl PolicyName {
    pub(super) fn build(self, settings: &Settings) -> Result<Box<dyn Policy>, SettingsError> {
        Ok(match self {
            Self::Default => Box::new(Steady::new(settings)),
            Self::Brokel => Box::new(Brokel::full(settings)?),
            Self::BrokelWindow => Box::new(Brokel::window(settings)?),
            Self::Consecutive => Box::new(ConsecutiveViolations::new(settings)?),
            Self::Live => Box::new(Live::new(settings)?),
            Self::Hpa => Box::new(Hpa::new(settings)),
            Self::HpaStabilised => Box::new(Hpa::stabilised(settings)),
            Self::HoltWinters => Box::new(Proactive::new(settings, false)?),
            Self::HoltWintersPreview => Box::new(Proactive::new(settings, true)?),
            Self::Latency => Box::new(Latency::new(settings)),
        })
    }
}
