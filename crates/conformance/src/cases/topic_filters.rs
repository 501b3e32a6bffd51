//! Valid topic filters, and the topic names they match.

use crate::case::Case;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::version::Version;
use crate::wire::reason_codes::{MALFORMED_PACKET, PROTOCOL_ERROR};
use crate::wire::{Publish, Subscribe, Unsubscribe};

pub(super) const CASES: &[Case] = &[
    Case::all("topic_filters.match_as_specified", match_as_specified)
        .proves_311(&["MQTT-4.7.1-2", "MQTT-4.7.1-1", "MQTT-3.3.2-3", "MQTT-3.8.3-2"])
        .proves_5(&["MQTT-4.7.1-2", "MQTT-4.7.1-1", "MQTT-3.3.2-3"])
        .needs(&[Feature::WildcardSubscriptions]),
    Case::both("topic_filters.misplaced_wildcards", misplaced_wildcards)
        .proves_311(&["MQTT-4.7.1-1", "MQTT-4.7.1-2", "MQTT-4.8.0-1"])
        .proves_5(&["MQTT-4.7.1-1", "MQTT-4.7.1-2", "MQTT-4.13.1-1"]),
    Case::both("topic_filters.empty", empty)
        .proves_311(&["MQTT-4.7.0-1", "MQTT-4.8.0-1"])
        .proves_5(&["MQTT-4.7.3-1", "MQTT-4.13.1-1"]),
    Case::all("topic_filters.leading_wildcards_skip_dollar_topics", leading_wildcards_skip_dollar_topics)
        .proves_311(&["MQTT-4.7.2-1"])
        .proves_5(&["MQTT-4.7.2-1"])
        .needs(&[Feature::WildcardSubscriptions]),
    Case::all("topic_filters.everything_is_nothing_with_a_dollar", everything_is_nothing_with_a_dollar)
        .proves_311(&["MQTT-4.7.2-1"])
        .proves_5(&["MQTT-4.7.2-1"])
        .needs(&[Feature::WildcardSubscriptions])
        .alone(),
    Case::all("topic_filters.long_and_deep", long_and_deep),
];

const BROKEN: &[u8] = &[MALFORMED_PACKET, PROTOCOL_ERROR];

/// Filter, topic names that it matches, topic names that it does not. All stand behind the topic of the run.
const MATCHES: &[(&str, &[&str], &[&str])] = &[
    ("a/b", &["a/b"], &["a", "a/b/c", "a/c", "b", "a/", "/a/b"]),
    ("a/#", &["a", "a/b", "a/b/c", "a/"], &["b", "ab", "b/a"]),
    ("a/+", &["a/b", "a/", "a/\u{e9}"], &["a", "a/b/c", "b/a"]),
    ("+", &["a", ""], &["a/b", "/"]),
    ("+/+", &["a/b", "/", "/b", "a/"], &["a", "a/b/c", "//"]),
    ("+/b/#", &["a/b", "a/b/c", "/b", "/b//"], &["a", "a/c", "b"]),
    ("a/+/c", &["a/b/c", "a//c"], &["a/c", "a/b/b/c", "a/b"]),
    ("+/#", &["a", "a/b", "/", ""], &[]),
    ("/a", &["/a"], &["a", "//a"]),
    ("a//b", &["a//b"], &["a/b", "a/x/b"]),
];

fn match_as_specified(s: &Scenario<'_>) -> Outcome {
    let mut publisher = s.connect("publisher")?;
    for (number, (filter, matching, others)) in MATCHES.iter().enumerate() {
        let own = |tail: &str| s.topic(&format!("{number}/{tail}"));
        let mut subscriber = s.connect(&format!("s{number}"))?;
        subscriber.subscribe(&own(filter), 0)?;
        for other in *others {
            publisher.publish(&Publish::new(&own(other), *other))?;
        }
        for topic in *matching {
            publisher.publish(&Publish::new(&own(topic), *topic))?;
            let publish = subscriber.take()?;
            ensure!(publish.topic == own(topic), "`{filter}`: expected `{topic}`, got `{}`", publish.topic);
        }
        s.fence(&mut publisher, &mut subscriber)?;
        subscriber.disconnect()?;
    }
    Ok(())
}

