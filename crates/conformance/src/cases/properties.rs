//! Properties of PUBLISH on their way through the broker, and requests of CONNECT about properties.

use crate::case::Case;
use crate::outcome::{Outcome, ensure};
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::wire::reason_codes::{MALFORMED_PACKET, PROTOCOL_ERROR, TOPIC_NAME_INVALID};
use crate::wire::{Bytes, Property, Publish, Subscribe, Unsubscribe, properties};

pub(super) const CASES: &[Case] = &[
    Case::v5("properties.of_a_message_are_unaltered", of_a_message_are_unaltered)
        .proves_5(&[
            "MQTT-3.3.2-4",
            "MQTT-3.3.2-15",
            "MQTT-3.3.2-16",
            "MQTT-3.3.2-17",
            "MQTT-3.3.2-18",
            "MQTT-3.3.2-20",
        ])
        .needs(&[Feature::Qos2]),
    Case::v5("properties.at_their_limits", at_their_limits).proves_5(&["MQTT-3.3.2-16", "MQTT-3.3.2-17"]),
    Case::v5("properties.many_user_properties_in_order", many_user_properties_in_order).proves_5(&["MQTT-3.3.2-18"]),
    Case::v5("properties.of_the_payload_format", of_the_payload_format).proves_5(&["MQTT-3.3.2-4"]),
    Case::v5("properties.survive_a_queue", survive_a_queue)
        .proves_5(&["MQTT-3.3.2-4", "MQTT-3.3.2-15", "MQTT-3.3.2-18"])
        .needs(&[Feature::Qos1]),
    Case::v5("properties.response_topic_with_a_wildcard", response_topic_with_a_wildcard).proves_5(&["MQTT-3.3.2-14"]),
    Case::v5("properties.repeated_or_misplaced_in_publish", repeated_or_misplaced_in_publish)
        .proves_5(&["MQTT-4.13.1-1"]),
    Case::v5("properties.misplaced_in_subscribe_and_unsubscribe", misplaced_in_subscribe_and_unsubscribe)
        .proves_5(&["MQTT-4.13.1-1"]),
    Case::v5("properties.user_properties_of_requests_are_welcome", user_properties_of_requests_are_welcome),
    Case::v5("properties.length_beyond_the_packet", length_beyond_the_packet).proves_5(&["MQTT-4.13.1-1"]),
    Case::v5("properties.no_response_information_unasked", no_response_information_unasked)
        .proves_5(&["MQTT-3.1.2-28"]),
    Case::v5("properties.no_explanations_unwanted", no_explanations_unwanted)
        .proves_5(&["MQTT-3.1.2-29"])
        .needs(&[Feature::Qos2]),
    Case::v5("properties.request_and_response", request_and_response).proves_5(&["MQTT-3.3.2-15", "MQTT-3.3.2-16"]),
];

fn user_property(name: &str, value: &str) -> Property {
    Property::UserProperty(name.to_owned(), value.to_owned())
}

/// One of each property that a message may bring to its receivers.
fn full(topic: &str) -> Publish {
    Publish::new(topic, "payload")
        .with(Property::PayloadFormatIndicator(1))
        .with(Property::ContentType("text/plain; charset=utf-8".to_owned()))
        .with(Property::ResponseTopic("answers/\u{e9}".to_owned()))
        .with(Property::CorrelationData(vec![0, 1, 2, 254, 255]))
        .with(user_property("b", "1"))
        .with(user_property("a", "2"))
        .with(user_property("b", "1"))
}

/// Compares as sets, except for the user properties, whose order counts.
fn ensure_unaltered(sent: &Publish, arrived: &Publish) -> Outcome {
    for property in &sent.properties {
        ensure!(arrived.properties.contains(property), "{property:?} did not arrive, only {:?}", arrived.properties);
    }
    ensure!(
        arrived.user_properties() == sent.user_properties(),
        "MQTT-3.3.2-18: user properties sent {:?}, arrived {:?}",
        sent.user_properties(),
        arrived.user_properties()
    );
    ensure!(
        arrived.properties.len() == sent.properties.len(),
        "properties sent {:?}, arrived {:?}",
        sent.properties,
        arrived.properties
    );
    Ok(())
}

fn of_a_message_are_unaltered(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut publisher = s.connect("publisher")?;
    let mut subscribers = Vec::new();
    for qos in 0..=2 {
        let mut subscriber = s.connect(&format!("s{qos}"))?;
        subscriber.subscribe(&topic, qos)?;
        subscribers.push(subscriber);
    }
    for qos in 0..=2 {
        let sent = full(&topic).qos(qos);
        publisher.publish(&sent)?;
        for subscriber in &mut subscribers {
            ensure_unaltered(&sent, &subscriber.take_with("payload")?)?;
        }
    }
    Ok(())
}

