//! A broker that stops says so.

use tidegate_engine::Reason;
use tidegate_mqtt::QoS::AtLeastOnce;
use tidegate_mqtt::{Packet, ReasonCode};

use crate::harness::*;

#[test]
fn every_client_is_disconnected_with_a_reason() {
    everywhere_with(
        |settings| settings.listeners[0].server_reference = Some("other.example".into()),
        |world| {
            let new = world.connect(v5("new"));
            let old = world.connect(v311("old"));
            let silent = world.open(&v5("silent"));
            world.shut_down();
            let arrival = new.expect_disconnect(ReasonCode::ServerShuttingDown);
            let Packet::Disconnect(disconnect) = arrival.packet() else { unreachable!() };
            assert_eq!(disconnect.server_reference, Some("other.example"));
            assert_eq!(old.expect_closed(), Reason::ServerShuttingDown);
            assert_eq!(silent.expect_closed(), Reason::ServerShuttingDown);
            assert_eq!(world.gauges().connections, 0);
            let late = world.open(&v5("late"));
            assert_eq!(late.closed(), Some(Reason::ServerShuttingDown));
        },
    );
}

#[test]
fn earlier_output_is_still_written() {
    everywhere(|world| {
        let subscriber = world.connect(v5("s"));
        subscriber.subscribe("t", AtLeastOnce);
        subscriber.stop_reading();
        let publisher = world.connect(v5("p"));
        for number in 0..5 {
            publisher.publish(message("t", number.to_string()).qos1());
        }
        subscriber.set_window(usize::MAX);
        world.shut_down();
        for number in 0..5 {
            subscriber.expect_publish("t", number.to_string());
        }
        subscriber.expect_disconnect(ReasonCode::ServerShuttingDown);
    });
}

#[test]
fn wills_are_published_where_that_is_wanted() {
    for wanted in [true, false] {
        everywhere_with(
            |settings| settings.wills_on_shutdown = wanted,
            |world| {
                world.absent_subscriber(v5("watcher").lasting(), "wills", AtLeastOnce);
                let _client = world.connect(v5("a").lasting().will(message("wills", "gone").qos1().delay(60)));
                world.shut_down();
                assert_eq!(world.gauges().queued_messages, u64::from(wanted));
            },
        );
    }
}

#[test]
fn a_server_whose_place_another_has_taken_leaves_it_the_wills() {
    everywhere(|world| {
        world.absent_subscriber(v5("watcher").lasting(), "wills", AtLeastOnce);
        let _client = world.connect(v5("a").will(message("wills", "gone").qos1()));
        for shard in 0..world.shards() {
            world.engine(shard, |engine, _| engine.control().leave_wills_to_another());
        }
        world.shut_down();
        assert_eq!(world.gauges().queued_messages, 0);
    });
}

/// Remaining clients get the wills of all others, whether their connections end before or after their own.
#[test]
fn wills_reach_the_clients_that_are_there() {
    everywhere(|world| {
        let clients: Vec<_> = (0..6)
            .map(|number| {
                let client = world.connect(v5(&format!("c{number}")).will(message("wills", number.to_string()).qos1()));
                client.subscribe("wills", AtLeastOnce);
                client
            })
            .collect();
        world.shut_down();
        for client in clients {
            let mut wills: Vec<String> = client.messages_among_others().iter().map(Delivered::text).collect();
            wills.sort();
            assert_eq!(wills, ["0", "1", "2", "3", "4", "5"]);
        }
    });
}

#[test]
fn a_stopping_server_answers_no_authentication() {
    everywhere_with(
        |settings| settings.authentication = tidegate_engine::Authentication::External,
        |world| {
            let client = world.try_connect(v5("a"));
            world.shut_down();
            assert_eq!(client.expect_closed(), Reason::ServerShuttingDown);
            world.decide(tidegate_engine::AuthOutcome::Accept(tidegate_engine::Accepted::default()));
            assert_eq!(world.gauges().sessions_connected, 0);
        },
    );
}
