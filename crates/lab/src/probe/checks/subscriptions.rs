//! Capabilities of filters and subscriptions.

use std::time::Duration;

use tidegate_mqtt::{QoS, RetainHandling, SubscriptionOptions, Version};

use super::{Result, at, message, open, own_topic};
use crate::load::plan::Target;
use crate::probe::session::{Message, PATIENCE, Session};
use crate::probe::{Answer, Finding};

const GROUP: &str = "subscriptions";
/// Time of waiting for a message that should not come; the expected one was there before.
const NOTHING: Duration = Duration::from_millis(300);

pub(super) fn ask(target: &Target, version: Version) -> Vec<Finding> {
    let found = |id, title, result: Result<bool>| Finding::tried(GROUP, id, title, Answer::from_result(result));
    let mut findings = vec![
        found("wildcard-one", "Wildcard of one level (+)", wildcard(target, version, "one/+/three")),
        found("wildcard-many", "Wildcard of all levels (#)", wildcard(target, version, "one/#")),
        found("shared", "Shared subscriptions", shared(target, version)),
        found("sys", "Topics below $SYS", sys(target, version)),
        Finding::tried(
            GROUP,
            "overlapping",
            "Copies for two overlapping filters of one client",
            overlapping(target, version),
        ),
    ];
    if version.is_v5() {
        findings.extend([
            found("subscription-identifier", "Subscription identifiers", identifier(target)),
            found("no-local", "No Local", no_local(target)),
            found("retain-as-published", "Retain As Published", retain_as_published(target)),
            found("retain-handling", "Retain Handling 2: no retained messages", retain_handling(target)),
        ]);
    }
    findings
}

/// A subscriber to a filter below its own topic, and a publisher.
fn pair(
    target: &Target,
    version: Version,
    filter: &str,
    options: SubscriptionOptions,
    id: Option<u32>,
) -> Result<(Session, Session, u8)> {
    let mut subscriber = open(target, version, "sub")?;
    let code = subscriber.subscribe(filter, options, id)?;
    Ok((subscriber, open(target, version, "pub")?, code))
}

fn wildcard(target: &Target, version: Version, filter: &str) -> Result<bool> {
    let base = own_topic("wildcard");
    let (mut subscriber, mut publisher, code) =
        pair(target, version, &format!("{base}/{filter}"), at(QoS::AtMostOnce), None)?;
    if code >= 0x80 {
        return Ok(false);
    }
    let topic = format!("{base}/one/two/three");
    publisher.publish(&message(&topic, b"w", QoS::AtMostOnce)?)?;
    Ok(subscriber.message(PATIENCE, |message| message.topic == topic)?.is_some())
}

fn shared(target: &Target, version: Version) -> Result<bool> {
    let topic = own_topic("shared");
    let filter = format!("$share/lab/{topic}");
    let mut first = open(target, version, "sub")?;
    let mut second = open(target, version, "sub2")?;
    if first.subscribe(&filter, at(QoS::AtLeastOnce), None)? >= 0x80
        || second.subscribe(&filter, at(QoS::AtLeastOnce), None)? >= 0x80
    {
        return Ok(false);
    }
    let mut publisher = open(target, version, "pub")?;
    for number in 0..20_u8 {
        publisher.publish(&message(&topic, &[number], QoS::AtLeastOnce)?)?;
    }
    let count = |session: &mut Session| -> Result<u32> {
        let mut came = 0;
        while session.message(NOTHING, |message: &Message| message.topic == topic)?.is_some() {
            came += 1;
        }
        Ok(came)
    };
    let (one, other) = (count(&mut first)?, count(&mut second)?);
    Ok(one + other == 20)
}

fn sys(target: &Target, version: Version) -> Result<bool> {
    let mut subscriber = open(target, version, "sub")?;
    if subscriber.subscribe("$SYS/#", at(QoS::AtMostOnce), None)? >= 0x80 {
        return Ok(false);
    }
    Ok(subscriber.message(PATIENCE, |message| message.topic.starts_with("$SYS/"))?.is_some())
}

fn overlapping(target: &Target, version: Version) -> Answer {
    let copies = || -> Result<u32> {
        let base = own_topic("overlap");
        let (mut subscriber, mut publisher, _) =
            pair(target, version, &format!("{base}/#"), at(QoS::AtMostOnce), None)?;
        subscriber.subscribe(&format!("{base}/+"), at(QoS::AtMostOnce), None)?;
        let topic = format!("{base}/a");
        publisher.publish(&message(&topic, b"o", QoS::AtMostOnce)?)?;
        let mut copies = 0;
        let mut wait = PATIENCE;
        while subscriber.message(wait, |message| message.topic == topic)?.is_some() {
            copies += 1;
            wait = NOTHING;
        }
        Ok(copies)
    };
    copies().map_or_else(|why| Answer::Unknown(why.to_string()), |copies| Answer::Value(copies.to_string()))
}

fn identifier(target: &Target) -> Result<bool> {
    let topic = own_topic("identifier");
    let (mut subscriber, mut publisher, code) = pair(target, Version::V5, &topic, at(QoS::AtMostOnce), Some(17))?;
    if code >= 0x80 {
        return Ok(false);
    }
    publisher.publish(&message(&topic, b"i", QoS::AtMostOnce)?)?;
    let came = subscriber.message(PATIENCE, |message| message.topic == topic)?;
    Ok(came.is_some_and(|message| message.subscription_identifiers == [17]))
}

fn no_local(target: &Target) -> Result<bool> {
    let topic = own_topic("local");
    let options = SubscriptionOptions { no_local: true, ..at(QoS::AtLeastOnce) };
    let (mut own, mut other, _) = pair(target, Version::V5, &topic, options, None)?;
    own.publish(&message(&topic, b"own", QoS::AtLeastOnce)?)?;
    other.publish(&message(&topic, b"other", QoS::AtLeastOnce)?)?;
    let first = own.message(PATIENCE, |message| message.topic == topic)?;
    Ok(first.is_some_and(|message| message.payload == b"other"))
}

fn retain_as_published(target: &Target) -> Result<bool> {
    let topic = own_topic("as-published");
    let options = SubscriptionOptions { retain_as_published: true, ..at(QoS::AtLeastOnce) };
    let (mut subscriber, mut publisher, _) = pair(target, Version::V5, &topic, options, None)?;
    let mut keep = message(&topic, b"kept", QoS::AtLeastOnce)?;
    keep.retain = true;
    publisher.publish(&keep)?;
    let came = subscriber.message(PATIENCE, |message| message.topic == topic)?;
    keep.payload = b"";
    publisher.publish(&keep)?;
    Ok(came.is_some_and(|message| message.retain))
}

fn retain_handling(target: &Target) -> Result<bool> {
    let topic = own_topic("handling");
    let mut publisher = open(target, Version::V5, "pub")?;
    let mut keep = message(&topic, b"kept", QoS::AtLeastOnce)?;
    keep.retain = true;
    publisher.publish(&keep)?;
    let mut subscriber = open(target, Version::V5, "sub")?;
    let options = SubscriptionOptions { retain_handling: RetainHandling::DoNotSend, ..at(QoS::AtLeastOnce) };
    subscriber.subscribe(&topic, options, None)?;
    subscriber.barrier()?;
    let came = subscriber.message(NOTHING, |message| message.topic == topic)?;
    keep.payload = b"";
    publisher.publish(&keep)?;
    Ok(came.is_none())
}
