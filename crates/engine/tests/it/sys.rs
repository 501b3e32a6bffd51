//! `$SYS`: values and events of the broker, while a client is subscribed.

use std::collections::BTreeMap;

use tidegate_engine::{ListenerSettings, Millis, Settings, TenantId};
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
fn numbers_cover_all_shards() {
    in_one_process(|world| {
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
        assert_eq!(first.len(), 27, "{first:?}");
        world.advance(seconds(10));
        assert_eq!(values(&watcher).len(), 27);
    });
}

#[test]
fn load_of_connections_is_an_average_per_minute() {
    in_one_process(|world| {
        let watcher = watcher(world, "$SYS/broker/load/#");
        values(&watcher);
        let _clients: Vec<_> = (0..6).map(|number| world.connect(v5(&format!("c{number}")))).collect();
        world.advance(seconds(10));
        let told = values(&watcher);
        for kind in ["connections", "sockets"] {
            let topic = format!("$SYS/broker/load/{kind}/1min");
            let value = told.iter().find(|(found, _)| **found == topic).map(|(_, text)| text.as_str());
            // 36 per minute; a sixth of a minute counts 1 - exp(-1/6) of them.
            assert_eq!(value, Some("5.53"), "{kind}: {told:?}");
        }
    });
}

#[test]
fn dropped_messages_are_shown_by_their_reason() {
    in_one_process(|world| {
        world.absent_subscriber(v5("away").lasting(), "t", AtMostOnce);
        world.connect(v5("p")).publish(message("t", "x"));
        let watcher = watcher(world, "$SYS/broker/publish/messages/dropped/#");
        let values = values(&watcher);
        assert_eq!(values.get("$SYS/broker/publish/messages/dropped").map(String::as_str), Some("1"));
        assert_eq!(values.get("$SYS/broker/publish/messages/dropped/offline_qos0").map(String::as_str), Some("1"));
    });
}

