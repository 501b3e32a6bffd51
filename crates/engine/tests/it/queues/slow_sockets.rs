//! Clients that do not read: their output is bounded, control packets are not dropped, and the keep-alive ends them.

use tidegate_engine::{OverflowPolicy, Reason};
use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};
use tidegate_mqtt::{PacketType, PingReq, SubscriptionOptions};

use super::policy;
use crate::harness::*;

#[test]
fn a_queue_of_a_slow_socket_is_bounded_too() {
    everywhere_with(
        |settings| {
            settings.queue.max_messages = 5;
            settings.limits.output_high_water = 1000;
        },
        |world| {
            let subscriber = world.connect(v5("s"));
            subscriber.subscribe("t", AtMostOnce);
            subscriber.stop_reading();
            let publisher = world.connect(v5("p"));
            for number in 0..100 {
                publisher.publish(message("t", format!("{number:0>100}")));
            }
            world.run();
            assert!(subscriber.output_len() < 1400, "{}", subscriber.output_len());
            assert_eq!(world.gauges().queued_messages, 5);
            subscriber.read();
            let got = subscriber.payloads();
            assert_eq!(got.len() as u64 + world.counters().dropped_total(), 100);
            assert!(got.is_sorted());
            publisher.publish(message("t", "after"));
            assert_eq!(subscriber.payloads(), ["after"]);
        },
    );
}

#[test]
fn control_packets_are_never_dropped_when_the_queue_is_full() {
    for overflow in [OverflowPolicy::DropNewest, OverflowPolicy::DropOldest, OverflowPolicy::Block] {
        everywhere_with(
            |settings| {
                policy(overflow, 2)(settings);
                settings.limits.output_high_water = 500;
            },
            |world| {
                let subscriber = world.connect(v5("s").lasting().receive_maximum(2));
                subscriber.subscribe("t", AtLeastOnce);
                subscriber.stop_reading();
                let publisher = world.connect(v5("p"));
                for number in 0..30 {
                    publisher.send_publish(message("t", format!("{number:0>100}")).qos1());
                }
                world.run();
                let own = world.connect(v5("other"));
                own.publish(message("elsewhere", "x"));
                subscriber.send_bytes(&PingReq::BYTES);
                let sub = subscriber.send_subscribe(&[("u", SubscriptionOptions::new(AtMostOnce))], None);
                subscriber.send_publish(message("v", "x").qos1().id(500));
                subscriber.send_publish(message("v", "x").qos2().id(501));
                subscriber.read();
                let mut kinds = Vec::new();
                while let Some(arrival) = subscriber.take_arrival() {
                    if arrival.packet_type() != PacketType::Publish {
                        kinds.push(arrival.packet_type());
                    }
                }
                assert_eq!(kinds, [PacketType::PingResp, PacketType::SubAck], "{sub:?}");
                let answered: Vec<_> = subscriber.answers().into_iter().map(|(kind, id, _)| (kind, id)).collect();
                assert!(answered.contains(&(PacketType::PubAck, 500)), "{answered:?}");
                assert!(answered.contains(&(PacketType::PubComp, 501)), "{answered:?}");
            },
        );
    }
}

#[test]
fn requests_of_a_client_that_never_reads_fill_no_memory() {
    everywhere_with(
        |settings| settings.limits.output_high_water = 10_000,
        |world| {
            let client = world.connect(v5("a"));
            client.stop_reading();
            for _ in 0..200 {
                client.send_bytes(&PingReq::BYTES.repeat(500));
                world.run();
            }
            assert!(client.output_len() < 50_000, "{}", client.output_len());
            assert!(client.unread_len() > 100_000, "the rest stays with the sender");
            client.read();
            let mut answers = 0;
            while client.take_arrival().is_some() {
                answers += 1;
            }
            assert_eq!(answers, 100_000);
            client.ping();
        },
    );
}

#[test]
fn a_client_that_reads_nothing_ends_by_its_keep_alive() {
    everywhere_with(
        |settings| settings.limits.output_high_water = 1000,
        |world| {
            let client = world.connect(v5("a").keep_alive(10));
            client.stop_reading();
            for _ in 0..10 {
                client.send_bytes(&PingReq::BYTES.repeat(500));
                world.run();
            }
            assert!(client.is_paused());
            world.advance(seconds(14));
            client.expect_open();
            world.advance(seconds(1));
            assert_eq!(client.closed(), Some(Reason::KeepAliveTimeout));
        },
    );
}

#[test]
fn a_slow_reader_is_alive_while_it_reads() {
    everywhere_with(
        |settings| settings.limits.output_high_water = 1000,
        |world| {
            let client = world.connect(v5("a").keep_alive(10));
            client.stop_reading();
            for _ in 0..10 {
                client.send_bytes(&PingReq::BYTES.repeat(500));
                world.run();
            }
            for _ in 0..8 {
                world.advance(seconds(10));
                client.read_bytes(100);
            }
            client.expect_open();
        },
    );
}
