//! Packets for a client whose window (Receive Maximum) is full.

use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use tidegate_mqtt::ReasonCode;

use super::numbers;
use crate::harness::*;

#[test]
fn qos_0_is_sent_to_a_client_whose_window_is_full() {
    everywhere(|world| {
        let client = world.connect(v5("s").receive_maximum(2).manual());
        client.subscribe("cmd/#", AtLeastOnce);
        client.subscribe("live/#", AtMostOnce);
        let publisher = world.connect(v5("p"));
        for number in numbers(1..=5) {
            publisher.publish(message("cmd/x", &number).qos1());
        }
        for number in numbers(10..=12) {
            publisher.publish(message("live/x", &number));
        }
        assert_eq!(client.payloads(), ["1", "2", "10", "11", "12"]);
    });
}

#[test]
fn a_topic_keeps_the_order_of_each_qos_behind_a_full_window() {
    everywhere(|world| {
        let client = world.connect(v5("s").receive_maximum(1).manual());
        client.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for number in 1..=9 {
            let text = format!("{}{number}", if number % 3 == 0 { "none " } else { "once " });
            let qos = if number % 3 == 0 { AtMostOnce } else { AtLeastOnce };
            publisher.publish_later(message("t", text).qos(qos));
        }
        world.run();
        let got = client.drain();
        let of = |start: &str| -> Vec<String> { got.iter().filter(|text| text.starts_with(start)).cloned().collect() };
        assert_eq!(got[..4], ["once 1", "none 3", "none 6", "none 9"]);
        assert_eq!(of("once"), ["once 1", "once 2", "once 4", "once 5", "once 7", "once 8"]);
    });
}

#[test]
fn qos_0_that_waited_for_the_socket_passes_a_full_window() {
    everywhere(|world| {
        let client = world.connect(v5("s").receive_maximum(1).manual());
        client.subscribe("t/#", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t/1", "in flight").qos1());
        client.expect_publish("t/1", "in flight");
        client.stop_reading();
        let large = "x".repeat(300_000);
        for number in 0..8 {
            publisher.publish_later(message("t/1", "waits").qos1());
            publisher.publish_later(message("t/0", format!("{number} {large}")));
        }
        world.run();
        assert!(world.gauges().queued_messages > 8, "some of QoS 0 wait for the socket");
        client.read();
        world.run();
        let got: Vec<String> = client.payloads().into_iter().map(|text| text[..1].to_owned()).collect();
        assert_eq!(got, numbers(0..=7));
        assert_eq!(world.gauges().queued_messages, 8);
    });
}

#[test]
fn qos_0_is_sent_while_messages_are_sent_again() {
    everywhere(|world| {
        let client = world.connect(v5("s").lasting().receive_maximum(5).manual());
        client.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for number in numbers(1..=5) {
            publisher.publish(message("t", &number).qos1());
        }
        client.lose();
        let client = world.connect(v5("s").lasting().receive_maximum(2).manual());
        assert_eq!(client.payloads(), ["1", "2"]);
        publisher.publish(message("t", "6"));
        assert_eq!(client.payloads(), ["6"]);
    });
}

/// Acknowledges messages; the engine gets all packets at once.
fn acknowledge(client: &Client, messages: &[Delivered]) {
    for message in messages {
        client.puback(message.id.expect("above QoS 0"));
    }
}

#[test]
fn each_acknowledgement_of_one_read_makes_room() {
    everywhere(|world| {
        let client = world.connect(v5("s").receive_maximum(3).manual());
        client.subscribe("t", AtLeastOnce);
        let publisher = world.connect(v5("p"));
        for number in numbers(1..=8) {
            publisher.publish(message("t", &number).qos1());
        }
        let sent = client.messages();
        acknowledge(&client, &sent);
        assert_eq!(client.payloads(), ["4", "5", "6"]);
        // An answer that comes again makes no room.
        acknowledge(&client, &sent[..2]);
        client.ping();
        client.expect_nothing();
    });
}

#[test]
fn a_wrong_acknowledgement_behind_others_ends_the_connection() {
    everywhere(|world| {
        let client = world.connect(v5("s").lasting().manual());
        client.subscribe("t", ExactlyOnce);
        let publisher = world.connect(v5("p"));
        publisher.publish(message("t", "1").qos1());
        publisher.publish(message("t", "2").qos2());
        publisher.publish(message("t", "3").qos1());
        acknowledge(&client, &client.messages());
        client.expect_disconnect(ReasonCode::ProtocolError);
        let client = world.connect(v5("s").lasting().clean(false).manual());
        assert_eq!(client.payloads(), ["2", "3"]);
    });
}
