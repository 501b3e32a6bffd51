//! The values that a CONNACK grants.

use crate::connection::connect::grant::Granted;
use crate::flows::contexts::Connecting;
use crate::ids::ConnectionKey;
use tidegate_mqtt::{Connect, Version};

impl Connecting<'_> {
    pub(crate) fn grant<'a>(
        &self,
        key: ConnectionKey,
        client_id: &'a str,
        connect: &Connect<'_>,
    ) -> Option<Granted<'a>> {
        let listener = self.state.settings.listener(self.state.connections.get(key)?.listener)?;
        let properties = &connect.properties;
        let limits = &self.state.settings.limits;
        let asked = match connect.version {
            Version::V5 => properties.session_expiry_interval.unwrap_or(0),
            Version::V31 | Version::V311 => {
                if connect.clean_start {
                    0
                } else {
                    u32::MAX
                }
            }
        };
        let keep_alive = match listener.keep_alive_maximum {
            0 => connect.keep_alive,
            max if connect.keep_alive == 0 || connect.keep_alive > max => max,
            _ => connect.keep_alive,
        };
        Some(Granted {
            client_id,
            assigned: connect.client_id.is_empty(),
            keep_alive,
            expiry_seconds: asked.min(limits.max_session_expiry_seconds),
            // A client may take less than the server has under way at most, but not make it keep more.
            receive_maximum: properties
                .receive_maximum
                .map_or(limits.max_inflight, |asked| asked.get().min(limits.max_inflight)),
        })
    }
}
