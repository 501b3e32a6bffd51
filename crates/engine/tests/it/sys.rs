//! `$SYS`: what the broker tells of itself, while someone listens.

use std::collections::BTreeMap;

use tidegate_engine::Millis;
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};
use tidegate_mqtt::SubscriptionOptions;

use crate::harness::*;

/// A client that watches values of the broker, which may come before the SUBACK does.
fn watcher(world: &World, filter: &str) -> Client {
    let watcher = world.connect(v5("watcher"));
    watcher.send_subscribe(&[(filter, SubscriptionOptions::new(AtMostOnce))], None);
    world.advance(0);
    watcher
}

fn payloads(client: &Client) -> Vec<String> {
    client.messages_among_others().iter().map(Delivered::text).collect()
}

/// The values that have come, by topic; the last of each.
fn values(client: &Client) -> BTreeMap<String, String> {
    client.messages_among_others().into_iter().map(|got| (got.topic.clone(), got.text())).collect()
}

#[test]
fn values_come_at_once_and_then_in_rounds() {
    everywhere(|world| {
        let watcher = watcher(world, "$SYS/broker/uptime");
        let mut first = payloads(&watcher);
        // The value may come twice, live and as the retained one.
        first.dedup();
        assert_eq!(first, ["0 seconds"]);
        world.advance(seconds(20));
        assert_eq!(payloads(&watcher), ["10 seconds", "20 seconds"]);
    });
}

#[test]
fn numbers_are_those_of_all_shards() {
    everywhere(|world| {
        let clients: Vec<Client> = (0..world.shards() * 2)
            .map(|number| world.connect(v5(&world.name_on(number, &format!("c{number}-")))))
            .collect();
        for client in &clients {
            client.subscribe("t", AtLeastOnce);
        }
        clients[0].publish(message("t", "12345").qos1());
        world.connect(v5("gone").lasting()).lose();
        let watcher = watcher(world, "$SYS/broker/#");
        let values = values(&watcher);
        let value = |topic: &str| values.get(&format!("$SYS/broker/{topic}")).map(String::as_str);
        let count = clients.len();
        assert_eq!(value("clients/connected"), Some(&*(count + 1).to_string()));
        assert_eq!(value("clients/disconnected"), Some("1"));
        assert_eq!(value("clients/total"), Some(&*(count + 2).to_string()));
        assert_eq!(value("publish/messages/received"), Some("1"));
        assert_eq!(value("publish/messages/sent"), Some(&*count.to_string()));
        assert_eq!(value("subscriptions/count"), Some(&*(count + 1).to_string()));
        assert!(value("version").is_some_and(|text| text.starts_with("tidegate version")));
    });
}

#[test]
fn load_values_are_published_from_the_start() {
    everywhere(|world| {
        let watcher = watcher(world, "$SYS/broker/load/#");
        let first = values(&watcher);
        assert_eq!(first.len(), 18, "{first:?}");
        world.advance(seconds(10));
        assert_eq!(values(&watcher).len(), 18);
    });
}

#[test]
fn dropped_messages_are_shown_by_their_reason() {
    everywhere(|world| {
        let away = world.connect(v5("away").lasting());
        away.subscribe("t", AtMostOnce);
        away.lose();
        world.connect(v5("p")).publish(message("t", "x"));
        let watcher = watcher(world, "$SYS/broker/publish/messages/dropped/#");
        let values = values(&watcher);
        assert_eq!(values.get("$SYS/broker/publish/messages/dropped").map(String::as_str), Some("1"));
        assert_eq!(values.get("$SYS/broker/publish/messages/dropped/offline_qos0").map(String::as_str), Some("1"));
    });
}

#[test]
fn nothing_runs_while_nobody_listens() {
    everywhere(|world| {
        let watcher = watcher(world, "$SYS/#");
        world.advance(seconds(30));
        assert_ne!(world.next_deadline(), Millis::NEVER);
        watcher.unsubscribe_whatever_comes("$SYS/#");
        world.advance(seconds(30));
        assert_eq!(world.next_deadline(), Millis::NEVER);
        assert_eq!(world.gauges().retained_messages, 0, "old values are not left behind");
        watcher.lose();
        let again = self::watcher(world, "$SYS/broker/uptime");
        assert_eq!(payloads(&again), ["60 seconds"]);
        again.lose();
        world.advance(seconds(30));
        assert_eq!(world.next_deadline(), Millis::NEVER);
    });
}

#[test]
fn wildcards_of_others_bring_no_values_of_the_broker() {
    everywhere(|world| {
        let curious = world.connect(v5("curious"));
        curious.subscribe("#", AtMostOnce);
        curious.subscribe("+/broker/#", AtMostOnce);
        let _watcher = watcher(world, "$SYS/#");
        world.advance(seconds(20));
        curious.expect_nothing();
    });
}

#[test]
fn clients_that_come_and_go_are_told() {
    everywhere(|world| {
        let watcher = watcher(world, "$SYS/brokers/tidegate/clients/#");
        payloads(&watcher);
        for shard in 0..world.shards() {
            let name = world.name_on(shard, "sensor/\"1\"+");
            let client = world.connect(v5(&name));
            let got = watcher.expect_message();
            let level = name.replace(['/', '+'], "_");
            assert_eq!(got.topic, format!("$SYS/brokers/tidegate/clients/{level}/connected"));
            let quoted = name.replace('"', "\\\"");
            assert!(got.text().starts_with(&format!("{{\"clientid\":\"{quoted}\",\"ts\":")), "{}", got.text());
            client.lose();
            let got = watcher.expect_message();
            assert_eq!(got.topic, format!("$SYS/brokers/tidegate/clients/{level}/disconnected"));
            assert!(got.text().contains("\"reason\":\"connection_lost\""), "{}", got.text());
        }
    });
}

#[test]
fn sys_may_be_switched_off() {
    everywhere_with(
        |settings| settings.sys_interval_seconds = 0,
        |world| {
            let watcher = watcher(world, "$SYS/broker/#");
            world.advance(minutes(1));
            assert!(payloads(&watcher).is_empty());
            assert_eq!(world.next_deadline(), Millis::NEVER);
        },
    );
}
