//! Wills of clients whose partition moves.

use tidegate_engine::{EDGE_STOPS, ListenerSettings, NotContinued};
use tidegate_mqtt::{Disconnect, Version};

use super::*;

#[test]
fn a_moved_will_is_published_unless_its_client_returns() {
    moved(
        seconds(2),
        |here| {
            let watcher = here.connect(v5("watcher").lasting());
            watcher.subscribe("wills/#", AtLeastOnce);
            for (name, delay) in [("back", 0), ("gone", 0), ("late", 30), ("returns", 30)] {
                here.connect(v5(name).lasting().will(message(&format!("wills/{name}"), "w").qos1().delay(delay)));
            }
            here.connect(v5("calm").lasting().will(message("wills/calm", "w"))).disconnect();
            watcher
        },
        |there, watcher| {
            watcher.expect_disconnect(ReasonCode::UseAnotherServer);
            let watcher = there.connect(v5("watcher").lasting());
            there.connect(v5("back").lasting());
            there.advance(seconds(20));
            assert_eq!(topics(&watcher), ["wills/gone"], "who was moved has some time to return");
            there.connect(v5("returns").lasting());
            there.advance(seconds(20));
            assert_eq!(topics(&watcher), ["wills/late"]);
            there.advance(minutes(120));
            watcher.expect_nothing();
        },
    );
}

#[test]
fn a_will_is_published_if_its_client_is_back_before_it() {
    // The client has lost its connection, or was asked to connect again; the will has a delay or not.
    for (is_lost, delay) in [(true, 0), (true, 30), (false, 0)] {
        let here = World::new(1);
        let will = |topic: &str| message(topic, "w").qos1();
        let client = here.connect(v5("a").lasting().will(will("w/a").delay(delay)));
        here.run();
        let left = client.leave().expect("a connection at rest");
        let there = elsewhere(&here, 2, millis(30));
        move_all(&here, &there);
        let watcher = there.connect(v5("watcher"));
        watcher.subscribe("w/#", AtLeastOnce);
        let back = there.connect(v5("a").lasting().will(will("w/later")));
        watcher.expect_nothing();
        if is_lost {
            assert_eq!(client.continue_at(&there, left).err(), Some(NotContinued::NotExpected));
            there.run();
            let wanted: &[&str] = if delay == 0 { &["w/a"] } else { &[] };
            assert_eq!(topics(&watcher), wanted, "{delay}");
        } else {
            there.advance(seconds(11));
            let _ = client.continue_at(&there, left);
        }
        there.advance(minutes(1));
        watcher.expect_nothing();
        back.lose();
        assert_eq!(topics(&watcher), ["w/later"], "{is_lost}, {delay}");
    }
}

#[test]
fn a_will_waits_for_its_connection_over_several_connects() {
    let here = World::new(1);
    let client = here.connect(v5("a").lasting().will(message("w/a", "w").qos1()));
    here.run();
    let left = client.leave().expect("a connection at rest");
    let there = elsewhere(&here, 2, millis(30));
    move_all(&here, &there);
    let watcher = there.connect(v5("watcher"));
    watcher.subscribe("w/#", AtLeastOnce);
    for _ in 0..3 {
        there.connect(v5("a").lasting().clean(false)).disconnect();
    }
    assert_eq!(client.continue_at(&there, left).err(), Some(NotContinued::NotExpected));
    there.run();
    assert_eq!(topics(&watcher), ["w/a"]);
    there.advance(minutes(1));
    watcher.expect_nothing();
}

#[test]
fn a_will_is_published_after_a_move_that_was_called_off() {
    let here = World::new(1);
    let watcher = here.connect(v5("watcher"));
    watcher.subscribe("w/#", AtLeastOnce);
    let connecting = |name: &str| v5(name).lasting().will(message(&format!("w/{name}"), "w").qos1());
    for name in ["gone", "back"] {
        here.connect(connecting(name));
    }
    let partitions = ["gone", "back"].into_iter().map(|name| partition_of(T, name)).collect();
    here.engine(0, |engine, now| {
        engine.moves().hold_partitions(now, partitions, None);
        engine.moves().release_partitions(now, partitions);
    });
    here.connect(connecting("back"));
    here.advance(seconds(9));
    watcher.expect_nothing();
    here.advance(seconds(2));
    assert_eq!(topics(&watcher), ["w/gone"]);
}

fn topics(client: &Client) -> Vec<String> {
    client.messages().into_iter().map(|got| got.topic).collect()
}