/// The filter ends the connection, whether it is subscribed to or unsubscribed from, alone or behind a valid one.
fn expect_closed_for(s: &Scenario<'_>, filter: &str) -> Outcome {
    let valid = s.topic("valid");
    for subscribe in [Subscribe::new(filter, 0), Subscribe::new(&valid, 0).and(filter, 0)] {
        let mut client = s.connect("c")?;
        client.send_subscribe(&subscribe)?;
        client.expect_error_close(BROKEN)?;
    }
    let mut client = s.connect("c")?;
    client.send_unsubscribe(&Unsubscribe::new(filter))?;
    client.expect_error_close(BROKEN)
}

fn misplaced_wildcards(s: &Scenario<'_>) -> Outcome {
    for tail in ["#/a", "a/#/b", "a#", "a/b#", "##", "a/##", "+a", "a+", "a/+b", "a/b+/c", "++", "#+", "+#"] {
        expect_closed_for(s, &s.topic(tail))?;
    }
    Ok(())
}

fn empty(s: &Scenario<'_>) -> Outcome {
    expect_closed_for(s, "")
}

fn leading_wildcards_skip_dollar_topics(s: &Scenario<'_>) -> Outcome {
    // The level behind the wildcard is this run's own, so that no other traffic matches.
    let level = s.level("x");
    let mut subscriber = s.connect("subscriber")?;
    subscriber.subscribe(&format!("+/{level}"), 0)?;
    subscriber.subscribe(&format!("+/{level}/#"), 0)?;
    for (number, topic) in [format!("$conformance/{level}"), format!("$/{level}")].into_iter().enumerate() {
        // A broker may close the connection of a client that publishes to its own `$` topics.
        let mut publisher = s.connect(&format!("p{number}"))?;
        publisher.publish(&Publish::new(&topic, "with a dollar"))?;
        publisher.send_ping()?;
        publisher.arrival()?;
    }
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&format!("conformance/{level}"), "without"))?;
    // Both subscriptions match; one copy or two are both allowed.
    subscriber.take_with("without")?;
    let topic = s.topic("end");
    subscriber.subscribe(&topic, 0)?;
    publisher.publish(&Publish::new(&topic, "end"))?;
    loop {
        let publish = subscriber.take()?;
        ensure!(!publish.topic.starts_with('$'), "MQTT-4.7.2-1: `{}` matches a leading `+`", publish.topic);
        if publish.topic == topic {
            return Ok(());
        }
    }
}

/// `#` alone sees all traffic of the broker, including retained messages, but never `$SYS` and its like.
fn everything_is_nothing_with_a_dollar(s: &Scenario<'_>) -> Outcome {
    let mut subscriber = s.connect("subscriber")?;
    let subscribe = Subscribe::new("#", 0).and("+/#", 0).and("+/+/#", 0);
    let suback = subscriber.subscribe_packet(&subscribe)?;
    if suback.codes.iter().any(|code| *code >= 0x80) {
        return crate::outcome::skipped("the broker refuses a subscription to everything");
    }
    let mut dollar = s.connect("dollar")?;
    dollar.publish(&Publish::new(&format!("$conformance/{}", s.level("x")), "with a dollar"))?;
    dollar.send_ping()?;
    dollar.arrival()?;
    let topic = s.topic("end");
    s.connect("publisher")?.publish(&Publish::new(&topic, "end"))?;
    loop {
        let publish = subscriber.take()?;
        ensure!(!publish.topic.starts_with('$'), "MQTT-4.7.2-1: `{}` matches `#`", publish.topic);
        if publish.topic == topic {
            return Ok(());
        }
    }
}

/// Names of a thousand bytes and of thirty levels, which any broker should take; longer ones it may refuse.
fn long_and_deep(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    let long = s.topic(&"x".repeat(1000));
    let deep = s.topic(&["y"; 30].join("/"));
    for topic in [long, deep] {
        client.subscribe(&topic, 0)?;
        client.publish(&Publish::new(&topic, "x"))?;
        let publish = client.take_with("x")?;
        ensure!(publish.topic == topic, "a topic of {} bytes came as one of {}", topic.len(), publish.topic.len());
    }
    if s.version == Version::V5 && s.is_strict() {
        // The longest topic there is: its length takes two bytes.
        let longest = s.topic("");
        let longest = format!("{longest}{}", "z".repeat(65_535 - longest.len()));
        client.subscribe(&longest, 0)?;
        client.publish(&Publish::new(&longest, "x"))?;
        ensure!(client.take_with("x")?.topic == longest, "the longest topic came altered");
    }
    Ok(())
}
