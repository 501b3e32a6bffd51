//! Bridges of other brokers, such as Mosquitto's: before MQTT 5 they say that they are one by their protocol level.

use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

const STATE: &str = "$SYS/broker/connection/edge.cloud/state";

#[test]
fn a_bridge_gets_no_echo_and_sees_the_retain_flag() {
    everywhere(|world| {
        for level in [v311("bridge"), v31("bridge")] {
            let bridge = world.connect(level.bridge());
            bridge.subscribe("plant/#", AtLeastOnce);
            bridge.publish(message("plant/own", "1").qos1());
            let other = world.connect(v5("other"));
            other.publish(message("plant/x", "2").qos1().retain());
            assert!(bridge.expect_publish("plant/x", "2").retain);
            bridge.expect_nothing();
            other.publish(message("plant/x", "").qos1().retain());
            assert!(bridge.expect_publish("plant/x", "").retain);
        }
    });
}

#[test]
fn an_ordinary_client_with_a_bridges_name_stays_ordinary() {
    everywhere(|world| {
        world.connect(v311("bridge").bridge()).subscribe("t", AtMostOnce);
        let client = world.connect(v311("bridge"));
        client.subscribe("t", AtMostOnce);
        client.publish(message("t", "own").retain());
        assert!(!client.expect_publish("t", "own").retain);
    });
}

#[test]
fn a_bridge_publishes_its_state_and_its_will_the_end() {
    everywhere(|world| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe(STATE, AtLeastOnce);
        let bridge = world.connect(v311("bridge").bridge().will(message(STATE, "0").qos1().retain()));
        assert_eq!(bridge.publish(message(STATE, "1").qos1().retain()), ReasonCode::Success);
        watcher.expect_publish(STATE, "1");
        let late = world.connect(v5("late"));
        late.subscribe("$SYS/broker/connection/+/state", AtLeastOnce);
        assert!(late.expect_publish(STATE, "1").retain);
        bridge.lose();
        for client in [&watcher, &late] {
            client.expect_publish(STATE, "0");
        }
    });
}

#[test]
fn nothing_else_below_the_brokers_own_topics_is_for_bridges() {
    everywhere(|world| {
        let bridge = world.connect(v5("bridge"));
        for topic in [
            "$SYS/broker/connection/state",
            "$SYS/broker/connection//state",
            "$SYS/broker/connection/a/b/state",
            "$SYS/broker/connection/a/stat",
            "$SYS/brokers/connection/a/state",
        ] {
            assert_eq!(bridge.publish(message(topic, "1").qos1()), ReasonCode::NotAuthorized, "{topic}");
            let will = v311("other").bridge().will(message(topic, "0"));
            world.try_connect(will).expect_refused(ReasonCode::NotAuthorized);
        }
    });
}
