//! How many messages a client may have under way, and what happens to one that sends more.

use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};
use tidegate_mqtt::{PacketType, ReasonCode};

use crate::harness::*;

#[test]
fn more_than_the_receive_maximum_ends_the_connection() {
    everywhere_with(
        |settings| settings.listeners[0].receive_maximum = 2,
        |world| {
            let client = world.connect(v5("a").manual());
            client.send_publish(message("t", "1").qos2().id(1));
            client.send_publish(message("t", "2").qos2().id(2));
            client.send_publish(message("t", "2").qos2().id(2).dup());
            for _ in 0..3 {
                client.expect(PacketType::PubRec);
            }
            client.send_publish(message("t", "free").qos(AtMostOnce));
            client.end_exchange(id(1));
            client.open_exchange(message("t", "3").qos2().id(3));
            client.send_publish(message("t", "4").qos1().id(4));
            client.expect_disconnect(ReasonCode::ReceiveMaximumExceeded);
        },
    );
}

#[test]
fn unconfirmed_qos_1_messages_count_towards_the_receive_maximum() {
    let world = World::with(2, |settings| settings.listeners[0].receive_maximum = 2);
    let (here, there) = (world.name_on(0, "p"), world.name_on(1, "s"));
    world.connect(v5(&there)).subscribe("far", AtLeastOnce);
    let publisher = world.connect(v5(&here));
    world.hold(1, 0);
    publisher.send_publish(message("far", "1").qos1());
    publisher.send_publish(message("far", "2").qos1());
    publisher.expect_nothing();
    world.release(1, 0);
    assert_eq!(publisher.answers().len(), 2);
    world.hold(1, 0);
    for _ in 0..3 {
        publisher.send_publish(message("far", "x").qos1());
    }
    publisher.expect_disconnect(ReasonCode::ReceiveMaximumExceeded);
}

#[test]
fn a_lenient_receive_maximum_spares_small_devices() {
    everywhere_with(
        |settings| {
            settings.listeners[0].receive_maximum = 2;
            settings.listeners[0].receive_maximum_lenient = true;
        },
        |world| {
            let client = world.connect(v5("a").manual());
            for number in 1..=5 {
                client.open_exchange(message("t", "x").qos2().id(number));
            }
            assert_eq!(world.counters().receive_maximum_tolerated, 3);
        },
    );
}

#[test]
fn clients_before_mqtt_5_know_no_receive_maximum() {
    everywhere_with(
        |settings| settings.listeners[0].receive_maximum = 2,
        |world| {
            let client = world.connect(v311("a").manual());
            for number in 1..=5 {
                client.open_exchange(message("t", "x").qos2().id(number));
            }
        },
    );
}

#[test]
fn the_receive_maximum_counts_messages_of_this_connection_only() {
    everywhere_with(
        |settings| settings.listeners[0].receive_maximum = 2,
        |world| {
            let first = world.connect(v5("a").lasting().manual());
            first.send_publish(message("t", "1").qos2().id(1));
            first.send_publish(message("t", "2").qos2().id(2));
            first.lose();
            // The client has forgotten them, as a device does that lost its power.
            let second = world.connect(v5("a").lasting());
            assert!(second.session_present());
            for _ in 0..5 {
                let id = id(100);
                second.send_publish(message("t", "x").qos2().id(100));
                second.expect_answer(PacketType::PubRec, id);
                second.expect_answer(PacketType::PubComp, id);
            }
            second.expect_open();
        },
    );
}
