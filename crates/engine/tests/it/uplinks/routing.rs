//! Which broker gets what.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_engine::RoutingPolicy;
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

use crate::harness::*;

#[test]
fn each_publish_goes_to_exactly_one_broker_by_every_policy() {
    for policy in [RoutingPolicy::TopicHash, RoutingPolicy::RoundRobin, RoutingPolicy::LeastLoaded] {
        everywhere_with(
            |settings| fleet_settings(settings, policy),
            |world| {
                let brokers = ["a", "b", "c"].map(|name| world.broker(name));
                let publisher = world.connect(v5("p"));
                let mut sent = BTreeSet::new();
                for (number, qos) in [AtMostOnce, AtLeastOnce, ExactlyOnce].into_iter().cycle().take(30).enumerate() {
                    publisher.publish(message(&format!("t/{number}"), number.to_string()).qos(qos));
                    sent.insert(number.to_string());
                }
                let taken: Vec<String> = brokers.iter().flat_map(Broker::payloads).collect();
                assert_eq!(taken.len(), 30, "{policy:?}");
                assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), sent, "{policy:?}");
                assert_eq!(world.owed(), 0);
            },
        );
    }
}
