//! Topic aliases in both directions.

use crate::case::Case;
use crate::client::Client;
use crate::outcome::{Outcome, ensure, failed};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::reason_codes::{MALFORMED_PACKET, PROTOCOL_ERROR, TOPIC_ALIAS_INVALID};
use crate::wire::{PacketType, Property, Publish};
use std::collections::BTreeMap;

pub(super) const CASES: &[Case] = &[
    Case::v5("topic_alias.replaces_its_topic", replaces_its_topic)
        .proves_5(&["MQTT-3.3.2-12", "MQTT-3.3.2-3"])
        .needs(&[Feature::TopicAliases]),
    Case::v5("topic_alias.of_each_value_up_to_the_maximum", of_each_value_up_to_the_maximum)
        .proves_5(&["MQTT-3.3.2-12"])
        .needs(&[Feature::TopicAliases]),
    Case::v5("topic_alias.can_be_given_to_another_topic", can_be_given_to_another_topic)
        .proves_5(&["MQTT-3.3.2-12", "MQTT-3.3.2-3"])
        .needs(&[Feature::TopicAliases]),
    Case::v5("topic_alias.belongs_to_one_connection", belongs_to_one_connection)
        .proves_5(&["MQTT-3.3.2-7"])
        .needs(&[Feature::TopicAliases]),
    Case::v5("topic_alias.of_another_client_is_unknown", of_another_client_is_unknown)
        .proves_5(&["MQTT-3.3.2-7"])
        .needs(&[Feature::TopicAliases]),
    Case::v5("topic_alias.0", zero).proves_5(&["MQTT-3.3.2-8", "MQTT-4.13.1-1"]),
    Case::v5("topic_alias.above_the_maximum", above_the_maximum).proves_5(&[
        "MQTT-3.3.2-9",
        "MQTT-3.2.2-17",
        "MQTT-3.2.2-18",
        "MQTT-4.13.1-1",
    ]),
    Case::v5("topic_alias.unknown", unknown).proves_5(&["MQTT-4.13.1-1"]).needs(&[Feature::TopicAliases]),
    Case::v5("topic_alias.is_not_passed_on", is_not_passed_on)
        .proves_5(&["MQTT-3.1.2-27", "MQTT-3.3.2-11"])
        .needs(&[Feature::TopicAliases]),
    Case::v5("topic_alias.at_qos_2", at_qos_2)
        .proves_5(&["MQTT-3.3.2-12"])
        .needs(&[Feature::TopicAliases, Feature::Qos2]),
    Case::v5("topic_alias.broker_never_sends_one_unasked", broker_never_sends_one_unasked)
        .proves_5(&["MQTT-3.1.2-27", "MQTT-3.3.2-11"]),
    Case::v5("topic_alias.broker_keeps_to_the_clients_maximum", broker_keeps_to_the_clients_maximum).proves_5(&[
        "MQTT-3.1.2-26",
        "MQTT-3.3.2-8",
        "MQTT-3.3.2-11",
        "MQTT-3.3.2-3",
    ]),
    Case::v5("topic_alias.broker_starts_afresh_on_each_connection", broker_starts_afresh_on_each_connection)
        .proves_5(&["MQTT-3.3.2-7", "MQTT-3.3.2-3"])
        .needs(&[Feature::Qos1]),
];

fn with_alias(topic: &str, payload: &str, alias: u16) -> Publish {
    Publish::new(topic, payload).with(Property::TopicAlias(alias))
}

fn replaces_its_topic(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    publisher.publish(&with_alias(&topic, "named", 1))?;
    publisher.publish(&with_alias("", "aliased", 1))?;
    // The name and the alias together are allowed again and again.
    publisher.publish(&with_alias(&topic, "both", 1))?;
    publisher.publish(&with_alias("", "aliased again", 1))?;
    for payload in ["named", "aliased", "both", "aliased again"] {
        let publish = subscriber.take_with(payload)?;
        ensure!(publish.topic == topic, "`{payload}` came on `{}`", publish.topic);
    }
    Ok(())
}

