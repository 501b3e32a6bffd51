//! The version that a broker reports.

use std::time::Duration;

use tidegate_mqtt::{QoS, SubscriptionOptions, Version};

use super::checks::{connect, own_id};
use super::session::Session;
use crate::load::plan::{Target, Transport};

/// The topic in which many brokers say their version, as a retained message.
const TOPIC: &str = "$SYS/broker/version";
/// Time to wait for it.
const PATIENCE: Duration = Duration::from_millis(500);
/// Longest text that is taken as a version.
const LONGEST: usize = 100;

/// A broker's own version over MQTT; empty if it reports none, or is not reached over TCP.
pub(crate) fn version_of(target: &Target) -> Option<String> {
    if target.transport != Transport::Tcp {
        return None;
    }
    let mut session = Session::open(target, &connect(Version::V311, &own_id("version")), |_| ()).ok()?.session;
    session.subscribe(TOPIC, SubscriptionOptions::new(QoS::AtMostOnce), None).ok()?;
    let said = session.message(PATIENCE, |message| message.topic == TOPIC).ok()??;
    session.leave();
    let said = String::from_utf8_lossy(&said.payload).trim().to_owned();
    (!said.is_empty() && said.len() <= LONGEST).then_some(said)
}
