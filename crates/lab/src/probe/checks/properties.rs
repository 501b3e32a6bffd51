//! Whether a message keeps its properties (MQTT 5).

use std::num::NonZeroU16;

use tidegate_mqtt::{ConnectProperties, PublishProperties, QoS, TopicName, UserProperties, Version};

use super::{Result, at, connect, message, open, own_id, own_topic};
use crate::load::plan::Target;
use crate::probe::session::{Message, PATIENCE, Session, SessionError};
use crate::probe::{Answer, Finding};

const GROUP: &str = "properties";

pub(super) fn ask(target: &Target, _: Version) -> Vec<Finding> {
    let found = |id, title, result: Result<bool>| Finding::tried(GROUP, id, title, Answer::from_result(result));
    let mut findings = Vec::new();
    match passed_on(target) {
        Ok(came) => findings.extend([
            found("user-properties", "User properties, in their order", Ok(came.user_properties == pairs())),
            found("content-type", "Content type", Ok(came.content_type.as_deref() == Some("text/plain"))),
            found("response-topic", "Response topic", Ok(came.response_topic.as_deref() == Some("answers/here"))),
            found(
                "correlation-data",
                "Correlation data",
                Ok(came.correlation_data.as_deref() == Some(b"42".as_slice())),
            ),
            found("message-expiry", "Message expiry", Ok(came.expiry.is_some_and(|left| left <= 100))),
        ]),
        Err(why) => findings.push(found("properties", "Properties of messages", Err(why))),
    }
    findings.push(found("alias-in", "Topic aliases from clients", alias_in(target)));
    findings.push(found("alias-out", "Topic aliases to clients", alias_out(target)));
    findings.push(found(
        "refused-not-closed",
        "A message without subscribers is answered with a reason",
        no_subscribers(target),
    ));
    findings
}

fn pairs() -> Vec<(String, String)> {
    [("b", "1"), ("a", "2"), ("b", "3")].map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

fn passed_on(target: &Target) -> Result<Message> {
    let topic = own_topic("properties");
    let mut subscriber = open(target, Version::V5, "sub")?;
    subscriber.subscribe(&topic, at(QoS::AtLeastOnce), None)?;
    let mut publisher = open(target, Version::V5, "pub")?;
    let mut with = message(&topic, b"p", QoS::AtLeastOnce)?;
    with.properties = PublishProperties {
        message_expiry: Some(100),
        response_topic: Some(TopicName::new("answers/here")?),
        correlation_data: Some(b"42"),
        content_type: Some("text/plain"),
        user_properties: UserProperties::new(&[("b", "1"), ("a", "2"), ("b", "3")]),
        ..PublishProperties::default()
    };
    publisher.publish(&with)?;
    let came = subscriber.message(PATIENCE, |message| message.topic == topic)?;
    came.ok_or(SessionError::NoMessage)
}

fn alias_in(target: &Target) -> Result<bool> {
    let topic = own_topic("alias");
    let mut subscriber = open(target, Version::V5, "sub")?;
    subscriber.subscribe(&topic, at(QoS::AtLeastOnce), None)?;
    let id = own_id("pub");
    let accepted = Session::open(target, &connect(Version::V5, &id), |connack| {
        connack.properties.topic_alias_maximum.unwrap_or(0)
    })?;
    if accepted.said == 0 {
        return Ok(false);
    }
    let mut publisher = accepted.session;
    let mut first = message(&topic, b"1", QoS::AtLeastOnce)?;
    first.properties.topic_alias = Some(NonZeroU16::MIN);
    publisher.publish(&first)?;
    first.topic = None;
    first.payload = b"2";
    publisher.publish(&first)?;
    Ok(subscriber.message(PATIENCE, |message| message.topic == topic && message.payload == b"2")?.is_some())
}

fn alias_out(target: &Target) -> Result<bool> {
    let topic = own_topic("alias-out");
    let id = own_id("sub");
    let mut asked = connect(Version::V5, &id);
    asked.properties = ConnectProperties { topic_alias_maximum: Some(10), ..ConnectProperties::default() };
    let mut subscriber = Session::open(target, &asked, |_| ())?.session;
    subscriber.subscribe(&topic, at(QoS::AtLeastOnce), None)?;
    let mut publisher = open(target, Version::V5, "pub")?;
    for number in 0..5_u8 {
        publisher.publish(&message(&topic, &[number], QoS::AtLeastOnce)?)?;
    }
    let last = subscriber.message(PATIENCE, |message| message.payload == [4])?;
    Ok(last.is_some_and(|message| message.aliased && message.topic == topic))
}

/// 0x10, No matching subscribers, is an optional code.
fn no_subscribers(target: &Target) -> Result<bool> {
    let mut publisher = open(target, Version::V5, "pub")?;
    let code = publisher.publish(&message(&own_topic("unread"), b"n", QoS::AtLeastOnce)?)?;
    Ok(code == 0x10)
}
