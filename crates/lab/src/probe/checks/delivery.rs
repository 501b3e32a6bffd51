//! Whether messages are delivered, and with which QoS.

use tidegate_mqtt::{QoS, Version};

use super::{Result, at, message, open, own_topic};
use crate::load::plan::Target;
use crate::probe::session::PATIENCE;
use crate::probe::{Answer, Finding};

const GROUP: &str = "delivery";

pub(super) fn ask(target: &Target, version: Version) -> Vec<Finding> {
    let qualities = [
        (QoS::AtMostOnce, "qos-0", "QoS 0"),
        (QoS::AtLeastOnce, "qos-1", "QoS 1"),
        (QoS::ExactlyOnce, "qos-2", "QoS 2"),
    ];
    let mut findings: Vec<Finding> = qualities
        .into_iter()
        .map(|(qos, id, title)| Finding::tried(GROUP, id, title, Answer::from_result(delivered(target, version, qos))))
        .collect();
    findings.push(Finding::tried(
        GROUP,
        "retained",
        "Retained messages",
        Answer::from_result(retained(target, version)),
    ));
    findings.push(Finding::tried(
        GROUP,
        "order",
        "Order of 100 messages of QoS 1",
        Answer::from_result(order(target, version)),
    ));
    findings
}

fn delivered(target: &Target, version: Version, qos: QoS) -> Result<bool> {
    let topic = own_topic("qos");
    let mut subscriber = open(target, version, "sub")?;
    if subscriber.subscribe(&topic, at(qos), None)? != qos.bits() {
        return Ok(false);
    }
    let mut publisher = open(target, version, "pub")?;
    publisher.publish(&message(&topic, b"quality", qos)?)?;
    let came = subscriber.message(PATIENCE, |message| message.topic == topic)?;
    publisher.leave();
    subscriber.leave();
    Ok(came.is_some_and(|message| message.qos == qos.bits()))
}

fn retained(target: &Target, version: Version) -> Result<bool> {
    let topic = own_topic("retained");
    let mut publisher = open(target, version, "pub")?;
    let mut keep = message(&topic, b"kept", QoS::AtLeastOnce)?;
    keep.retain = true;
    publisher.publish(&keep)?;
    let mut subscriber = open(target, version, "sub")?;
    subscriber.subscribe(&topic, at(QoS::AtLeastOnce), None)?;
    let came = subscriber.message(PATIENCE, |message| message.topic == topic)?;
    keep.payload = b"";
    publisher.publish(&keep)?;
    publisher.leave();
    subscriber.leave();
    Ok(came.is_some_and(|message| message.retain && message.payload == b"kept"))
}

fn order(target: &Target, version: Version) -> Result<bool> {
    let topic = own_topic("order");
    let mut subscriber = open(target, version, "sub")?;
    subscriber.subscribe(&topic, at(QoS::AtLeastOnce), None)?;
    let mut publisher = open(target, version, "pub")?;
    for number in 0..100_u8 {
        publisher.publish(&message(&topic, &[number], QoS::AtLeastOnce)?)?;
    }
    for number in 0..100_u8 {
        let Some(came) = subscriber.message(PATIENCE, |message| message.topic == topic)? else { return Ok(false) };
        if came.payload != [number] {
            return Ok(false);
        }
    }
    publisher.leave();
    subscriber.leave();
    Ok(true)
}
