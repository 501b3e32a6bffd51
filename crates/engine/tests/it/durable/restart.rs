//! The state after the process has died: no debt and no time is lost.

use std::collections::BTreeMap;

use tidegate_engine::describe;
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};
use tidegate_mqtt::{Packet, ReasonCode, SubscriptionOptions};

use super::*;
use crate::interrupted::{exchange_ends_once, messages_in_flight, open_exchange};

#[test]
fn debts_survive_a_restart_with_any_number_of_shards() {
    for (from, to) in RESTARTS {
        let world = stored(from);
        everything(&world);
        let before = owed(&world);
        let sum = |pick: fn(&Owed) -> u64| before.iter().map(pick).sum::<u64>();
        assert!(sum(|owed| owed.queued) > 4 && sum(|owed| owed.retained) == 2 && sum(|owed| owed.wills) == 2);
        assert!(sum(|owed| owed.await_pub_ack) > 0 && sum(|owed| owed.await_pub_rec) > 0);
        assert_eq!((sum(|owed| owed.await_pub_comp), sum(|owed| owed.await_pub_rel)), (1, 3));
        // Twice: restored records are stored as well as written ones.
        for shards in [to, from] {
            world.crash(Crash::now(shards));
            let after = owed(&world);
            let differ = before.iter().zip(&after).filter(|(before, after)| before != after);
            let differ: Vec<_> = differ.collect();
            assert!(differ.is_empty(), "{from} to {to} shards, now {shards}: {differ:#?}");
        }
    }
}

#[test]
fn messages_come_whole_and_in_their_order() {
    restarted(0, everything, |world, ()| {
        let away = world.connect(v311("away").lasting());
        let got = away.messages();
        let lens: Vec<usize> =
            got.iter().filter(|got| got.topic.starts_with("t/")).map(|got| got.payload.len()).collect();
        assert_eq!(lens, [1, 3_501, 7_001, 10_501, 14_001, 17_501]);
        assert!(got.iter().any(|got| got.topic == "s/1" && got.text() == "dealt"));
        let slow = world.connect(v5("slow").lasting().manual().receive_maximum(4));
        let got = slow.messages_among_others();
        assert_eq!(got.len(), 3, "and a PUBREL");
        assert!(got.iter().all(|got| got.dup && got.subscription_ids == [77]));
        assert_eq!(got[0].user_properties, [("name".into(), "value".into())]);
        assert_eq!(got[0].expiry, Some(10_000));
        slow.puback(got[0].id.unwrap());
        let next = slow.expect_message();
        assert_eq!((next.payload.len(), next.dup), (14_001, false));
    });
}

#[test]
fn messages_in_flight_keep_state_and_packet_id() {
    restarted(0, messages_in_flight, |world, ()| {
        let client = world.connect(v311("a").lasting().manual());
        assert!(client.session_present());
        let arrivals: Vec<_> = std::iter::from_fn(|| client.take_arrival()).collect();
        let first = arrivals[0].delivered().unwrap();
        assert_eq!((first.dup, first.id, first.qos, first.text()), (true, Some(id(1)), AtLeastOnce, "1".into()));
        let second = arrivals[1].delivered().unwrap();
        assert_eq!((second.dup, second.id, second.text()), (true, Some(id(2)), "2".into()));
        assert!(matches!(arrivals[2].packet(), Packet::PubRel(release) if release.packet_id == id(3)));
        let queued = arrivals[3].delivered().unwrap();
        assert!(!queued.dup && ![Some(id(1)), Some(id(2)), Some(id(3))].contains(&queued.id), "{queued:?}");
        assert_eq!(arrivals.len(), 4);
    });
}

#[test]
fn a_qos_2_message_is_taken_once_despite_a_crash() {
    restarted(0, open_exchange, |world, ()| exchange_ends_once(world));
}

