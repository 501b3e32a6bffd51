//! Two connections with one client id: the newer one wins.

use tidegate_engine::Reason;
use tidegate_mqtt::QoS::AtLeastOnce;
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

#[test]
fn a_newer_connection_takes_over_wherever_it_comes_in() {
    everywhere(|world| {
        for shard in 0..world.shards() {
            let name = format!("client {shard}");
            let first = world.connect(v5(&name).lasting().accept_on(shard));
            let old = world.connect(v311(&format!("{name} old")).accept_on(shard));
            let second = world.connect(v5(&name).lasting().accept_on(0));
            first.expect_disconnect(ReasonCode::SessionTakenOver);
            assert!(second.session_present());
            let newer = world.connect(v311(&format!("{name} old")).accept_on(0));
            assert_eq!(old.expect_closed(), Reason::SessionTakenOver);
            newer.ping();
        }
    });
}

#[test]
fn messages_in_flight_move_to_the_newer_connection() {
    everywhere(|world| {
        let first = world.connect(v5("a").lasting().manual());
        first.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "1").qos1());
        first.expect_publish("t", "1");
        let second = world.connect(v5("a").lasting().manual());
        assert!(second.expect_publish("t", "1").dup);
        publisher.publish(message("t", "2").qos1());
        second.expect_publish("t", "2");
        first.expect_disconnect(ReasonCode::SessionTakenOver);
    });
}

#[test]
fn a_clean_takeover_forgets_the_session() {
    everywhere(|world| {
        let first = world.connect(v5("a").lasting());
        first.subscribe("t", AtLeastOnce);
        let second = world.connect(v5("a"));
        first.expect_disconnect(ReasonCode::SessionTakenOver);
        assert!(!second.session_present());
        world.connect(v5("p")).publish(message("t", "x").qos1());
        second.expect_nothing();
    });
}

#[test]
fn a_session_that_ends_with_its_connection_is_not_taken_over() {
    everywhere(|world| {
        let first = world.connect(v5("a"));
        first.subscribe("t", AtLeastOnce);
        let second = world.connect(v5("a").clean(false));
        first.expect_disconnect(ReasonCode::SessionTakenOver);
        assert!(!second.session_present());
    });
}

#[test]
fn a_takeover_publishes_the_will_of_the_older_connection() {
    everywhere(|world| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("wills/#", AtLeastOnce);
        let _old = world.connect(v311("a").will(message("wills/a", "gone").qos1()));
        let _new = world.connect(v311("a"));
        watcher.expect_publish("wills/a", "gone");
        let _old = world.connect(v5("b").lasting().will(message("wills/b", "gone").qos1()));
        let _new = world.connect(v5("b").lasting());
        watcher.expect_publish("wills/b", "gone");
        watcher.expect_nothing();
    });
}

#[test]
fn a_takeover_that_resumes_the_session_stops_a_delayed_will() {
    everywhere(|world| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("wills/#", AtLeastOnce);
        let _old = world.connect(v5("a").lasting().will(message("wills/a", "gone").delay(10)));
        let new = world.connect(v5("a").lasting());
        world.advance(minutes(1));
        watcher.expect_nothing();
        new.ping();
        // A clean start ends the session, and with it the wait.
        let _old = world.connect(v5("b").lasting().will(message("wills/b", "gone").delay(10)));
        let _new = world.connect(v5("b"));
        watcher.expect_publish("wills/b", "gone");
    });
}

#[test]
fn a_takeover_leaves_the_will_of_the_newer_connection() {
    everywhere(|world| {
        let watcher = world.connect(v5("watcher"));
        watcher.subscribe("wills/#", AtLeastOnce);
        let _old = world.connect(v5("a").lasting().will(message("wills/a", "old").delay(5)));
        let new = world.connect(v5("a").lasting().will(message("wills/a", "new")));
        watcher.expect_nothing();
        new.lose();
        watcher.expect_publish("wills/a", "new");
        world.advance(minutes(1));
        watcher.expect_nothing();
    });
}

#[test]
fn repeated_takeovers_leave_nothing_behind() {
    everywhere(|world| {
        for number in 0..20 {
            let client = world.connect(v5("a").lasting());
            assert_eq!(client.session_present(), number > 0);
            client.subscribe("t", AtLeastOnce);
        }
        let gauges = world.gauges();
        assert_eq!((gauges.connections, gauges.sessions_connected, gauges.subscriptions), (1, 1, 1));
        assert_eq!(world.counters().disconnects[Reason::SessionTakenOver.number()], 19);
    });
}

#[test]
fn two_that_come_at_once_end_with_one() {
    for seed in 0..20 {
        let world = World::seeded(3, seed, &format!("two at once, seed {seed}"), |_| {});
        let clients: Vec<Client> = (0..4)
            .map(|number| {
                let connecting = v5("same").lasting().accept_on(number % 3);
                let client = world.open(&connecting);
                client.send_bytes(&connecting.encode());
                client
            })
            .collect();
        world.run();
        let open = clients.iter().filter(|client| client.closed().is_none()).count();
        assert_eq!(open, 1, "seed {seed}");
        assert_eq!(world.gauges().sessions_connected, 1, "seed {seed}");
    }
}
