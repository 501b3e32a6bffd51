//! Statements of a broker about itself in CONNACK (MQTT 5).

use tidegate_mqtt::{ConnAck, ConnectProperties, Version};

use super::{connect, own_id};
use crate::load::plan::Target;
use crate::probe::session::Session;
use crate::probe::{Answer, Finding};

const GROUP: &str = "said in CONNACK";
/// The session expiry that is asked for, in seconds: for ever.
const FOR_EVER: u32 = u32::MAX;

pub(super) fn ask(target: &Target, _: Version) -> Vec<Finding> {
    let id = own_id("said");
    let mut asked = connect(Version::V5, &id);
    asked.properties = ConnectProperties {
        session_expiry_interval: Some(FOR_EVER),
        topic_alias_maximum: Some(10),
        request_response_information: Some(true),
        ..ConnectProperties::default()
    };
    let findings = match Session::open(target, &asked, findings) {
        Ok(accepted) => {
            accepted.session.leave();
            accepted.said
        }
        Err(why) => vec![Finding::said(GROUP, "connack", "CONNACK", Answer::Unknown(why.to_string()))],
    };
    // The session was asked for for ever: it is forgotten now.
    if let Ok(accepted) = Session::open(target, &connect(Version::V5, &id), |_| ()) {
        accepted.session.leave();
    }
    findings
}

fn findings(connack: &ConnAck<'_>) -> Vec<Finding> {
    let said = &connack.properties;
    let number = |value: Option<u64>, absent: &str| {
        Answer::Value(value.map_or_else(|| absent.to_owned(), |value| value.to_string()))
    };
    let available = |value: Option<bool>| Answer::from_bool(value.unwrap_or(true));
    let expiry = match said.session_expiry_interval {
        Some(FOR_EVER) | None => Answer::Value("for ever".to_owned()),
        Some(seconds) => Answer::Value(format!("{seconds} s")),
    };
    vec![
        Finding::said(
            GROUP,
            "receive-maximum",
            "Receive Maximum",
            number(said.receive_maximum.map(|value| u64::from(value.get())), "65535"),
        ),
        Finding::said(
            GROUP,
            "maximum-qos",
            "Maximum QoS",
            number(said.maximum_qos.map(|qos| u64::from(qos.bits())), "2"),
        ),
        Finding::said(GROUP, "retain-available", "Retained messages", available(said.retain_available)),
        Finding::said(
            GROUP,
            "maximum-packet-size",
            "Maximum Packet Size, bytes",
            number(said.maximum_packet_size.map(|value| u64::from(value.get())), "no limit"),
        ),
        Finding::said(
            GROUP,
            "topic-alias-maximum",
            "Topic Alias Maximum",
            number(said.topic_alias_maximum.map(u64::from), "0"),
        ),
        Finding::said(GROUP, "wildcards-available", "Wildcards", available(said.wildcard_subscription_available)),
        Finding::said(
            GROUP,
            "identifiers-available",
            "Subscription identifiers",
            available(said.subscription_identifier_available),
        ),
        Finding::said(GROUP, "shared-available", "Shared subscriptions", available(said.shared_subscription_available)),
        Finding::said(
            GROUP,
            "server-keep-alive",
            "Keep Alive in place of 60 s",
            number(said.server_keep_alive.map(u64::from), "none"),
        ),
        Finding::said(GROUP, "session-expiry", "Session expiry, asked for for ever", expiry),
        Finding::said(
            GROUP,
            "response-information",
            "Response information",
            Answer::from_bool(said.response_information.is_some()),
        ),
    ]
}
