//! Silent clients are found out, in one and a half times the time that was agreed.

use tidegate_engine::Reason;
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

#[test]
fn a_silent_client_ends_after_1_5_times_its_keep_alive() {
    everywhere(|world| {
        let new = world.connect(v5("new").keep_alive(10));
        let old = world.connect(v311("old").keep_alive(10));
        world.advance(seconds(15) - 1);
        new.expect_open();
        old.expect_open();
        world.advance(1);
        new.expect_disconnect(ReasonCode::KeepAliveTimeout);
        assert_eq!(old.expect_closed(), Reason::KeepAliveTimeout);
    });
}

#[test]
fn any_packet_keeps_a_client_alive() {
    everywhere(|world| {
        let client = world.connect(v5("a").keep_alive(10));
        for _ in 0..5 {
            world.advance(seconds(14));
            client.ping();
            world.advance(seconds(14));
            client.publish(message("t", "x"));
        }
        world.advance(seconds(15));
        client.expect_disconnect(ReasonCode::KeepAliveTimeout);
    });
}

#[test]
fn messages_to_a_client_do_not_keep_it_alive() {
    everywhere(|world| {
        let client = world.connect(v5("a").keep_alive(10).manual());
        client.subscribe("t", tidegate_mqtt::QoS::AtMostOnce);
        let other = world.connect(v5("b"));
        for _ in 0..3 {
            world.advance(seconds(5));
            other.publish(message("t", "x"));
        }
        while client.take_arrival().is_some_and(|arrival| arrival.delivered().is_some()) {}
        assert_eq!(client.expect_closed(), Reason::KeepAliveTimeout);
    });
}

#[test]
fn without_keep_alive_a_client_may_be_silent() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        world.advance(minutes(24 * 60));
        client.ping();
    });
}

#[test]
fn the_server_may_impose_a_keep_alive() {
    everywhere_with(
        |settings| settings.listeners[0].keep_alive_maximum = 20,
        |world| {
            let told = |client: &Client| client.connack(|ack| ack.properties.server_keep_alive);
            let none = world.connect(v5("none"));
            let long = world.connect(v5("long").keep_alive(600));
            let short = world.connect(v5("short").keep_alive(5));
            assert_eq!((told(&none), told(&long), told(&short)), (Some(20), Some(20), None));
            world.advance(millis(7499));
            short.expect_open();
            world.advance(1);
            short.expect_disconnect(ReasonCode::KeepAliveTimeout);
            world.advance(millis(22_500));
            none.expect_disconnect(ReasonCode::KeepAliveTimeout);
            long.expect_disconnect(ReasonCode::KeepAliveTimeout);
        },
    );
}

#[test]
fn silence_counts_up_to_the_time_heard() {
    let world = World::with(1, |_| ());
    let client = world.connect(v5("a").keep_alive(10));
    let connected = world.now().monotonic;
    world.skip(seconds(40));
    // The process was stopped: packets that the client has sent meanwhile are still to be read.
    world.engine(0, tidegate_engine::Engine::handle_timers);
    world.engine(0, |engine, now| engine.timing().handle_silence(now, connected.plus(seconds(15) - 1), |_| false));
    client.ping();
    world.advance(seconds(15) - 1);
    client.expect_open();
    world.advance(1);
    client.expect_disconnect(ReasonCode::KeepAliveTimeout);
}

#[test]
fn a_client_with_unread_input_is_not_silent() {
    let world = World::with(1, |_| ());
    let client = world.connect(v5("a").keep_alive(10));
    let silent = world.connect(v5("silent").keep_alive(10));
    world.skip(seconds(40));
    // A read budget is used up before its input has its turn.
    let mut asked = Vec::new();
    world.engine(0, |engine, now| {
        let asked = std::cell::RefCell::new(&mut asked);
        engine.timing().handle_silence(now, now.monotonic, |key| {
            asked.borrow_mut().push(key);
            asked.borrow().len() == 1
        });
    });
    world.run();
    assert_eq!(asked.len(), 2);
    client.expect_open();
    silent.expect_disconnect(ReasonCode::KeepAliveTimeout);
    assert!(world.next_deadline() > world.now().monotonic, "it is not asked for in each turn");
    client.ping();
    world.advance(seconds(15) - 1);
    client.expect_open();
}

#[test]
fn a_session_waits_for_unread_input() {
    let world = World::with(1, |_| ());
    let watcher = world.connect(v5("watcher"));
    watcher.subscribe("w", tidegate_mqtt::QoS::AtMostOnce);
    let client = world.connect(v5("a").expiry(10).will(message("w", "gone").delay(5)));
    let left = world.now().monotonic;
    client.lose();
    world.skip(seconds(40));
    world.engine(0, |engine, now| engine.timing().handle_silence(now, left.plus(seconds(5) - 1), |_| false));
    let again = world.connect(v5("a").clean(false).expiry(10));
    assert!(again.session_present());
    watcher.expect_nothing();
}

#[test]
fn an_idle_broker_has_nothing_to_do() {
    everywhere(|world| {
        let client = world.connect(v5("a"));
        client.subscribe("t", tidegate_mqtt::QoS::AtLeastOnce);
        client.publish(message("t", "x").qos1().retain());
        world.advance(minutes(10));
        assert_eq!(world.next_deadline(), tidegate_engine::Millis::NEVER);
    });
}

#[test]
fn who_asks_for_a_longer_keep_alive_may_be_refused() {
    everywhere_with(
        |settings| {
            settings.listeners[0].keep_alive_maximum = 60;
            settings.listeners[0].keep_alive_refuse = true;
        },
        |world| {
            for (keep_alive, refused) in [(0, true), (61, true), (60, false), (1, false)] {
                for connecting in [v311("a"), v31("b")] {
                    let mut client = world.try_connect(connecting.keep_alive(keep_alive));
                    if refused {
                        client.expect_refused(ReasonCode::ClientIdentifierNotValid);
                    } else {
                        client.expect_accepted();
                    }
                }
                world.connect(v5("new").keep_alive(keep_alive)).expect_open();
            }
        },
    );
}
