//! Retained messages: storing, replacing, deleting, and who gets them.

use crate::case::Case;
use crate::client::Client;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::{Publish, Subscribe};

pub(super) const CASES: &[Case] = &[
    Case::all("retained.is_sent_to_a_new_subscription", is_sent_to_a_new_subscription)
        .proves_311(&["MQTT-3.3.1-5", "MQTT-3.3.1-6", "MQTT-3.3.1-8"])
        .proves_5(&["MQTT-3.3.1-5", "MQTT-3.3.1-9"])
        .needs(&[Feature::Retained, Feature::Qos2]),
    Case::all("retained.last_one_counts", last_one_counts)
        .proves_311(&["MQTT-3.3.1-5", "MQTT-3.3.1-7"])
        .proves_5(&["MQTT-3.3.1-5"])
        .needs(&[Feature::Retained, Feature::Qos1]),
    Case::all("retained.empty_payload_deletes", empty_payload_deletes)
        .proves_311(&["MQTT-3.3.1-10", "MQTT-3.3.1-11"])
        .proves_5(&["MQTT-3.3.1-6", "MQTT-3.3.1-7"])
        .needs(&[Feature::Retained]),
    Case::all("retained.empty_payload_is_delivered", empty_payload_is_delivered)
        .proves_311(&["MQTT-3.3.1-10"])
        .proves_5(&["MQTT-3.3.1-6"])
        .needs(&[Feature::Retained]),
    Case::all("retained.other_messages_change_nothing", other_messages_change_nothing)
        .proves_311(&["MQTT-3.3.1-12"])
        .proves_5(&["MQTT-3.3.1-8"])
        .needs(&[Feature::Retained]),
    Case::all("retained.flag_is_cleared_for_established_subscriptions", flag_is_cleared)
        .proves_311(&["MQTT-3.3.1-9"])
        .proves_5(&["MQTT-3.3.1-12"])
        .needs(&[Feature::Retained]),
    Case::both("retained.outlives_the_session", outlives_the_session)
        .proves_311(&["MQTT-3.1.2-7"])
        .needs(&[Feature::Retained]),
    Case::all("retained.at_the_lower_qos", at_the_lower_qos)
        .proves_5(&["MQTT-3.8.4-8"])
        .needs(&[Feature::Retained, Feature::Qos2]),
    Case::all("retained.is_sent_again_to_the_same_subscription", is_sent_again_to_the_same_subscription)
        .proves_311(&["MQTT-3.8.4-3"])
        .proves_5(&["MQTT-3.8.4-4", "MQTT-3.3.1-9"])
        .needs(&[Feature::Retained]),
    Case::all("retained.wildcards_match_it", wildcards_match_it)
        .proves_311(&["MQTT-3.3.1-6", "MQTT-4.7.1-2"])
        .proves_5(&["MQTT-3.3.1-9", "MQTT-4.7.1-2"])
        .needs(&[Feature::Retained, Feature::WildcardSubscriptions]),
    Case::both("retained.wildcard_delivery_is_complete", wildcard_delivery_is_complete)
        .proves_311(&["MQTT-3.3.1-6"])
        .proves_5(&["MQTT-3.3.1-9"])
        .needs(&[Feature::Retained, Feature::WildcardSubscriptions]),
    Case::both("retained.wildcard_delivery_at_qos_1_is_complete", wildcard_delivery_at_qos_1_is_complete)
        .proves_311(&["MQTT-3.3.1-6"])
        .proves_5(&["MQTT-3.3.1-9"])
        .needs(&[Feature::Retained, Feature::WildcardSubscriptions, Feature::Qos1]),
    Case::all("retained.of_several_filters_in_one_packet", of_several_filters_in_one_packet)
        .proves_311(&["MQTT-3.8.4-4"])
        .proves_5(&["MQTT-3.8.4-5"])
        .needs(&[Feature::Retained]),
    Case::both("retained.is_not_sent_when_a_session_is_resumed", is_not_sent_when_a_session_is_resumed)
        .proves_311(&["MQTT-3.3.1-6"])
        .needs(&[Feature::Retained]),
    Case::both("retained.across_versions", across_versions).needs(&[Feature::Retained]),
    Case::both("retained.deep_topics_are_deleted", deep_topics_are_deleted)
        .proves_311(&["MQTT-3.3.1-10"])
        .proves_5(&["MQTT-3.3.1-6"])
        .needs(&[Feature::Retained]),
];

