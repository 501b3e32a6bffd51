//! Messages over time: expiry, and delayed delivery.

use std::time::Duration;

use tidegate_mqtt::{PublishProperties, QoS, Version};

use super::sessions::{forget, lasting};
use super::{Result, at, message, open, own_id, own_topic};
use crate::load::plan::Target;
use crate::probe::session::{Session, SessionError};
use crate::probe::{Answer, Finding};

const GROUP: &str = "time";
/// The least time after which a message expires, in seconds.
const EXPIRY_S: u32 = 1;
/// How long a message waits that is published one second ahead: brokers look at their clocks about once in a second.
const LATER: Duration = Duration::from_millis(2300);

pub(super) fn ask(target: &Target, version: Version) -> Vec<Finding> {
    // Both wait for the same seconds.
    let delayed = delay(target, version);
    let mut findings = Vec::new();
    if version.is_v5() {
        let expired = expires(target);
        findings.push(Finding::tried(
            GROUP,
            "expired",
            "Messages that have expired are not delivered",
            Answer::from_result(expired),
        ));
    }
    let patience = if version.is_v5() { Duration::from_millis(300) } else { LATER };
    let came = delayed.and_then(|(mut session, topic)| {
        let came = session.message(patience, |message| message.topic == topic)?;
        session.leave();
        Ok(came.is_some())
    });
    // A broker that refuses such a topic has no delayed messages.
    let came = Answer::from_bool(came.unwrap_or(false));
    findings.push(Finding::tried(GROUP, "delayed", "Delayed messages ($delayed/SECONDS/TOPIC)", came));
    findings
}

/// Publishes a message that is to come in a second.
fn delay(target: &Target, version: Version) -> Result<(Session, String)> {
    let topic = own_topic("delayed");
    let mut subscriber = open(target, version, "later")?;
    subscriber.subscribe(&topic, at(QoS::AtLeastOnce), None)?;
    let mut publisher = open(target, version, "pub")?;
    publisher.publish(&message(&format!("$delayed/1/{topic}"), b"later", QoS::AtLeastOnce)?)?;
    publisher.leave();
    Ok((subscriber, topic))
}

/// A message expires while its subscriber is away.
fn expires(target: &Target) -> Result<bool> {
    let (id, topic) = (own_id("expiry"), own_topic("expiry"));
    let mut first = Session::open(target, &lasting(Version::V5, &id, true), |_| ())?.session;
    first.subscribe(&topic, at(QoS::AtLeastOnce), None)?;
    first.leave();
    let mut publisher = open(target, Version::V5, "pub")?;
    let mut short = message(&topic, b"short", QoS::AtLeastOnce)?;
    short.properties = PublishProperties { message_expiry: Some(EXPIRY_S), ..PublishProperties::default() };
    publisher.publish(&short)?;
    publisher.publish(&message(&topic, b"lasting", QoS::AtLeastOnce)?)?;
    // It gets no messages: this waits.
    publisher.message(LATER, |_| false)?;
    let mut back = Session::open(target, &lasting(Version::V5, &id, false), |_| ())?.session;
    let came = back.message(crate::probe::session::PATIENCE, |message| message.topic == topic)?;
    back.leave();
    forget(target, Version::V5, &id);
    match came {
        Some(message) => Ok(message.payload == b"lasting"),
        None => Err(SessionError::Missing("message was kept")),
    }
}