#[test]
fn only_present_subscriptions_are_restored_with_options() {
    restarted(
        0,
        |world| {
            let client = world.connect(v5("a").lasting());
            let options = SubscriptionOptions { retain_as_published: true, ..SubscriptionOptions::new(AtLeastOnce) };
            client.subscribe_with("kept/+", options, Some(1));
            let options = SubscriptionOptions { no_local: true, ..SubscriptionOptions::new(AtLeastOnce) };
            client.subscribe_with("own", options, Some(3));
            client.subscribe("gone", AtLeastOnce);
            client.unsubscribe("gone");
            client.subscribe("$share/g/gone", AtLeastOnce);
            client.unsubscribe("$share/g/gone");
        },
        |world, ()| {
            let gauges = world.gauges();
            assert_eq!((gauges.subscriptions, gauges.shared_subscriptions), (2, 0));
            let client = world.connect(v5("a").lasting());
            for shard in 0..world.shards() {
                let publisher = world.connect(v5(&world.name_on(shard, "p")));
                publisher.publish(message("kept/1", "x").qos2().retain());
                let got = client.expect_publish("kept/1", "x");
                assert_eq!((got.qos, got.retain, &got.subscription_ids[..]), (AtLeastOnce, true, &[1][..]));
            }
            assert_eq!(client.publish(message("own", "z").qos1()), ReasonCode::Success);
            client.expect_nothing();
        },
    );
}

#[test]
fn members_of_a_shared_group_meet_again() {
    restarted(
        0,
        |world| {
            for name in ["a", "b", "c"] {
                world.absent_subscriber(v5(name).lasting(), "$share/g/t", AtLeastOnce);
            }
            let publisher = world.connect(v5("p"));
            for number in 0..3 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            publisher.disconnect();
        },
        |world, ()| {
            assert_eq!(world.gauges().shared_subscriptions, 3);
            let members: Vec<Client> = ["a", "b"].map(|name| world.connect(v5(name).lasting())).into();
            let waited: Vec<String> = members.iter().flat_map(Client::payloads).collect();
            assert_eq!(waited.len(), 2, "one each, as they were dealt");
            world.connect(v5("c")).disconnect();
            let returned: Vec<String> = members.iter().flat_map(Client::payloads).collect();
            let mut all = [waited, returned].concat();
            all.sort();
            assert_eq!(all, ["0", "1", "2"]);
            let publisher = world.connect(v5("p"));
            for number in 0..6 {
                publisher.publish(message("t", number.to_string()).qos1());
            }
            assert_eq!(members.iter().map(|member| member.payloads().len()).collect::<Vec<_>>(), [3, 3]);
        },
    );
}

#[test]
fn a_restart_keeps_or_restarts_the_expiry_of_sessions() {
    for away in [0, 30, 50] {
        restarted(
            seconds(away),
            |world| {
                world.connect(v5("away").expiry(60)).lose();
                world.connect(v5("there").expiry(60));
                world.advance(seconds(5));
            },
            |world, ()| {
                assert_eq!(world.gauges().sessions_disconnected, 2);
                world.advance(seconds(55 - away) - 1);
                assert_eq!(world.gauges().sessions_disconnected, 2, "{away}");
                world.advance(2);
                assert_eq!(world.gauges().sessions_disconnected, 1, "{away}");
                world.advance(seconds(3 + away));
                assert_eq!(world.gauges().sessions_disconnected, 1, "{away}");
                world.advance(seconds(2));
                assert_eq!(world.gauges().sessions_disconnected, 0, "{away}");
            },
        );
    }
}

#[test]
fn a_session_whose_time_is_over_is_gone_for_good() {
    restarted(
        minutes(2),
        |world| {
            world.absent_subscriber(v5("a").expiry(60), "t", AtLeastOnce);
        },
        |world, ()| {
            world.run();
            assert_eq!(world.gauges().sessions_disconnected, 0);
            world.crash(Crash { stepped: -120_000, ..Crash::now(world.shards()) });
            assert!(!world.connect(v5("a").lasting()).session_present(), "also when the clock is set back");
        },
    );
}