/// Stores a retained message and waits until the broker has it: PUBACK, or the answer to a PINGREQ behind it.
pub(super) fn retain(client: &mut Client, topic: &str, payload: &str, qos: u8) -> Outcome {
    client.publish(&Publish::new(topic, payload).qos(qos).retain())?;
    client.ping()
}

/// Retained messages may be on their way from somewhere else in the broker; a live message behind the subscription and
/// the answer to a PINGREQ give them every chance to arrive before the end of the case.
pub(super) fn expect_none_retained(s: &Scenario<'_>, publisher: &mut Client, subscriber: &mut Client) -> Outcome {
    s.fence(publisher, subscriber)?;
    subscriber.expect_nothing()
}

fn is_sent_to_a_new_subscription(s: &Scenario<'_>) -> Outcome {
    let mut publisher = s.connect("publisher")?;
    for qos in 0..=2 {
        let topic = s.topic(&format!("{qos}"));
        retain(&mut publisher, &topic, "kept", qos)?;
        let mut subscriber = s.connect(&format!("s{qos}"))?;
        subscriber.subscribe(&topic, 2)?;
        let publish = subscriber.take_with("kept")?;
        ensure!(publish.retain, "RETAIN is not set on a retained message for a new subscription");
        ensure!(publish.qos == qos, "retained at QoS {qos}, came at QoS {}", publish.qos);
        ensure!(publish.topic == topic && !publish.dup, "came as {publish:?}");
        s.fence(&mut publisher, &mut subscriber)?;
    }
    Ok(())
}

fn last_one_counts(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    for (number, qos) in [1, 0, 0, 1].into_iter().enumerate() {
        retain(&mut publisher, &topic, &format!("{number}"), qos)?;
        let mut subscriber = s.connect(&format!("s{number}"))?;
        subscriber.subscribe(&topic, 1)?;
        let publish = subscriber.take_with(format!("{number}"))?;
        ensure!(publish.retain && publish.qos == qos, "came as {publish:?}");
        s.fence(&mut publisher, &mut subscriber)?;
    }
    Ok(())
}

fn empty_payload_deletes(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    retain(&mut publisher, &topic, "kept", 0)?;
    retain(&mut publisher, &topic, "", 0)?;
    // Deleting a missing message is fine, and an empty message is not stored either.
    retain(&mut publisher, &topic, "", 0)?;
    let mut subscriber = s.connect("subscriber")?;
    subscriber.subscribe(&topic, 0)?;
    expect_none_retained(s, &mut publisher, &mut subscriber)
}

fn empty_payload_is_delivered(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    retain(&mut publisher, &topic, "kept", 0)?;
    subscriber.take_with("kept")?;
    retain(&mut publisher, &topic, "", 0)?;
    let publish = subscriber.take_with("")?;
    ensure!(!publish.retain, "RETAIN is set on a message for a subscription that existed before");
    Ok(())
}

fn other_messages_change_nothing(s: &Scenario<'_>) -> Outcome {
    let (kept, never) = (s.topic("kept"), s.topic("never"));
    let mut publisher = s.connect("publisher")?;
    retain(&mut publisher, &kept, "kept", 0)?;
    for topic in [&kept, &never] {
        publisher.publish(&Publish::new(topic, "passing"))?;
        publisher.publish(&Publish::new(topic, ""))?;
    }
    publisher.ping()?;
    let mut subscriber = s.connect("subscriber")?;
    subscriber.subscribe(&kept, 0)?;
    subscriber.subscribe(&never, 0)?;
    subscriber.take_with("kept")?;
    expect_none_retained(s, &mut publisher, &mut subscriber)
}

fn flag_is_cleared(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    retain(&mut publisher, &topic, "kept", 0)?;
    let publish = subscriber.take_with("kept")?;
    ensure!(!publish.retain, "RETAIN is set on a message for a subscription that existed before");
    Ok(())
}

