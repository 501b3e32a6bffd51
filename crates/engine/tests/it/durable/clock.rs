//! A wall clock that was set back while no process ran gives nothing more time than it had.

use tidegate_mqtt::QoS::AtLeastOnce;

use super::*;

/// A day, milliseconds.
const DAY: i64 = 86_400_000;

/// The process ends, the clock is set back a day, and the next one begins.
fn set_back(world: &World) {
    world.crash(Crash { stepped: -DAY, ..Crash::now(world.shards()) });
    world.run();
}

#[test]
fn no_message_is_sent_with_more_expiry_than_it_came_with() {
    for memory_bytes in [1, 1_000_000] {
        let world = stored_with(2, |settings| settings.queue.memory_bytes = memory_bytes);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("kept", "retained").qos1().retain().expiry(3_600));
        world.absent_subscriber(v5("a").lasting(), "t", AtLeastOnce);
        for number in 0..10 {
            publisher.publish(message("t", number.to_string()).qos1().expiry(3_600));
        }
        world.advance(seconds(6));
        set_back(&world);
        let got = world.connect(v5("a").lasting()).messages();
        assert_eq!(got.len(), 10);
        assert!(got.iter().all(|got| got.expiry.is_some_and(|left| left <= 3_600)), "{got:?}");
        let reader = world.connect(v5("r"));
        reader.subscribe("kept", AtLeastOnce);
        let got = reader.messages();
        assert!(got.len() == 1 && got[0].expiry.is_some_and(|left| left <= 3_600), "{got:?}");
    }
}

#[test]
fn a_message_expires_in_its_time_whatever_the_clock_says() {
    let world = stored(1);
    world.absent_subscriber(v5("a").lasting(), "t", AtLeastOnce);
    world.connect(v5("p")).publish(message("t", "x").qos1().expiry(100));
    set_back(&world);
    world.advance(seconds(99));
    assert_eq!(world.gauges().queued_messages, 1);
    world.advance(seconds(2));
    assert_eq!(world.gauges().queued_messages, 0);
}

#[test]
fn no_session_lasts_longer_than_its_expiry() {
    let world = stored(1);
    world.connect(v5("a").expiry(60)).lose();
    set_back(&world);
    assert_eq!(world.gauges().sessions_disconnected, 1);
    world.advance(seconds(61));
    assert_eq!(world.gauges().sessions_disconnected, 0);
}

#[test]
fn no_mailbox_lasts_longer_than_it_may() {
    let world = stored_with(1, |settings| {
        crate::addresses::open(settings);
        settings.addresses.as_mut().unwrap().node_expiry_seconds = 100;
    });
    world.connect(v311("n")).disconnect();
    assert_eq!(world.gauges().sessions_disconnected, 1);
    set_back(&world);
    assert_eq!(world.gauges().sessions_disconnected, 1);
    world.advance(seconds(101));
    assert_eq!(world.gauges().sessions_disconnected, 0);
}

#[test]
fn no_will_is_delayed_further_than_its_delay() {
    let world = stored(1);
    world.absent_subscriber(v5("watcher").lasting(), "w", AtLeastOnce);
    world.connect(v5("a").lasting().will(message("w", "gone").qos1().delay(60).expiry(90))).lose();
    set_back(&world);
    let watcher = world.connect(v5("watcher").lasting());
    world.advance(seconds(50));
    watcher.expect_nothing();
    world.advance(seconds(11));
    let got = watcher.expect_message();
    assert!(got.text() == "gone" && got.expiry.is_some_and(|left| left <= 90), "{got:?}");
}
