//! The maximum QoS of a subscription.

mod steps;

use crate::engine::Engine;
use crate::ids::ConnectionKey;
use tidegate_mqtt::QoS;

impl Engine {
    fn maximum_qos(&self, key: ConnectionKey) -> QoS {
        let listener =
            self.state.connections.get(key).and_then(|connection| self.state.settings.listener(connection.listener));
        listener.map_or(QoS::ExactlyOnce, |listener| listener.maximum_qos)
    }
}