fn outlives_the_session(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    retain(&mut publisher, &topic, "kept", 0)?;
    publisher.disconnect()?;
    // A new session under the same client identifier, and its end.
    s.connect("publisher")?.drop_connection()?;
    let mut subscriber = s.connect("subscriber")?;
    subscriber.subscribe(&topic, 0)?;
    subscriber.take_with("kept")?;
    Ok(())
}

fn at_the_lower_qos(s: &Scenario<'_>) -> Outcome {
    let mut publisher = s.connect("publisher")?;
    for published in 0..=2 {
        let topic = s.topic(&format!("{published}"));
        retain(&mut publisher, &topic, "kept", published)?;
        for granted in 0..=2 {
            let mut subscriber = s.connect(&format!("s{published}{granted}"))?;
            subscriber.subscribe(&topic, granted)?;
            let publish = subscriber.take_with("kept")?;
            ensure!(
                publish.qos == published.min(granted),
                "retained at QoS {published}, granted {granted}, came at QoS {}",
                publish.qos
            );
        }
    }
    Ok(())
}

fn is_sent_again_to_the_same_subscription(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    retain(&mut publisher, &topic, "kept", 0)?;
    let mut subscriber = s.connect("subscriber")?;
    for _ in 0..3 {
        subscriber.subscribe(&topic, 0)?;
        let publish = subscriber.take_with("kept")?;
        ensure!(publish.retain, "RETAIN is not set on a message sent because of a subscription");
    }
    s.fence(&mut publisher, &mut subscriber)
}

fn wildcards_match_it(s: &Scenario<'_>) -> Outcome {
    let mut publisher = s.connect("publisher")?;
    for tail in ["a", "a/b", "a/b/c", "a/c", "b/c", "a/"] {
        retain(&mut publisher, &s.topic(tail), tail, 0)?;
    }
    let expected: [(&str, &[&str]); 6] = [
        ("a/#", &["a", "a/", "a/b", "a/b/c", "a/c"]),
        ("a/+", &["a/", "a/b", "a/c"]),
        ("+/c", &["a/c", "b/c"]),
        ("+", &["a"]),
        ("a/+/c", &["a/b/c"]),
        ("+/b/#", &["a/b", "a/b/c"]),
    ];
    for (number, (filter, tails)) in expected.into_iter().enumerate() {
        let mut subscriber = s.connect(&format!("s{number}"))?;
        subscriber.subscribe(&s.topic(filter), 0)?;
        let mut arrived = Vec::new();
        for _ in tails {
            let publish = subscriber.take()?;
            ensure!(publish.retain, "RETAIN is not set on `{}`", publish.topic);
            arrived.push(publish.text());
        }
        arrived.sort();
        ensure!(arrived == tails, "`{filter}` matches {tails:?}, got {arrived:?}");
        expect_none_retained(s, &mut publisher, &mut subscriber)?;
    }
    Ok(())
}

/// More retained messages than any queue a broker might put them into.
const MANY: usize = 5000;

fn retain_many(s: &Scenario<'_>, publisher: &mut Client, qos: u8) -> Outcome {
    for number in 0..MANY {
        let topic = s.topic(&format!("many/{}/{number}", number % 50));
        publisher.send_publish(&Publish::new(&topic, format!("{number}")).retain())?;
        // A pause for breath: no broker has to buffer thousands of packets of one client.
        if number % 500 == 499 {
            publisher.ping()?;
        }
    }
    // The last one with a handshake; it is in the broker when this returns.
    publisher.publish(&Publish::new(&s.topic("many/last/last"), "last").qos(qos).retain())?;
    publisher.ping()
}

fn wildcard_delivery_is_complete(s: &Scenario<'_>) -> Outcome {
    let mut publisher = s.connect("publisher")?;
    retain_many(s, &mut publisher, 0)?;
    let mut subscriber = s.connect("subscriber")?;
    subscriber.subscribe(&s.topic("many/#"), 0)?;
    expect_many(&mut subscriber)
}

