//! Connections that continue at the new home of their client: the client notices nothing.

use std::sync::Arc;

use tidegate_engine::{Holding, LeftConnection, NotContinued, TenantLedger};

use super::*;

/// Lets a connection leave, moves everything after `meanwhile`, and lets the connection continue.
fn continued(here: &World, client: &Client, meanwhile: impl FnOnce()) -> (World, Client) {
    here.run();
    let left = client.leave().expect("a connection at rest");
    meanwhile();
    let there = elsewhere(here, 2, millis(30));
    move_all(here, &there);
    let client = client.continue_at(&there, left).expect("an expected connection");
    (there, client)
}

#[test]
fn a_continued_connection_gets_nothing_twice() {
    for connecting in [v5("a").lasting(), v311("a").lasting(), v5("a"), v311("a")] {
        let here = World::new(1);
        let client = here.connect(connecting.manual());
        client.subscribe("t", ExactlyOnce);
        let publisher = here.connect(v5("p"));
        for (payload, qos) in [("1", AtLeastOnce), ("2", ExactlyOnce), ("3", ExactlyOnce)] {
            publisher.publish(message("t", payload).qos(qos));
        }
        assert_eq!(client.payloads(), ["1", "2", "3"]);
        client.pubrec(id(3));
        client.expect(PacketType::PubRel);
        let (there, client) = continued(&here, &client, || {
            publisher.publish(message("t", "kept").qos1());
            publisher.publish(message("t", "also"));
        });
        let kept = client.expect_publish("t", "kept");
        assert!(!kept.dup && kept.id == Some(id(4)), "{kept:?}");
        client.expect_publish("t", "also");
        client.expect_nothing();
        client.puback(id(1));
        client.pubrec(id(2));
        client.expect(PacketType::PubRel);
        client.pubcomp(id(2));
        client.pubcomp(id(3));
        client.puback(id(4));
        client.ping();
        assert_eq!(there.gauges().inflight_messages, 0);
        there.connect(v5("q")).publish(message("t", "new").qos1());
        client.expect_publish("t", "new");
    }
}

#[test]
fn packets_and_aliases_of_a_continued_connection_go_on() {
    let here = World::with(1, |settings| {
        settings.listeners[0].topic_alias_maximum = 5;
        settings.listeners[0].topic_alias_maximum_out = 5;
    });
    let client = here.connect(v5("a").aliases(5).manual());
    client.subscribe("in/#", AtLeastOnce);
    client.send_publish(message("out/long/topic", "1").qos1().alias(1));
    client.expect(PacketType::PubAck);
    here.connect(v5("p")).publish(message("in/x", "1").qos1());
    let first = client.expect_publish("in/x", "1");
    client.puback(first.id.unwrap());
    // A QoS 2 exchange and half a packet are under way.
    client.open_exchange(message("out/2", "once").qos2().id(9));
    let whole = message("", "half and half").qos1().alias(1).id(10).encode(tidegate_mqtt::Version::V5);
    client.send_bytes(&whole[..9]);
    here.run();
    let left = client.leave().expect("a connection at rest");
    assert_eq!(left.0.tail, whole[..9]);
    let there = elsewhere(&here, 1, millis(30));
    move_all(&here, &there);
    let client = client.continue_at(&there, left).unwrap();
    let watcher = there.connect(v5("w"));
    watcher.subscribe("out/#", AtLeastOnce);
    client.send_bytes(&whole[9..]);
    client.expect(PacketType::PubAck);
    watcher.expect_publish("out/long/topic", "half and half");
    client.end_exchange(id(9));
    there.connect(v5("q")).publish(message("in/x", "2").qos1());
    client.expect_publish("in/x", "2");
}

#[test]
fn a_connection_leaves_only_when_nothing_is_under_way() {
    let here = World::new(1);
    let client = here.connect(v311("a"));
    client.subscribe("t", AtMostOnce);
    client.set_window(3);
    here.connect(v5("p")).publish(message("t", "waits").qos1());
    assert!(client.leave().is_none(), "a part of its output is not written");
    client.set_window(usize::MAX);
    here.run();
    client.expect_publish("t", "waits");
    let (_, client) = continued(&here, &client, || {});
    client.ping();
}

