//! The retain options of a subscription in MQTT 5, and a broker without retained messages.

use super::retained::{expect_none_retained, retain};
use crate::case::Case;
use crate::client::Arrival;
use crate::outcome::{Outcome, ensure, failed};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::reason_codes::RETAIN_NOT_SUPPORTED;
use crate::wire::subscribe::{RETAIN_AS_PUBLISHED, RETAIN_IF_NEW, RETAIN_NEVER};
use crate::wire::{Packet, Property, Publish, Subscribe};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case::v5("retain_options.handling_0_sends_always", handling_0_sends_always)
        .proves_5(&["MQTT-3.3.1-9", "MQTT-3.8.4-4"])
        .needs(&[Feature::Retained]),
    Case::v5("retain_options.handling_1_sends_to_a_new_subscription", handling_1_sends_to_a_new_subscription)
        .proves_5(&["MQTT-3.3.1-10"])
        .needs(&[Feature::Retained]),
    Case::v5("retain_options.handling_2_sends_never", handling_2_sends_never)
        .proves_5(&["MQTT-3.3.1-11"])
        .needs(&[Feature::Retained]),
    Case::v5("retain_options.as_published_0_clears_the_flag", as_published_0_clears_the_flag)
        .proves_5(&["MQTT-3.3.1-12"])
        .needs(&[Feature::Retained]),
    Case::v5("retain_options.as_published_1_keeps_the_flag", as_published_1_keeps_the_flag)
        .proves_5(&["MQTT-3.3.1-13"])
        .needs(&[Feature::Retained]),
    Case::v5("retain_options.retained_message_has_its_flag_either_way", retained_message_has_its_flag)
        .proves_5(&["MQTT-3.3.1-9"])
        .needs(&[Feature::Retained]),
    Case::v5("retain_options.survive_the_connection", survive_the_connection)
        .proves_5(&["MQTT-3.3.1-13", "MQTT-3.1.2-5"])
        .needs(&[Feature::Retained, Feature::Qos1]),
    Case::v5("retain_options.properties_are_kept", properties_are_kept)
        .proves_5(&["MQTT-3.3.2-4", "MQTT-3.3.2-17", "MQTT-3.3.2-18", "MQTT-3.3.2-20"])
        .needs(&[Feature::Retained]),
    Case::v5("retain_options.identifier_comes_with_it", identifier_comes_with_it)
        .proves_5(&["MQTT-3.3.4-3"])
        .needs(&[Feature::Retained, Feature::SubscriptionIdentifiers]),
    Case::v5("retain_options.expired_is_gone", expired_is_gone)
        .proves_5(&["MQTT-3.3.2-5", "MQTT-3.3.2-6"])
        .needs(&[Feature::Retained])
        .slow(),
    Case::v5("retain_options.publishing_is_refused_without_retained_messages", publishing_is_refused)
        .proves_5(&["MQTT-4.13.1-1"])
        .needs(&[Feature::NoRetained]),
];

fn handling_0_sends_always(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    retain(&mut publisher, &topic, "kept", 0)?;
    let mut subscriber = s.connect("subscriber")?;
    for _ in 0..2 {
        subscriber.subscribe(&topic, 0)?;
        subscriber.take_with("kept")?;
    }
    s.fence(&mut publisher, &mut subscriber)
}

fn handling_1_sends_to_a_new_subscription(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    retain(&mut publisher, &topic, "kept", 0)?;
    let mut subscriber = s.connect("subscriber")?;
    subscriber.subscribe(&topic, RETAIN_IF_NEW)?;
    subscriber.take_with("kept")?;
    subscriber.subscribe(&topic, RETAIN_IF_NEW)?;
    expect_none_retained(s, &mut publisher, &mut subscriber)?;
    subscriber.unsubscribe(&topic)?;
    subscriber.subscribe(&topic, RETAIN_IF_NEW)?;
    subscriber.take_with("kept")?;
    Ok(())
}

fn handling_2_sends_never(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    retain(&mut publisher, &topic, "kept", 0)?;
    let mut subscriber = s.connect("subscriber")?;
    for _ in 0..2 {
        subscriber.subscribe(&topic, RETAIN_NEVER)?;
        expect_none_retained(s, &mut publisher, &mut subscriber)?;
    }
    // It is about earlier retained messages, not about later ones.
    retain(&mut publisher, &topic, "new", 0)?;
    subscriber.take_with("new")?;
    Ok(())
}

fn as_published_0_clears_the_flag(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    publisher.publish(&Publish::new(&topic, "retained").retain())?;
    let publish = subscriber.take_with("retained")?;
    ensure!(!publish.retain, "RETAIN is set although Retain As Published is 0");
    Ok(())
}