fn wildcard_delivery_at_qos_1_is_complete(s: &Scenario<'_>) -> Outcome {
    let mut publisher = s.connect("publisher")?;
    for number in 0..1000 {
        let topic = s.topic(&format!("many/{number}"));
        publisher.publish(&Publish::new(&topic, format!("{number}")).qos(1).retain())?;
    }
    let mut subscriber = s.connect("subscriber")?;
    subscriber.subscribe(&s.topic("many/+"), 1)?;
    let mut missing: std::collections::BTreeSet<String> = (0..1000).map(|number| number.to_string()).collect();
    while !missing.is_empty() {
        let publish = subscriber.take()?;
        ensure!(publish.qos == 1 && publish.retain, "came as {publish:?}");
        ensure!(missing.remove(&publish.text()), "`{}` came twice", publish.topic);
    }
    subscriber.expect_nothing()
}

fn expect_many(subscriber: &mut Client) -> Outcome {
    let mut missing: std::collections::BTreeSet<String> = (0..MANY).map(|number| number.to_string()).collect();
    missing.insert("last".to_owned());
    while !missing.is_empty() {
        let left = missing.len();
        let publish = subscriber.message().map_err(|stop| match stop {
            crate::outcome::Stop::Failed(fault) => {
                crate::outcome::Stop::Failed(format!("{left} of {} retained messages are missing: {fault}", MANY + 1))
            }
            skipped @ crate::outcome::Stop::Skipped(_) => skipped,
        })?;
        ensure!(missing.remove(&publish.text()), "`{}` came twice", publish.topic);
    }
    subscriber.expect_nothing()
}

fn of_several_filters_in_one_packet(s: &Scenario<'_>) -> Outcome {
    let mut publisher = s.connect("publisher")?;
    for tail in ["a", "b", "c"] {
        retain(&mut publisher, &s.topic(tail), tail, 0)?;
    }
    let mut subscriber = s.connect("subscriber")?;
    subscriber.subscribe_packet(&Subscribe::new(&s.topic("a"), 0).and(&s.topic("b"), 0).and(&s.topic("c"), 0))?;
    let mut arrived = vec![subscriber.take()?.text(), subscriber.take()?.text(), subscriber.take()?.text()];
    arrived.sort();
    ensure!(arrived == ["a", "b", "c"], "got {arrived:?}");
    s.fence(&mut publisher, &mut subscriber)
}

/// A resumed session brings its subscriptions back; that is no new subscription.
fn is_not_sent_when_a_session_is_resumed(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    retain(&mut publisher, &topic, "kept", 0)?;
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.subscribe(&topic, 0)?;
    subscriber.take_with("kept")?;
    subscriber.disconnect()?;
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    expect_none_retained(s, &mut publisher, &mut subscriber)
}

fn across_versions(s: &Scenario<'_>) -> Outcome {
    let mut publisher = s.connect("publisher")?;
    retain(&mut publisher, &s.topic("t"), "kept", 0)?;
    for version in s.target().capabilities.versions.clone() {
        let name = format!("s{}", version.token());
        let (mut subscriber, _) = s.connect_with(&name, &s.connection_as(version, &name))?;
        subscriber.subscribe(&s.topic("t"), 0)?;
        let publish = subscriber.take_with("kept")?;
        ensure!(publish.retain, "RETAIN is not set on the message for MQTT {version}");
        subscriber.disconnect()?;
    }
    Ok(())
}

fn deep_topics_are_deleted(s: &Scenario<'_>) -> Outcome {
    let topics = [s.topic("d"), s.topic("d/e"), s.topic(&format!("d/{}", ["e"; 50].join("/")))];
    let mut publisher = s.connect("publisher")?;
    for topic in &topics {
        retain(&mut publisher, topic, "kept", 0)?;
    }
    let [first, middle, last] = &topics;
    for (gone, left) in [(middle, vec![first, last]), (first, vec![last]), (last, vec![])] {
        retain(&mut publisher, gone, "", 0)?;
        let mut subscriber = s.connect("subscriber")?;
        subscriber.subscribe_packet(&topics.iter().fold(Subscribe::default(), |all, topic| all.and(topic, 0)))?;
        let mut arrived = Vec::new();
        for _ in &left {
            arrived.push(subscriber.take()?.topic);
        }
        arrived.sort();
        ensure!(arrived.iter().collect::<Vec<_>>() == left, "expected {left:?}, got {arrived:?}");
        expect_none_retained(s, &mut publisher, &mut subscriber)?;
    }
    Ok(())
}