/// It would count as a client at the new home, where the node starts the bridge again.
#[test]
fn a_bridge_of_the_broker_itself_does_not_leave() {
    let here = World::new(1);
    let (own, other) = (here.connect(v5("bridge.own").lasting().own()), here.connect(v5("bridge.other").lasting()));
    here.run();
    assert!(own.leave().is_none());
    assert!(other.leave().is_some());
}

#[test]
fn a_client_that_has_returned_is_not_continued() {
    for connecting in [v5("a").lasting(), v311("a")] {
        let here = World::new(1);
        let client = here.connect(connecting.clone());
        here.run();
        let left = client.leave().unwrap();
        let there = elsewhere(&here, 1, millis(30));
        let (image, tail) = (left.0.image.clone(), Vec::new());
        let early = client.continue_at(&there, (LeftConnection { image, tail }, left.1.clone()));
        assert_eq!(early.map(drop), Err(NotContinued::NotExpected), "its session is not there yet");
        move_all(&here, &there);
        there.connect(connecting).lose();
        assert_eq!(client.continue_at(&there, left).map(drop), Err(NotContinued::NotExpected));
    }
}

#[test]
fn a_session_whose_connection_does_not_continue_ends_in_time() {
    let here = World::new(1);
    let watcher = here.connect(v5("watcher").lasting());
    watcher.subscribe("w/#", AtLeastOnce);
    let gone = here.connect(v311("gone").will(message("w/gone", "w")));
    let back = here.connect(v311("back").will(message("w/back", "w")));
    here.run();
    let (_, back_left) = (gone.leave().unwrap(), back.leave().unwrap());
    here.advance(millis(200));
    watcher.expect_nothing();
    let there = elsewhere(&here, 1, millis(30));
    move_all(&here, &there);
    let watcher = there.connect(v5("watcher").lasting());
    let back = back.continue_at(&there, back_left).unwrap();
    there.advance(seconds(11));
    assert_eq!(topics(&watcher), ["w/gone"]);
    assert_eq!(there.gauges().sessions_disconnected, 0, "a clean session ends with its connection");
    back.lose();
    assert_eq!(topics(&watcher), ["w/back"]);
    there.run();
    assert_eq!(there.gauges().sessions_disconnected, 0);
}

fn topics(client: &Client) -> Vec<String> {
    client.messages().into_iter().map(|got| got.topic).collect()
}

#[test]
fn a_client_that_was_ended_on_its_way_is_not_continued() {
    let here = World::new(1);
    let client = here.connect(v5("a").lasting());
    here.run();
    let left = client.leave().unwrap();
    let there = elsewhere(&here, 1, millis(30));
    move_all(&here, &there);
    there.engine(0, |engine, now| {
        engine.control().disconnect_client(now, T, "a", tidegate_engine::Reason::AdministrativeAction)
    });
    assert_eq!(client.continue_at(&there, left).map(drop), Err(NotContinued::NotExpected));
}

/// A ledger without a place: the announced use of the old home still has its clients.
#[derive(Debug)]
struct FullLedger;

impl TenantLedger for FullLedger {
    fn claim(&self, _: TenantId, holding: Holding) -> bool {
        !matches!(holding, Holding::Connections | Holding::Sessions)
    }

    fn add(&self, _: TenantId, _: Holding, _: u64) {}

    fn release(&self, _: TenantId, _: Holding, _: u64) {}

    fn limits_rates(&self) -> bool {
        false
    }

    fn take_message(&self, _: TenantId, _: u64) -> Option<u64> {
        None
    }
}

#[test]
fn a_full_quota_refuses_no_continued_connection() {
    let here = World::new(1);
    let client = here.connect(v5("a").lasting());
    here.run();
    let left = client.leave().unwrap();
    let there = elsewhere_with(&here, 1, millis(30), |settings| settings.tenant_ledger = Some(Arc::new(FullLedger)));
    move_all(&here, &there);
    let client = client.continue_at(&there, left).expect("its old home has admitted it");
    client.ping();
}
