//! Deadlines in places whose clocks began at other times.

use super::*;

#[test]
fn a_message_expires_by_the_clock_on_the_wall() {
    for (from, to) in MOVES {
        let here = World::new(from);
        here.absent_subscriber(v5("a").lasting(), "t", AtLeastOnce);
        let publisher = here.connect(v5("p"));
        for expiry in [40, 100] {
            publisher.publish(message("t", expiry.to_string()).qos1().expiry(expiry));
        }
        here.advance(seconds(30));
        // An operator sets the clock forward: monotonic deadlines stay.
        here.step_wall_clock(3_600_000);
        let there = elsewhere(&here, to, seconds(20));
        move_all(&here, &there);
        let client = there.connect(v5("a").lasting());
        let got = client.messages();
        assert_eq!(got.iter().map(|got| (got.text(), got.expiry)).collect::<Vec<_>>(), [("100".into(), Some(50))]);
        assert_eq!(there.dropped(Reason::MessageExpired), 1);
    }
}

#[test]
fn a_step_of_the_clock_within_the_new_place_changes_nothing() {
    moved(
        seconds(10),
        |here| {
            here.absent_subscriber(v5("a").expiry(100), "t", AtLeastOnce);
            here.connect(v5("p")).publish(message("t", "x").qos1().expiry(50));
        },
        |there, ()| {
            there.step_wall_clock(-86_400_000);
            there.advance(seconds(30));
            let client = there.connect(v5("a").expiry(100).clean(false));
            assert_eq!(client.expect_publish("t", "x").expiry, Some(10));
            client.lose();
            there.step_wall_clock(86_400_000);
            there.advance(seconds(99));
            assert_eq!(there.gauges().sessions_disconnected, 1);
        },
    );
}

#[test]
fn a_session_expires_at_its_time_wherever_it_is() {
    moved(
        seconds(5),
        |here| {
            let client = here.connect(v5("a").expiry(60));
            client.subscribe("t", AtLeastOnce);
            client.lose();
            here.connect(v5("p")).publish(message("t", "x").qos1());
            here.connect(v5("for ever").expiry(u32::MAX)).lose();
            here.connect(v5("short").expiry(22)).lose();
            here.advance(seconds(20));
            // The time of a client that is connected begins when it is sent away.
            here.connect(v5("connected").expiry(60));
        },
        |there, ()| {
            assert_eq!(there.counters().sessions_expired, 1, "one expired on the way");
            there.advance(seconds(35) - 1);
            assert_eq!(there.gauges().sessions_disconnected, 3);
            there.advance(1);
            assert_eq!(there.gauges().sessions_disconnected, 2);
            assert_eq!(there.dropped(Reason::SessionExpired), 1);
            there.advance(seconds(20));
            assert_eq!(there.gauges().sessions_disconnected, 1);
            assert!(there.connect(v5("for ever").lasting()).session_present());
        },
    );
}
