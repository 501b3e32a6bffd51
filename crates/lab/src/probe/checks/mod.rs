//! The questions, a file for each group of them.

mod delivery;
mod limits;
mod properties;
mod said;
mod sessions;
mod subscriptions;
mod versions;

use tidegate_mqtt::{
    Connect, ConnectProperties, Publish, PublishProperties, QoS, SubscriptionOptions, TopicName, Version,
};

use super::Finding;
use super::session::Session;
use crate::load::plan::Target;

type Result<T> = std::result::Result<T, String>;

/// Asks everything that the broker's versions allow.
pub(super) fn all(target: &Target) -> Result<Vec<Finding>> {
    let (mut findings, spoken, why) = versions::ask(target);
    let Some(best) = spoken.iter().copied().max_by_key(|version| order(*version)) else { return Err(why) };
    findings.extend(delivery::ask(target, best));
    findings.extend(subscriptions::ask(target, best));
    findings.extend(sessions::ask(target, best));
    if best.is_v5() {
        findings.extend(said::ask(target));
        findings.extend(properties::ask(target));
    }
    findings.extend(limits::ask(target, best));
    Ok(findings)
}

fn order(version: Version) -> u8 {
    match version {
        Version::V31 => 0,
        Version::V311 => 1,
        Version::V5 => 2,
    }
}

/// A CONNECT of a client that nobody else is.
pub(super) fn connect(version: Version, client_id: &str) -> Connect<'_> {
    Connect {
        version,
        clean_start: true,
        keep_alive: 60,
        client_id,
        will: None,
        username: None,
        password: None,
        properties: ConnectProperties::default(),
    }
}

/// A client id that differs from run to run, short enough for MQTT 3.1.
pub(super) fn own_id(name: &str) -> String {
    format!("lab-{:x}-{name}", std::process::id())
}

/// A topic that differs from run to run.
fn own_topic(name: &str) -> String {
    format!("tidegate-lab/{:x}/{name}", std::process::id())
}

fn open(target: &Target, version: Version, name: &str) -> Result<Session> {
    let id = own_id(name);
    Session::open(target, &connect(version, &id), |_| ()).map(|accepted| accepted.session)
}

fn message<'a>(topic: &'a str, payload: &'a [u8], qos: QoS) -> Result<Publish<'a>> {
    let topic = TopicName::new(topic).map_err(|error| error.to_string())?;
    Ok(Publish {
        dup: false,
        qos,
        retain: false,
        topic: Some(topic),
        packet_id: None,
        properties: PublishProperties::default(),
        payload,
    })
}

fn at(qos: QoS) -> SubscriptionOptions {
    SubscriptionOptions::new(qos)
}
