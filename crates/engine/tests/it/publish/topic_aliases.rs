//! Topic aliases, of clients and of the server.

use tidegate_mqtt::QoS::{AtLeastOnce, AtMostOnce};
use tidegate_mqtt::ReasonCode;

use crate::harness::*;

#[test]
fn a_client_may_name_topics_by_aliases() {
    everywhere(|world| {
        let subscriber = world.connect(v5("subscriber"));
        subscriber.subscribe("#", AtMostOnce);
        let publisher = world.connect(v5("publisher"));
        publisher.publish(message("a/long/topic", "1").alias(1));
        publisher.publish(message("another", "2").alias(32));
        publisher.publish(message("", "3").alias(1));
        publisher.publish(message("", "4").alias(32).qos1());
        publisher.publish(message("moved", "5").alias(1));
        publisher.publish(message("", "6").alias(1));
        let got: Vec<_> = subscriber.messages().iter().map(|got| (got.topic.clone(), got.text(), got.alias)).collect();
        let wanted = [
            ("a/long/topic", "1"),
            ("another", "2"),
            ("a/long/topic", "3"),
            ("another", "4"),
            ("moved", "5"),
            ("moved", "6"),
        ];
        assert_eq!(got, wanted.map(|(topic, payload)| (topic.to_owned(), payload.to_owned(), None)));
    });
}

#[test]
fn aliases_end_with_their_connection() {
    everywhere(|world| {
        let first = world.connect(v5("a").lasting());
        first.publish(message("t", "1").alias(1));
        first.lose();
        let second = world.connect(v5("a").lasting());
        second.send_publish(message("", "2").alias(1));
        second.expect_disconnect(ReasonCode::TopicAliasInvalid);
    });
}

#[test]
fn an_alias_out_of_range_or_never_set_ends_the_connection() {
    everywhere(|world| {
        for wrong in [message("t", "x").alias(33), message("", "x").alias(33), message("", "x").alias(2)] {
            let client = world.connect(v5("a"));
            client.publish(message("t", "x").alias(1));
            client.send_publish(wrong);
            client.expect_disconnect(ReasonCode::TopicAliasInvalid);
        }
    });
}

#[test]
fn the_server_uses_topic_aliases_if_the_client_allows_it() {
    everywhere(|world| {
        let two = world.connect(v5("two").aliases(2));
        let none = world.connect(v5("none"));
        let old = world.connect(v311("old"));
        for client in [&two, &none, &old] {
            client.subscribe("#", AtLeastOnce);
        }
        let publisher = world.connect(v5("publisher"));
        for topic in ["a", "b", "c", "a", "b", "c"] {
            publisher.publish(message(topic, "x").qos1());
        }
        let got: Vec<_> = two.messages().iter().map(|got| (got.topic.clone(), got.alias, got.named)).collect();
        let wanted = [
            ("a", Some(1), true),
            ("b", Some(2), true),
            ("c", None, true),
            ("a", Some(1), false),
            ("b", Some(2), false),
            ("c", None, true),
        ];
        assert_eq!(got, wanted.map(|(topic, alias, named)| (topic.to_owned(), alias, named)));
        for client in [&none, &old] {
            assert!(client.messages().iter().all(|got| got.named && got.alias.is_none()));
        }
    });
}

#[test]
fn the_server_sets_no_more_aliases_than_its_own_limit() {
    everywhere_with(
        |settings| settings.listeners[0].topic_alias_maximum_out = 1,
        |world| {
            let client = world.connect(v5("client").aliases(100));
            client.subscribe("#", AtMostOnce);
            let publisher = world.connect(v5("publisher"));
            for topic in ["a", "b", "b", "a"] {
                publisher.publish(message(topic, "x"));
            }
            let got: Vec<_> = client.messages().iter().map(|got| got.alias).collect();
            assert_eq!(got, [Some(1), None, None, Some(1)]);
        },
    );
}
