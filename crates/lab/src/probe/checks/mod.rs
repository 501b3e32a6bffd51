//! The questions, a file for each group of them.

mod admission;
mod delivery;
mod limits;
mod properties;
mod said;
mod sessions;
mod subscriptions;
mod time;
mod versions;

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tidegate_mqtt::{
    Connect, ConnectProperties, Publish, PublishProperties, QoS, SubscriptionOptions, TopicName, Version,
};

use super::Finding;
use super::session::{Result, Session, SessionError};
use crate::load::plan::Target;

/// Asks everything that the broker's versions allow.
pub(super) fn all(target: &Target) -> Result<Vec<Finding>> {
    let (mut findings, best) = versions::ask(target)?;
    // Groups mostly wait, so they wait together; large messages come alone, since they delay others.
    let mut groups: Vec<fn(&Target, Version) -> Vec<Finding>> = vec![delivery::ask, subscriptions::ask, sessions::ask];
    if best.is_v5() {
        groups.extend([said::ask as fn(&Target, Version) -> Vec<Finding>, properties::ask]);
    }
    groups.extend([time::ask as fn(&Target, Version) -> Vec<Finding>, admission::ask]);
    thread::scope(|scope| {
        let asked: Vec<_> = groups.iter().map(|ask| scope.spawn(move || ask(target, best))).collect();
        for group in asked {
            findings.extend(group.join().map_err(|_| SessionError::Panicked)?);
        }
        Ok::<(), SessionError>(())
    })?;
    findings.extend(limits::ask(target, best));
    Ok(findings)
}

/// A CONNECT of a client with its own id.
pub(super) fn connect(version: Version, client_id: &str) -> Connect<'_> {
    Connect {
        version,
        bridge: false,
        clean_start: true,
        keep_alive: 60,
        client_id,
        will: None,
        username: None,
        password: None,
        properties: ConnectProperties::default(),
    }
}

/// A client id that no other client has, short enough for MQTT 3.1 (23 bytes) with a name of up to nine letters.
pub(super) fn own_id(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % 256;
    format!("lab{:x}-{number:x}-{name}", std::process::id())
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
    let topic = TopicName::new(topic)?;
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