fn of_each_value_up_to_the_maximum(s: &Scenario<'_>) -> Outcome {
    let maximum = s.target().capabilities.topic_alias_maximum;
    let mut client = s.connect("c")?;
    client.subscribe(&s.topic("+"), 0)?;
    // All values of a small table, the ends of a large one.
    let values: Vec<u16> =
        if maximum <= 100 { (1..=maximum).collect() } else { vec![1, 2, maximum / 2, maximum - 1, maximum] };
    for alias in &values {
        client.publish(&with_alias(&s.topic(&format!("{alias}")), "named", *alias))?;
        client.take_with("named")?;
    }
    for alias in &values {
        client.publish(&with_alias("", "aliased", *alias))?;
        let publish = client.take_with("aliased")?;
        ensure!(publish.topic == s.topic(&format!("{alias}")), "alias {alias} came on `{}`", publish.topic);
    }
    Ok(())
}

fn can_be_given_to_another_topic(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.subscribe(&s.topic("+"), 0)?;
    for tail in ["a", "b", "a", "c"] {
        client.publish(&with_alias(&s.topic(tail), "named", 1))?;
        client.publish(&with_alias("", "aliased", 1))?;
        for payload in ["named", "aliased"] {
            let publish = client.take_with(payload)?;
            ensure!(publish.topic == s.topic(tail), "`{payload}` came on `{}`, expected `{tail}`", publish.topic);
        }
    }
    Ok(())
}

/// A PUBLISH with an unknown alias: the connection ends, and no client gets the message.
fn expect_unknown(client: &mut Client, alias: u16) -> Outcome {
    client.send_publish(&with_alias("", "to an unknown topic", alias))?;
    client.expect_error_close(&[PROTOCOL_ERROR, TOPIC_ALIAS_INVALID, MALFORMED_PACKET])
}

fn belongs_to_one_connection(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut bystander) = s.subscriber_and_publisher(&topic, 0)?;
    let (mut publisher, _) = s.connect_persistent("c")?;
    publisher.publish(&with_alias(&topic, "named", 1))?;
    subscriber.take_with("named")?;
    publisher.drop_connection()?;
    let (mut publisher, connack) = s.connect_persistent("c")?;
    ensure!(connack.session_present, "the session is not there");
    expect_unknown(&mut publisher, 1)?;
    s.fence(&mut bystander, &mut subscriber)
}

fn of_another_client_is_unknown(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    publisher.publish(&with_alias(&topic, "named", 1))?;
    subscriber.take_with("named")?;
    expect_unknown(&mut s.connect("other")?, 1)?;
    s.fence(&mut publisher, &mut subscriber)
}

fn zero(s: &Scenario<'_>) -> Outcome {
    let mut client = s.connect("c")?;
    client.send_publish(&with_alias(&s.topic("t"), "x", 0))?;
    client.expect_error_close(&[TOPIC_ALIAS_INVALID])
}

fn above_the_maximum(s: &Scenario<'_>) -> Outcome {
    let maximum = s.target().capabilities.topic_alias_maximum;
    let Some(above) = maximum.checked_add(1) else {
        return crate::outcome::skipped("the broker takes every topic alias there is");
    };
    for alias in [above, 0xffff] {
        let mut client = s.connect("c")?;
        client.send_publish(&with_alias(&s.topic("t"), "x", alias))?;
        client.expect_error_close(&[TOPIC_ALIAS_INVALID, PROTOCOL_ERROR])?;
    }
    Ok(())
}

fn unknown(s: &Scenario<'_>) -> Outcome {
    expect_unknown(&mut s.connect("c")?, 1)
}

fn is_not_passed_on(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    // The client's own checks fail on any alias, as this subscriber announced none.
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 0)?;
    publisher.publish(&with_alias(&topic, "named", 1))?;
    publisher.publish(&with_alias("", "aliased", 1))?;
    for payload in ["named", "aliased"] {
        let publish = subscriber.take_with(payload)?;
        ensure!(publish.topic == topic, "`{payload}` came on `{}`", publish.topic);
    }
    Ok(())
}

