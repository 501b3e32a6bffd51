//! Reasons to refuse a CONNECT.

use crate::settings::Settings;
use tidegate_mqtt::{Connect, Version};

impl Settings {
    /// Whether the session that a CONNECT asks for is to outlive its connection.
    pub(crate) fn wants_to_last(&self, connect: &Connect<'_>) -> bool {
        let asked = match connect.version {
            Version::V5 => connect.properties.session_expiry_interval.unwrap_or(0),
            Version::V31 | Version::V311 => u32::from(!connect.clean_start),
        };
        asked.min(self.limits.max_session_expiry_seconds) > 0
    }
}
