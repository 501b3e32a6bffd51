//! The checks of every run.

use std::collections::BTreeMap;

use tidegate_engine::{RoutingPolicy, name_of_kind};
use tidegate_mqtt::QoS;

use super::{FILTERS, FleetRun};
use crate::model::matches;

impl FleetRun {
    fn number_of(&self, payload: &str) -> usize {
        let number = payload.split('-').nth(1).and_then(|number| number.parse::<usize>().ok());
        let known = number.filter(|number| self.published.get(*number).is_some_and(|sent| sent.payload == payload));
        known.unwrap_or_else(|| panic!("seed {}: {payload} was never sent", self.seed))
    }

    /// When everything is over: the messages that each client has got.
    pub(super) fn check_outcome(&self) {
        for device in 0..self.devices.len() {
            let begun = self.devices[device].begun;
            assert!(begun <= 1, "seed {}: {} found no session {begun} times", self.seed, self.devices[device].name);
            self.check_received(device);
        }
    }

    fn check_received(&self, device: usize) {
        let (seed, name) = (self.seed, &self.devices[device].name);
        let mut times: BTreeMap<usize, u32> = BTreeMap::new();
        let mut last: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        for received in &self.devices[device].inbox {
            let number = self.number_of(&received.message.text());
            let sent = &self.published[number];
            assert_eq!(sent.topic, received.message.topic, "seed {seed}: {name}");
            assert!(received.message.user_properties.is_empty(), "seed {seed}: the id has come through");
            let times = times.entry(number).or_default();
            *times += 1;
            let again = self.devices[sent.publisher].resent.contains(sent.payload.as_bytes());
            // A message that is not kept may overtake queued ones.
            let ordered = self.profile.policy == RoutingPolicy::TopicHash && self.profile.kind.keeps_order();
            if ordered && sent.qos != QoS::AtMostOnce && *times == 1 && !again {
                let before = last.entry((sent.publisher, sent.topic)).or_default();
                assert!(*before <= number, "seed {seed}: {name} has got {number} behind {before}");
                *before = number;
            }
        }
        for (number, sent) in self.published.iter().enumerate() {
            let wanted = FILTERS[device].iter().any(|filter| matches(filter, sent.topic));
            let times = times.get(&number).copied().unwrap_or(0);
            let answer = self.devices[sent.publisher].answers.get(sent.payload.as_bytes());
            let (taken, refused) =
                (answer.is_some_and(|code| !code.is_error()), answer.is_some_and(|code| code.is_error()));
            let case = format!("seed {seed}: {name} has got {} ({:?}) {times} times", sent.payload, sent.qos);
            assert!(wanted || times == 0, "{case} and never asked for it");
            assert!(!wanted || !taken || sent.qos == QoS::AtMostOnce || times >= 1, "{case}, it is lost");
            assert!(sent.qos != QoS::ExactlyOnce || times <= 1, "{case}");
            let again = self.devices[sent.publisher].resent.contains(sent.payload.as_bytes());
            assert!(!refused || again || times == 0, "{case} although it was refused");
        }
    }

    /// When everyone has left for good.
    pub(super) fn check_nothing_left(&self) {
        let (seed, gauges) = (self.seed, self.world.gauges());
        assert_eq!((gauges.sessions_connected, gauges.sessions_disconnected), (0, 0), "seed {seed}: {gauges:?}");
        assert_eq!((gauges.queued_messages, gauges.queued_bytes), (0, 0), "seed {seed}: {gauges:?}");
        assert_eq!((gauges.inflight_messages, gauges.input_bytes), (0, 0), "seed {seed}: {gauges:?}");
        for broker in &self.brokers {
            assert_eq!(broker.held(), Vec::<String>::new(), "seed {seed}: {} holds filters", broker.name());
        }
        let mut owed = vec!["messages owed", "states of messages sent", "messages that several sessions share"];
        owed.push("messages between shards");
        if !self.profile.kind.brings_back() {
            // Other brokers forget unreleased messages, and cannot always say so.
            owed.push("packet ids of QoS 2 messages taken");
        }
        let swept = self.world.swept();
        let left = swept.iter().filter(|(key, _)| name_of_kind(key).is_some_and(|kind| owed.contains(&kind)));
        let left: Vec<_> = left.filter_map(|(key, value)| tidegate_engine::describe(key, value)).collect();
        assert!(left.is_empty(), "seed {seed}: {left:?}");
    }
}