fn at_qos_2(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, mut publisher) = s.subscriber_and_publisher(&topic, 2)?;
    // The alias is given by a message whose handshake is not complete when it is used.
    let first = publisher.send_publish(&with_alias(&topic, "named", 1).qos(2))?;
    let second = publisher.send_publish(&with_alias("", "aliased", 1).qos(2))?;
    publisher.expect_success(PacketType::Pubrec, first.packet_id)?;
    publisher.expect_success(PacketType::Pubrec, second.packet_id)?;
    publisher.release(first.packet_id)?;
    publisher.release(second.packet_id)?;
    for payload in ["named", "aliased"] {
        let publish = subscriber.take_with(payload)?;
        ensure!(publish.topic == topic, "`{payload}` came on `{}`", publish.topic);
    }
    Ok(())
}

fn broker_never_sends_one_unasked(s: &Scenario<'_>) -> Outcome {
    for properties in [vec![], vec![Property::TopicAliasMaximum(0)]] {
        let mut connect = s.connection("c");
        connect.properties = properties;
        let (mut client, _) = s.connect_with("c", &connect)?;
        client.subscribe(&s.topic("+"), 0)?;
        for number in 0..50 {
            // The client's own checks fail on an alias.
            client.publish(&Publish::new(&s.topic(&format!("{}", number % 3)), "x"))?;
            client.take_with("x")?;
        }
    }
    Ok(())
}

/// The topic of a message, from its alias or in the packet.
fn resolve(aliases: &mut BTreeMap<u16, String>, publish: &Publish) -> Outcome<String> {
    match publish.topic_alias() {
        None => Ok(publish.topic.clone()),
        Some(alias) if publish.topic.is_empty() => match aliases.get(&alias) {
            Some(topic) => Ok(topic.clone()),
            None => failed(format!("topic alias {alias} was never given a topic on this connection")),
        },
        Some(alias) => {
            aliases.insert(alias, publish.topic.clone());
            Ok(publish.topic.clone())
        }
    }
}

/// More topics than aliases, used unevenly: whatever the broker does with its aliases, each message means its topic.
fn broker_keeps_to_the_clients_maximum(s: &Scenario<'_>) -> Outcome {
    for maximum in [1, 5] {
        let name = format!("c{maximum}");
        let connect = s.connection(&name).with(Property::TopicAliasMaximum(maximum));
        let (mut client, _) = s.connect_with(&name, &connect)?;
        client.subscribe(&s.topic("+"), 0)?;
        let mut publisher = s.connect("publisher")?;
        let mut aliases = BTreeMap::new();
        for number in 0..200 {
            let tail = format!("{}", number * number % 17);
            publisher.publish(&Publish::new(&s.topic(&tail), format!("{number}")))?;
            let publish = client.take_with(format!("{number}"))?;
            let topic = resolve(&mut aliases, &publish)?;
            ensure!(topic == s.topic(&tail), "published on `{}`, means `{topic}`", s.topic(&tail));
        }
        client.disconnect()?;
    }
    Ok(())
}

fn broker_starts_afresh_on_each_connection(s: &Scenario<'_>) -> Outcome {
    let connect = s.connection("c").persistent().with(Property::TopicAliasMaximum(2));
    let (mut client, _) = s.connect_with("c", &connect)?;
    client.subscribe(&s.topic("+"), 1)?;
    let mut publisher = s.connect("publisher")?;
    let mut aliases = BTreeMap::new();
    for number in 0..10 {
        let tail = format!("{}", number % 2);
        publisher.publish(&Publish::new(&s.topic(&tail), format!("{number}")).qos(1))?;
        // Not acknowledged, so that the same messages are sent again on the next connection.
        let publish = client.message_with(format!("{number}"))?;
        ensure!(resolve(&mut aliases, &publish)? == s.topic(&tail), "message {number} means another topic");
    }
    client.drop_connection()?;
    let (mut client, _) = s.connect_with("c", &connect)?;
    let mut aliases = BTreeMap::new();
    for number in 0..10 {
        let publish = client.take_with(format!("{number}"))?;
        let topic = resolve(&mut aliases, &publish)?;
        ensure!(topic == s.topic(&format!("{}", number % 2)), "message {number} means `{topic}` when sent again");
    }
    Ok(())
}