#[test]
fn a_will_that_waits_already_keeps_its_time() {
    moved(
        seconds(5),
        |here| {
            here.connect(v5("a").lasting().will(message("w", "gone").qos1().retain().delay(60).expiry(30))).lose();
            here.connect(v5("b").expiry(40).will(message("w/b", "gone").delay(3600))).lose();
            here.advance(seconds(20));
        },
        |there, ()| {
            let watcher = there.connect(v5("watcher"));
            watcher.subscribe("w/#", AtLeastOnce);
            there.advance(seconds(15) - 1);
            watcher.expect_nothing();
            there.advance(1);
            assert_eq!(topics(&watcher), ["w/b"], "its session ended");
            there.advance(seconds(20) - 1);
            watcher.expect_nothing();
            there.advance(1);
            assert_eq!(watcher.expect_publish("w", "gone").expiry, Some(30));
        },
    );
}

#[test]
fn a_session_that_ends_with_its_connection_ends_as_ever() {
    for (from, to) in MOVES {
        let here = World::new(from);
        let watcher = here.connect(v311("watcher"));
        watcher.subscribe("w", AtMostOnce);
        let client = here.connect(v5("a").will(message("w", "gone").delay(60)));
        client.subscribe("t", AtLeastOnce);
        let partition = partition_of(T, "a").0;
        assert_eq!(owed(&here, partition), Owed::default());
        let image = export(&here, partition);
        client.expect_disconnect(ReasonCode::UseAnotherServer);
        if partition_of(T, "watcher").0 != partition {
            watcher.expect_publish("w", "gone");
        }
        let there = elsewhere(&here, to, 0);
        import(&there, image);
        assert_eq!(there.gauges().sessions_disconnected, 0);
    }
}

#[test]
fn a_client_whose_edge_stops_has_time_before_its_will() {
    let world = World::with(1, |settings| {
        settings.listeners.push(ListenerSettings {
            name: "relay".into(),
            relayed: true,
            ..ListenerSettings::default()
        });
    });
    let watcher = world.connect(v5("watcher"));
    watcher.subscribe("w/#", AtLeastOnce);
    let connecting = |name: &str| v5(name).lasting().will(message(&format!("w/{name}"), "w").qos1()).through(1);
    for name in ["gone", "back"] {
        let client = world.connect(connecting(name));
        client.send_bytes(&EDGE_STOPS[..1]);
        client.send_bytes(&EDGE_STOPS[1..]);
        client.expect_closed();
    }
    let lost = world.connect(connecting("lost"));
    lost.lose();
    assert_eq!(topics(&watcher), ["w/lost"], "it is gone itself");
    world.connect(connecting("back"));
    world.advance(seconds(9));
    watcher.expect_nothing();
    world.advance(seconds(2));
    assert_eq!(topics(&watcher), ["w/gone"]);
}

#[test]
fn each_connection_replaced_before_it_comes_has_its_will() {
    let here = World::new(1);
    let will = |topic: &str| message(topic, "w").qos1();
    let first = here.connect(v5("a").lasting().will(will("w/first")));
    here.run();
    let first_left = first.leave().expect("a connection at rest");
    let there = elsewhere(&here, 2, millis(30));
    move_all(&here, &there);
    let watcher = there.connect(v5("watcher"));
    watcher.subscribe("w/#", AtLeastOnce);
    let second = there.connect(v5("a").lasting().clean(false).will(will("w/second")));
    there.advance(seconds(1));
    let second_left = second.leave().expect("a connection at rest");
    let third = there.connect(v5("a").lasting().clean(false).will(will("w/third")));
    watcher.expect_nothing();
    for (client, left, wanted) in [(&second, second_left, "w/second"), (&first, first_left, "w/first")] {
        assert_eq!(client.continue_at(&there, left).err(), Some(NotContinued::NotExpected));
        there.run();
        assert_eq!(topics(&watcher), [wanted]);
    }
    there.advance(minutes(1));
    watcher.expect_nothing();
    third.lose();
    assert_eq!(topics(&watcher), ["w/third"]);
}

#[test]
fn a_disconnect_behind_a_leaving_connection_deletes_its_will() {
    for (code, has_will) in [(ReasonCode::Success, false), (ReasonCode::DisconnectWithWillMessage, true)] {
        let here = World::new(1);
        let client = here.connect(v5("a").lasting().will(message("w/a", "w").qos1()));
        here.run();
        let mut left = client.leave().expect("a connection at rest");
        let there = elsewhere(&here, 2, millis(30));
        move_all(&here, &there);
        let watcher = there.connect(v5("watcher"));
        watcher.subscribe("w/#", AtLeastOnce);
        there.connect(v5("a").lasting().clean(false));
        Disconnect::new(code).encode(Version::V5, &mut left.0.tail).expect("a short packet");
        assert_eq!(client.continue_at(&there, left).err(), Some(NotContinued::NotExpected));
        there.run();
        assert_eq!(topics(&watcher).len(), usize::from(has_will), "{code:?}");
        there.advance(minutes(1));
        watcher.expect_nothing();
    }
}
