//! Retained messages that move.

use super::*;

#[test]
fn retained_values_move_to_the_homes_of_their_topics() {
    moved(
        seconds(10),
        |here| {
            let publisher = here.connect(v5("p"));
            let other = here.connect(v5("p").through(1));
            for number in 0..100 {
                publisher.publish(message(&format!("kept/{number}"), number.to_string()).qos1().retain());
            }
            publisher.publish(message("kept/short", "x").retain().expiry(5));
            publisher.publish(message("kept/long", "y").retain().expiry(60).user("a", "b"));
            other.publish(message("kept/1", "of another tenant").qos2().retain());
        },
        |there, ()| {
            assert_eq!(there.gauges().retained_messages, 102, "one expired on the way");
            let client = there.connect(v5("c"));
            client.subscribe("kept/+", ExactlyOnce);
            let got = client.messages();
            assert_eq!(got.len(), 101);
            assert!(got.iter().all(|got| got.retain));
            let long = got.iter().find(|got| got.topic == "kept/long").unwrap();
            assert_eq!((long.expiry, long.user_properties.len()), (Some(50), 1));
            client.subscribe("kept/7", AtMostOnce);
            client.expect_publish("kept/7", "7");
            client.publish(message("kept/7", "").retain());
            let other = there.connect(v5("c").through(1));
            other.subscribe("kept/#", AtLeastOnce);
            assert_eq!(other.payloads(), ["of another tenant"]);
            there.advance(seconds(50));
            assert_eq!(there.gauges().retained_messages, 100);
        },
    );
}

#[test]
fn owed_retained_values_are_brought_in_the_new_place() {
    moved(
        seconds(1),
        |here| {
            let publisher = here.connect(v5("p"));
            for number in 0..10 {
                publisher.publish(message(&format!("kept/{number}"), number.to_string()).qos1().retain());
            }
            let client = here.connect(v5("a").lasting().manual().receive_maximum(1));
            client.stop_reading();
            client.send_subscribe(&[("kept/#", SubscriptionOptions::new(AtLeastOnce))], None);
            here.run();
        },
        |there, ()| {
            let client = there.connect(v5("a").lasting());
            let mut got = client.payloads();
            got.sort();
            got.dedup();
            assert_eq!(got.len(), 10, "{got:?}");
        },
    );
}