fn at_their_limits(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.connect("c")?;
    client.subscribe(&topic, 0)?;
    let empty = Publish::new(&topic, "empty")
        .with(Property::ContentType(String::new()))
        .with(Property::CorrelationData(Vec::new()))
        .with(user_property("", ""));
    let long = Publish::new(&topic, "long")
        .with(Property::CorrelationData(vec![7; 10_000]))
        .with(user_property(&"n".repeat(10_000), &"v".repeat(10_000)));
    for sent in [empty, long] {
        client.publish(&sent)?;
        let arrived = client.take_with(&sent.payload)?;
        ensure_unaltered(&sent, &arrived)?;
    }
    Ok(())
}

fn many_user_properties_in_order(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.connect("c")?;
    client.subscribe(&topic, 0)?;
    let sent = (0..50).fold(Publish::new(&topic, "x"), |publish, number| {
        publish.with(user_property(&format!("name {}", number % 7), &format!("{number}")))
    });
    client.publish(&sent)?;
    ensure_unaltered(&sent, &client.take_with("x")?)
}

/// Absent, 0 and 1 are three things. What the indicator promises about the payload is the publisher's affair; a broker
/// may check it, so the payload here keeps the promise.
fn of_the_payload_format(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let mut client = s.connect("c")?;
    client.subscribe(&topic, 0)?;
    for indicator in [None, Some(0), Some(1)] {
        let mut sent = Publish::new(&topic, "text");
        sent.properties.extend(indicator.map(Property::PayloadFormatIndicator));
        client.publish(&sent)?;
        let arrived = client.take_with("text")?;
        // Zero means the same as an absent indicator, so a broker may leave it out.
        let same = arrived.properties == sent.properties || (indicator == Some(0) && arrived.properties.is_empty());
        ensure!(same, "payload format {indicator:?} came as {:?}", arrived.properties);
    }
    Ok(())
}

fn survive_a_queue(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    subscriber.subscribe(&topic, 1)?;
    subscriber.disconnect()?;
    let sent = full(&topic).qos(1);
    s.connect("publisher")?.publish(&sent)?;
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    // Once from the queue, and once again because it was not acknowledged.
    ensure_unaltered(&sent, &subscriber.message_with("payload")?)?;
    subscriber.drop_connection()?;
    let (mut subscriber, _) = s.connect_persistent("subscriber")?;
    ensure_unaltered(&sent, &subscriber.take_with("payload")?)
}

fn response_topic_with_a_wildcard(s: &Scenario<'_>) -> Outcome {
    for response_topic in ["answers/+", "answers/#", "#"] {
        let mut client = s.connect("c")?;
        let property = Property::ResponseTopic(response_topic.to_owned());
        client.send_publish(&Publish::new(&s.topic("t"), "x").with(property))?;
        client.expect_error_close(&[PROTOCOL_ERROR, MALFORMED_PACKET, TOPIC_NAME_INVALID])?;
    }
    Ok(())
}

fn repeated_or_misplaced_in_publish(s: &Scenario<'_>) -> Outcome {
    let repeated = [
        Property::PayloadFormatIndicator(1),
        Property::MessageExpiryInterval(9),
        Property::ContentType("a".to_owned()),
        Property::ResponseTopic("a".to_owned()),
        Property::CorrelationData(vec![1]),
    ];
    let misplaced = [
        Property::SessionExpiryInterval(1),
        Property::ReceiveMaximum(1),
        Property::ReasonString("a".to_owned()),
        Property::AssignedClientIdentifier("a".to_owned()),
    ];
    let twice = repeated.into_iter().map(|property| vec![property.clone(), property]);
    for properties in twice.chain(misplaced.into_iter().map(|property| vec![property])) {
        let mut publish = Publish::new(&s.topic("t"), "x");
        publish.properties = properties;
        let mut client = s.connect("c")?;
        client.send_publish(&publish)?;
        client.expect_error_close(&[PROTOCOL_ERROR, MALFORMED_PACKET])?;
    }
    Ok(())
}

fn misplaced_in_subscribe_and_unsubscribe(s: &Scenario<'_>) -> Outcome {
    let mut subscribe = s.connect("c")?;
    subscribe.send_subscribe(&Subscribe::new(&s.topic("t"), 0).with(Property::TopicAlias(1)))?;
    subscribe.expect_error_close(&[PROTOCOL_ERROR, MALFORMED_PACKET])?;
    let alias = properties::encode(&[Property::SubscriptionIdentifier(1)]);
    let mut unsubscribe = s.connect("c")?;
    unsubscribe.send(&Bytes::new().two(1).raw(&alias).text(&s.topic("t")).packet(0xa2))?;
    unsubscribe.expect_error_close(&[PROTOCOL_ERROR, MALFORMED_PACKET])
}

