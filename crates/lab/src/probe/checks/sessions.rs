//! State that outlives a connection.

use tidegate_mqtt::{Connect, ConnectProperties, QoS, TopicName, Version, Will, WillProperties};

use super::{Result, at, connect, message, open, own_id, own_topic};
use crate::load::plan::Target;
use crate::probe::session::{PATIENCE, Session};
use crate::probe::{Answer, Finding};

const GROUP: &str = "sessions";

pub(super) fn ask(target: &Target, version: Version) -> Vec<Finding> {
    let found = |id, title, result: Result<bool>| Finding::tried(GROUP, id, title, Answer::from_result(result));
    vec![
        found("session-present", "Sessions that outlive their connection", present(target, version)),
        found("queued", "Messages kept for a client that is away", queued(target, version)),
        found("will", "Wills", will(target, version)),
        found("takeover", "A second connection takes over the first", takeover(target, version)),
        found("assigned-id", "Clients without a client id", assigned(target, version)),
    ]
}

/// A CONNECT whose session is kept for a while.
pub(super) fn lasting(version: Version, client_id: &str, clean: bool) -> Connect<'_> {
    let mut asked = connect(version, client_id);
    asked.clean_start = clean;
    if version.is_v5() {
        asked.properties = ConnectProperties { session_expiry_interval: Some(60), ..ConnectProperties::default() };
    }
    asked
}

/// Forgets the session that a check has left.
pub(super) fn forget(target: &Target, version: Version, client_id: &str) {
    // A session of a minute that stays behind does no harm.
    if let Ok(accepted) = Session::open(target, &connect(version, client_id), |_| ()) {
        accepted.session.leave();
    }
}

fn present(target: &Target, version: Version) -> Result<bool> {
    let id = own_id("present");
    Session::open(target, &lasting(version, &id, true), |_| ())?.session.leave();
    let again = Session::open(target, &lasting(version, &id, false), |connack| connack.session_present)?;
    again.session.leave();
    forget(target, version, &id);
    Ok(again.said)
}

fn queued(target: &Target, version: Version) -> Result<bool> {
    let (id, topic) = (own_id("queued"), own_topic("queued"));
    let mut first = Session::open(target, &lasting(version, &id, true), |_| ())?.session;
    first.subscribe(&topic, at(QoS::AtLeastOnce), None)?;
    first.leave();
    let mut publisher = open(target, version, "pub")?;
    publisher.publish(&message(&topic, b"kept", QoS::AtLeastOnce)?)?;
    let mut back = Session::open(target, &lasting(version, &id, false), |_| ())?.session;
    let came = back.message(PATIENCE, |message| message.topic == topic)?;
    back.leave();
    forget(target, version, &id);
    Ok(came.is_some())
}

fn will(target: &Target, version: Version) -> Result<bool> {
    let (id, topic) = (own_id("will"), own_topic("will"));
    let mut subscriber = open(target, version, "sub")?;
    subscriber.subscribe(&topic, at(QoS::AtMostOnce), None)?;
    let mut dying = connect(version, &id);
    let topic_name = TopicName::new(&topic)?;
    let properties = WillProperties::default();
    dying.will = Some(Will { topic: topic_name, payload: b"gone", qos: QoS::AtMostOnce, retain: false, properties });
    // Without a farewell.
    drop(Session::open(target, &dying, |_| ())?);
    Ok(subscriber.message(PATIENCE, |message| message.topic == topic)?.is_some())
}

fn takeover(target: &Target, version: Version) -> Result<bool> {
    let id = own_id("takeover");
    let mut first = Session::open(target, &connect(version, &id), |_| ())?.session;
    let second = Session::open(target, &connect(version, &id), |_| ())?.session;
    // The first one gets a DISCONNECT or is closed; either ends the wait for a message by an error.
    let ended = first.message(PATIENCE, |_| false).is_err();
    second.leave();
    Ok(ended)
}

fn assigned(target: &Target, version: Version) -> Result<bool> {
    match Session::open(target, &connect(version, ""), |_| ()) {
        Ok(accepted) => {
            accepted.session.leave();
            Ok(true)
        }
        Err(why) if why.is_refusal() => Ok(false),
        Err(why) => Err(why),
    }
}