#[test]
fn a_stepped_wall_clock_only_moves_the_end() {
    for stepped in [-3_000_000_000_i64, -3_600_000, 3_600_000, 3_000_000_000_000] {
        let world = stored(2);
        everything(&world);
        world.crash(Crash { stepped, ..Crash::now(3) });
        world.run();
        let there = world.connect(v5("slow").lasting());
        assert!(there.session_present(), "it was connected, so its time starts again");
        world.advance(minutes(1));
        world.crash(Crash { stepped: -stepped, ..Crash::now(1) });
        world.run();
    }
}

#[test]
fn a_restart_publishes_wills_and_keeps_their_delays() {
    restarted(
        seconds(5),
        |world| {
            world.absent_subscriber(v5("watcher").lasting(), "w/#", AtLeastOnce);
            world.connect(v5("waits").lasting().will(message("w/waits", "gone").qos1().delay(60).expiry(30))).lose();
            world.advance(seconds(20));
            world.connect(v5("there").lasting().will(message("w/there", "gone").qos1()));
            world.connect(v5("delays").lasting().will(message("w/delays", "gone").qos1().delay(50)));
            world.connect(v5("returns").lasting().will(message("w/returns", "gone").qos1().delay(50)));
            world.connect(v5("calm").lasting().will(message("w/calm", "gone").qos1())).disconnect();
        },
        |world, ()| {
            let watcher = world.connect(v5("watcher").lasting());
            assert_eq!(watcher.expect_message().topic, "w/there");
            world.connect(v5("returns").lasting());
            world.advance(seconds(35) - 1);
            watcher.expect_nothing();
            world.advance(1);
            let got = watcher.expect_message();
            assert_eq!((&got.topic[..], got.expiry), ("w/waits", Some(30)));
            world.advance(seconds(20));
            assert_eq!(watcher.expect_message().topic, "w/delays");
            world.advance(minutes(10));
            watcher.expect_nothing();
            world.crash(Crash::now(world.shards()));
            world.run();
            let watcher = world.connect(v5("watcher").lasting());
            world.advance(minutes(1));
            watcher.expect_nothing();
        },
    );
}

#[test]
fn a_restart_publishes_the_will_of_a_clean_session_once() {
    restarted(
        seconds(5),
        |world| {
            world.absent_subscriber(v5("watcher").lasting(), "w/#", AtLeastOnce);
            world.connect(v5("there").will(message("w/there", "gone").qos1().delay(50)));
            world.connect(v5("state").will(message("w/state", "off").retain()));
            world.connect(v5("unkept").will(message("w/unkept", "gone")));
            world.connect(v5("calm").will(message("w/calm", "gone").qos1())).disconnect();
            world.connect(v5("lost").will(message("w/lost", "gone").qos1())).lose();
            world.connect(v5("again").will(message("w/again", "old").qos1()));
            // The first connection ends, and its will is published.
            world.connect(v5("again").will(message("w/again", "new").qos1()));
        },
        |world, ()| {
            let watcher = world.connect(v5("watcher").lasting());
            let mut got: Vec<_> = watcher.messages().into_iter().map(|got| (got.topic.clone(), got.text())).collect();
            got.sort();
            let expected =
                [("w/again", "new"), ("w/again", "old"), ("w/lost", "gone"), ("w/state", "off"), ("w/there", "gone")];
            assert_eq!(got, expected.map(|(topic, text)| (topic.to_owned(), text.to_owned())));
            let reader = world.connect(v5("reader"));
            reader.subscribe("w/state", AtMostOnce);
            assert_eq!(reader.payloads(), ["off"]);
            assert!(!world.connect(v5("there").lasting()).session_present());
            world.crash(Crash::now(world.shards()));
            world.run();
            world.connect(v5("watcher").lasting()).expect_nothing();
        },
    );
}