fn user_properties_of_requests_are_welcome(s: &Scenario<'_>) -> Outcome {
    let pair = user_property("name", "value");
    let connect = s.connection("c").with(pair.clone()).with(pair.clone());
    let (mut client, _) = s.connect_with("c", &connect)?;
    client.subscribe_packet(&Subscribe::new(&s.topic("t"), 0).with(pair.clone()).with(pair.clone()))?;
    let packet_id = client.packet_ids.next();
    let pairs = properties::encode(&[pair.clone(), pair.clone()]);
    client.send(&Bytes::new().two(packet_id).raw(&pairs).text(&s.topic("t")).packet(0xa2))?;
    client.expect_success(crate::wire::PacketType::Unsuback, packet_id)?;
    client.disconnect_with(0, &[pair])
}

fn length_beyond_the_packet(s: &Scenario<'_>) -> Outcome {
    let topic = s.topic("t");
    let publish = Bytes::new().text(&topic).byte(0x7f).raw(b"x").packet(0x30);
    let subscribe = Bytes::new().two(1).byte(0x7f).text(&topic[..10]).byte(0).packet(0x82);
    let unsubscribe = Bytes::new().two(1).byte(0x7f).text(&topic[..10]).packet(0xa2);
    let puback = Bytes::new().two(1).byte(0).byte(0x7f).packet(0x40);
    let pubrel = Bytes::new().two(1).byte(0).byte(0x7f).packet(0x62);
    for packet in [publish, subscribe, unsubscribe, puback, pubrel] {
        let mut client = s.connect("c")?;
        client.send(&packet)?;
        client.expect_error_close(&[PROTOCOL_ERROR, MALFORMED_PACKET])?;
    }
    Ok(())
}

fn no_response_information_unasked(s: &Scenario<'_>) -> Outcome {
    for properties in [vec![], vec![Property::RequestResponseInformation(0)]] {
        let mut connect = s.connection("c");
        connect.properties = properties;
        let (_, connack) = s.connect_with("c", &connect)?;
        let told = connack.properties.iter().find(|property| matches!(property, Property::ResponseInformation(_)));
        ensure!(told.is_none(), "MQTT-3.1.2-28: {told:?} was not asked for");
    }
    let (_, connack) = s.connect_with("c", &s.connection("c").with(Property::RequestResponseInformation(1)))?;
    let text = connack
        .properties
        .iter()
        .any(|property| matches!(property, Property::ResponseInformation(text) if text.is_empty()));
    ensure!(!text, "the response information is empty");
    Ok(())
}

/// Provokes each acknowledgement that could explain itself; the client's own checks fail on a reason string.
fn no_explanations_unwanted(s: &Scenario<'_>) -> Outcome {
    let connect = s.connection("c").with(Property::RequestProblemInformation(0));
    let (mut client, _) = s.connect_with("c", &connect)?;
    client.publish(&Publish::new(&s.topic("unwanted"), "x").qos(1))?;
    client.publish(&Publish::new(&s.topic("unwanted"), "x").qos(2))?;
    client.send_acknowledgement(crate::wire::PacketType::Pubrel, 4711)?;
    client.expect_acknowledgement(crate::wire::PacketType::Pubcomp, 4711)?;
    let packet_id = client.send_unsubscribe(&Unsubscribe::new(&s.topic("never")))?;
    client.expect_acknowledgement(crate::wire::PacketType::Unsuback, packet_id)?;
    client.subscribe_packet(&Subscribe::new(&s.topic("t"), 0))?;
    client.expect_nothing()
}

/// The pattern that the properties are for: the answer finds the one who asked.
fn request_and_response(s: &Scenario<'_>) -> Outcome {
    let (questions, answers) = (s.topic("questions"), s.topic("answers/me"));
    let (mut responder, mut requester) = s.subscriber_and_publisher(&questions, 0)?;
    requester.subscribe(&answers, 0)?;
    let question = Publish::new(&questions, "how warm?")
        .with(Property::ResponseTopic(answers.clone()))
        .with(Property::CorrelationData(b"42".to_vec()));
    requester.publish(&question)?;
    let arrived = responder.take_with("how warm?")?;
    let told = arrived.properties.iter().find_map(|property| match property {
        Property::ResponseTopic(topic) => Some(topic.clone()),
        _ => None,
    });
    ensure!(told.as_ref() == Some(&answers), "the response topic came as {told:?}");
    let answer = Publish::new(&answers, "21 degrees").with(Property::CorrelationData(b"42".to_vec()));
    responder.publish(&answer)?;
    let arrived = requester.take_with("21 degrees")?;
    ensure!(arrived.properties == answer.properties, "the answer came with {:?}", arrived.properties);
    Ok(())
}