#[test]
fn nothing_runs_without_a_subscriber() {
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
fn events_of_clients_that_come_and_go_are_published() {
    in_one_process(|world| {
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

fn two_tenants(settings: &mut Settings) {
    settings.listeners.push(ListenerSettings { tenant: TenantId(7), name: "other".into(), ..Default::default() });
}

#[test]
fn a_tenant_sees_its_own_clients_and_nothing_of_the_broker() {
    in_one_process_with(two_tenants, |world| {
        let other = world.connect(v5("other watcher").through(1));
        other.subscribe("$SYS/#", AtMostOnce);
        world.advance(seconds(30));
        assert!(payloads(&other).is_empty());
        assert_eq!(world.next_deadline(), Millis::NEVER, "no rounds for one who does not see them");
        let watcher = watcher(world, "$SYS/brokers/#");
        payloads(&watcher);
        world.connect(v5("mine"));
        world.connect(v5("theirs").through(1)).lose();
        let topics = |client: &Client| -> Vec<String> { client.messages().into_iter().map(|got| got.topic).collect() };
        assert_eq!(topics(&watcher), ["$SYS/brokers/tidegate/clients/mine/connected"]);
        let theirs = "$SYS/brokers/tidegate/clients/theirs/";
        assert_eq!(topics(&other), [format!("{theirs}connected"), format!("{theirs}disconnected")]);
        other.lose();
        world.connect(v5("theirs").through(1)).lose();
        watcher.expect_nothing();
    });
}

#[test]
fn events_tell_client_ids_that_are_no_topic_levels() {
    in_one_process(|world| {
        let watcher = watcher(world, "$SYS/brokers/tidegate/clients/+/connected");
        payloads(&watcher);
        for (name, level, json) in [
            ("a/b", "a_b", "a/b"),
            ("#", "_", "#"),
            ("$SYS/+", "$SYS__", "$SYS/+"),
            ("\"quoted\" \\", "\"quoted\" \\", "\\\"quoted\\\" \\\\"),
            ("käse 🧀", "käse 🧀", "käse 🧀"),
        ] {
            world.connect(v5(name));
            let got = watcher.expect_message();
            assert_eq!(got.topic, format!("$SYS/brokers/tidegate/clients/{level}/connected"));
            assert_eq!(got.text(), format!("{{\"clientid\":\"{json}\",\"ts\":{}}}", world.now().unix));
        }
        // A long one has room, too.
        let long = "x".repeat(1024);
        world.connect(v5(&long));
        assert_eq!(watcher.expect_message().topic.len(), 1024 + "$SYS/brokers/tidegate/clients//connected".len());
    });
}

#[test]
fn events_may_be_switched_off() {
    everywhere_with(
        |settings| settings.sys_events = false,
        |world| {
            let watcher = watcher(world, "$SYS/brokers/#");
            world.connect(v5("a")).lose();
            assert!(payloads(&watcher).is_empty());
        },
    );
}

#[test]
fn every_reason_for_which_messages_are_dropped_is_listed() {
    in_one_process_with(
        |settings| settings.queue.max_messages = 1,
        |world| {
            let away = world.connect(v5("away").lasting());
            away.subscribe("t", AtLeastOnce);
            away.lose();
            let publisher = world.connect(v5("p"));
            publisher.publish(message("t", "kept").qos1());
            publisher.publish(message("t", "too many").qos1());
            publisher.publish(message("t", "away"));
            let small = world.connect(v5("small").max_packet(64));
            small.subscribe("large", AtMostOnce);
            publisher.publish(message("large", vec![0; 100]));
            let watcher = watcher(world, "$SYS/broker/publish/messages/dropped/+");
            let got = values(&watcher);
            let prefix = "$SYS/broker/publish/messages/dropped/";
            let listed: Vec<&str> = got.keys().filter_map(|topic| topic.strip_prefix(prefix)).collect();
            assert_eq!(listed, ["offline_qos0", "queue_full_drop_newest", "subscriber_packet_limit"]);
            assert!(got.values().all(|count| count == "1"), "{got:?}");
        },
    );
}

#[test]
fn values_are_retained_until_the_last_watcher_leaves() {
    in_one_process(|world| {
        let first = watcher(world, "$SYS/broker/version");
        payloads(&first);
        let second = world.connect(v5("second"));
        second.subscribe("$SYS/broker/clients/total", AtMostOnce);
        let got = second.expect_message();
        assert!(got.retain && got.topic.ends_with("clients/total"), "{got:?}");
        first.lose();
        world.advance(seconds(10));
        assert_eq!(payloads(&second).len(), 1, "one is still there");
        second.lose();
        assert_eq!((world.gauges().retained_messages, world.next_deadline()), (0, Millis::NEVER));
    });
}

#[test]
fn sys_values_do_not_count_towards_the_retained_limit() {
    everywhere_with(
        |settings| settings.retained.max_messages = 3,
        |world| {
            let publisher = world.connect(v5("p"));
            for number in 0..3 * world.shards() {
                let topic = world.name_on(number, &format!("t{number}-"));
                publisher.publish(message(&topic, "x").qos1().retain());
            }
            let watcher = watcher(world, "$SYS/broker/clients/+");
            assert!(!payloads(&watcher).is_empty(), "they come all the same");
            world.advance(seconds(30));
            assert_eq!(world.counters().dropped_total(), 0);
        },
    );
}

#[test]
fn no_value_is_kept_where_nothing_is_retained() {
    everywhere_with(
        |settings| settings.retained.available = false,
        |world| {
            let watcher = watcher(world, "$SYS/broker/uptime");
            assert_eq!(payloads(&watcher).len(), 1);
            assert_eq!(world.gauges().retained_messages, 0);
        },
    );
}

#[test]
fn a_report_that_comes_after_its_round_is_not_added_to_the_next() {
    let world = World::new(3);
    world.connect(v5(&world.name_on(1, "one")));
    world.connect(v5(&world.name_on(2, "two")));
    let watcher = world.connect(v5(&world.name_on(0, "watcher")));
    world.hold(1, 0);
    watcher.subscribe_later("$SYS/broker/clients/connected");
    // Two rounds begin before shard 1 has reported for the first.
    world.advance(seconds(10));
    world.release(1, 0);
    watcher.expect(tidegate_mqtt::PacketType::SubAck);
    assert_eq!(watcher.payloads(), ["3"]);
    world.advance(seconds(10));
    assert_eq!(watcher.payloads(), ["3"]);
}

/// Three nodes with names of their own, and a client on each.
fn three_named() -> (World, Vec<Client>) {
    let world = World::cluster(3, 1, |settings| settings.node_name = "n-".into());
    let clients = (0..3).map(|node| world.connect(v5(&world.name_on(node, "client ")))).collect();
    (world, clients)
}

#[test]
fn numbers_of_a_cluster_are_sums_with_each_node() {
    let (world, clients) = three_named();
    clients[1].publish(message("t", "12345").qos1());
    let watcher = watcher(&world, "$SYS/#");
    let values = values(&watcher);
    let value = |topic: &str| values.get(&format!("$SYS/{topic}")).map_or("", String::as_str);
    assert_eq!((value("broker/clients/connected"), value("broker/publish/bytes/received")), ("4", "5"));
    assert_eq!((value("brokers"), value("brokers/n-1/state")), ("n-0,n-1,n-2", "running"));
    let received: Vec<_> = (0..3).map(|node| value(&format!("brokers/n-{node}/publish/messages/received"))).collect();
    assert_eq!(received, ["0", "1", "0"]);
    let connected = (0..3).map(|node| value(&format!("brokers/n-{node}/clients/connected")).parse::<u64>().unwrap());
    assert_eq!(connected.sum::<u64>(), 4);
}

#[test]
fn sums_of_a_cluster_leave_a_dead_node_out() {
    let (world, _clients) = three_named();
    let watcher = world.connect(v5(&world.name_on(0, "watcher ")));
    watcher.send_subscribe(&[("$SYS/broker/clients/connected", SubscriptionOptions::new(AtMostOnce))], None);
    world.advance(0);
    let mut first = payloads(&watcher);
    first.dedup();
    assert_eq!(first, ["4"]);
    world.end_node(2);
    world.advance(seconds(41));
    assert_eq!(payloads(&watcher), ["3", "3", "3", "3"], "there is no link to it");
    watcher.send_subscribe(&[("$SYS/brokers/n-2/#", SubscriptionOptions::new(AtMostOnce))], None);
    world.advance(0);
    let told = self::values(&watcher);
    assert_eq!(told.get("$SYS/brokers/n-2/state").map(String::as_str), Some("silent"), "{told:?}");
    assert_eq!(told.len(), 1, "its values are not retained");
}

#[test]
fn a_round_does_not_wait_long_for_a_silent_node() {
    let (world, _clients) = three_named();
    let watcher = world.connect(v5(&world.name_on(0, "watcher ")));
    world.hold(1, 0);
    watcher.send_subscribe(&[("$SYS/broker/clients/connected", SubscriptionOptions::new(AtMostOnce))], None);
    world.advance(499);
    assert_eq!(payloads(&watcher), Vec::<String>::new());
    world.advance(1);
    let mut first = payloads(&watcher);
    first.dedup();
    assert_eq!(first, ["3"], "that of the silent node is not known");
    world.release(1, 0);
    world.advance(seconds(10));
    assert_eq!(payloads(&watcher).last().map(String::as_str), Some("4"));
    world.advance(seconds(10));
    assert_eq!(payloads(&watcher), ["4"], "rounds keep their interval");
}