fn as_published_1_keeps_the_flag(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, RETAIN_AS_PUBLISHED)?;
    publisher.publish(&Publish::new(&topic, "retained").retain())?;
    let publish = subscriber.take_with("retained")?;
    ensure!(publish.retain, "RETAIN is cleared although Retain As Published is 1");
    publisher.publish(&Publish::new(&topic, "passing"))?;
    let publish = subscriber.take_with("passing")?;
    ensure!(!publish.retain, "RETAIN is set on a message that was published without");
    // The empty message that deletes has its flag like any other.
    publisher.publish(&Publish::new(&topic, "").retain())?;
    let publish = subscriber.take_with("")?;
    ensure!(publish.retain, "RETAIN is cleared on an empty message");
    Ok(())
}

fn retained_message_has_its_flag(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    retain(&mut publisher, &topic, "kept", 0)?;
    for options in [0, RETAIN_AS_PUBLISHED] {
        let mut subscriber = s.connect(&format!("s{options}"))?;
        subscriber.subscribe(&topic, options)?;
        let publish = subscriber.take_with("kept")?;
        ensure!(publish.retain, "RETAIN is not set on a retained message for a new subscription (options {options})");
    }
    Ok(())
}

fn survive_the_connection(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("c")?;
    subscriber.subscribe(&topic, RETAIN_AS_PUBLISHED | 1)?;
    subscriber.drop_connection()?;
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&Publish::new(&topic, "while away").qos(1).retain())?;
    let (mut subscriber, _) = s.connect_persistent("c")?;
    publisher.publish(&Publish::new(&topic, "back again").qos(1).retain())?;
    for payload in ["while away", "back again"] {
        let publish = subscriber.take_with(payload)?;
        ensure!(publish.retain, "RETAIN is cleared on `{payload}` although Retain As Published was 1");
    }
    Ok(())
}

fn properties_are_kept(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let pairs = [("z", "1"), ("a", "2"), ("z", "3")];
    let mut message = Publish::new(&topic, "kept")
        .retain()
        .with(Property::PayloadFormatIndicator(1))
        .with(Property::ContentType("text/plain".to_owned()))
        .with(Property::ResponseTopic("answers".to_owned()))
        .with(Property::CorrelationData(vec![1, 2, 3]));
    for (name, value) in pairs {
        message = message.with(Property::UserProperty(name.to_owned(), value.to_owned()));
    }
    let mut publisher = s.connect("publisher")?;
    publisher.publish(&message)?;
    publisher.ping()?;
    let mut subscriber = s.connect("subscriber")?;
    subscriber.subscribe(&topic, 0)?;
    let publish = subscriber.take_with("kept")?;
    for property in &message.properties {
        ensure!(publish.properties.contains(property), "{property:?} is not kept");
    }
    let expected: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ensure!(publish.user_properties() == expected, "user properties {:?}", publish.user_properties());
    Ok(())
}

fn identifier_comes_with_it(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    retain(&mut publisher, &topic, "kept", 0)?;
    let mut subscriber = s.connect("subscriber")?;
    subscriber.subscribe_packet(&Subscribe::new(&topic, 0).with(Property::SubscriptionIdentifier(42)))?;
    let told = subscriber.take_with("kept")?.subscription_identifiers();
    ensure!(told == [42], "the retained message tells {told:?}, expected 42");
    Ok(())
}

/// Asks again and again; each answer carries the rest of the interval, until there is no answer.
fn expired_is_gone(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut least = 2;
    let mut publisher = s.connect("publisher")?;
    let started = Instant::now();
    publisher.publish(&Publish::new(&topic, "short-lived").retain().with(Property::MessageExpiryInterval(least)))?;
    publisher.ping()?;
    let mut subscriber = s.connect("subscriber")?;
    while started.elapsed() < Duration::from_secs(20) {
        subscriber.subscribe(&topic, 0)?;
        match subscriber.kept_or_arrival_within(Duration::from_millis(250))? {
            Arrival::Packet(Packet::Publish(publish)) => {
                let left = publish.expiry();
                ensure!(left.is_some_and(|left| left <= least), "{left:?} s left after {least} s were left");
                least = left.unwrap_or_default();
            }
            Arrival::Silence if started.elapsed() < Duration::from_secs(2) => {}
            Arrival::Silence => return expect_none_retained(s, &mut publisher, &mut subscriber),
            other => return failed(format!("a retained message was expected, or nothing: {other:?}")),
        }
    }
    failed("a retained message with an expiry interval of 2 s is still sent after 20 s")
}

fn publishing_is_refused(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send_publish(&Publish::new(&s.topic("t"), "kept").retain())?;
    client.expect_error_close(&[RETAIN_NOT_SUPPORTED])
}
