//! The maximum QoS of a subscription.

mod steps;

use crate::engine::facets::SubscribeSteps;
use crate::ids::ConnectionKey;
use tidegate_mqtt::QoS;

impl SubscribeSteps<'_> {
    fn maximum_qos(&self, key: ConnectionKey) -> QoS {
        let listener = self
            .engine
            .state
            .connections
            .get(key)
            .and_then(|connection| self.engine.state.settings.listener(connection.listener));
        listener.map_or(QoS::ExactlyOnce, |listener| listener.maximum_qos)
    }
}