#[test]
fn a_restart_publishes_the_will_of_a_node_once() {
    for (from, to) in RESTARTS {
        let world = stored_with(from, crate::addresses::open);
        world.absent_subscriber(v5("watcher").lasting(), "w/#", AtLeastOnce);
        for node in [v5("node"), v311("node")] {
            world.connect(node.will(message("w/node", "gone").qos1()));
            world.crash(Crash::now(to));
            let watcher = world.connect(v5("watcher").lasting());
            assert_eq!(watcher.payloads(), ["gone"], "{from} to {to} shards");
            watcher.lose();
        }
        world.crash(Crash::now(to));
        world.connect(v5("watcher").lasting()).expect_nothing();
    }
}

#[test]
fn messages_expire_while_the_process_is_down() {
    restarted(
        seconds(30),
        |world| {
            world.absent_subscriber(v5("a").lasting(), "t", AtLeastOnce);
            let publisher = world.connect(v5("p"));
            for expiry in [20, 60] {
                publisher.publish(message("t", expiry.to_string()).qos1().expiry(expiry));
                publisher.publish(message(&format!("r/{expiry}"), "kept").qos1().expiry(expiry).retain());
            }
            publisher.publish(message("t", "for ever").qos1());
            world.advance(seconds(5));
        },
        |world, ()| {
            let client = world.connect(v5("a").lasting());
            let got = client.messages();
            assert_eq!(
                got.iter().map(|got| (got.text(), got.expiry)).collect::<Vec<_>>(),
                [("60".into(), Some(25)), ("for ever".into(), None)]
            );
            client.subscribe("r/#", AtLeastOnce);
            let got = client.messages();
            assert_eq!(got.iter().map(|got| (&got.topic[..], got.expiry)).collect::<Vec<_>>(), [("r/60", Some(25))]);
            world.advance(seconds(26));
            world.crash(Crash { swept: true, ..Crash::now(1) });
            assert_eq!(world.gauges().retained_messages, 0);
            let left = world.pairs().iter().filter_map(|(key, value)| describe(key, value)).collect::<Vec<_>>();
            assert!(left.iter().all(|pair| !pair.contains("retained")), "{left:?}");
        },
    );
}

#[test]
fn no_number_is_used_twice_whatever_died_in_between() {
    let world = stored(3);
    let mut sessions: BTreeMap<String, String> = BTreeMap::new();
    let mut bodies: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..12_u16 {
        let clients: Vec<Client> = (0..4)
            .map(|number| {
                let client = world.connect(v5(&format!("round {round} client {number}")).lasting());
                client.subscribe("t/#", AtLeastOnce);
                client.lose();
                client
            })
            .collect();
        let publisher = world.connect(v5("p"));
        publisher.publish(message(&format!("t/{round}"), "x").qos1());
        world.run();
        for (key, value) in world.pairs() {
            let Some(text) = describe(&key, &value) else { panic!("{key:?}") };
            let (kind, rest) = text.split_once(' ').unwrap();
            if kind == "session" && rest.contains("client") {
                let (number, client) = rest.split_once(" of ").unwrap();
                let client = client.split('"').nth(1).unwrap().to_owned();
                let before = sessions.entry(number.to_owned()).or_insert_with(|| client.clone());
                assert_eq!(*before, client, "session number {number}");
            } else if kind == "message" {
                let (number, topic) = rest.split_once(": ").unwrap();
                let before = bodies.entry(number.to_owned()).or_insert_with(|| topic.to_owned());
                assert_eq!(before, topic, "message number {number}");
            }
        }
        for client in &clients {
            world.connect(v5(client.id())).disconnect();
        }
        let shards = [1, 3, 2, 3][usize::from(round) % 4];
        // Nothing is swept, so that all parts of ended sessions are still there.
        world.crash(Crash { kept: [0, 1, usize::MAX][usize::from(round) % 3], ..Crash::now(shards) });
    }
    assert!(sessions.len() >= 40 && bodies.len() >= 6, "{} sessions, {} bodies", sessions.len(), bodies.len());
}
