//! How large things may be.

use tidegate_mqtt::{QoS, Version};

use super::{Result, at, connect, message, open, own_topic};
use crate::load::plan::Target;
use crate::probe::session::{PATIENCE, Session};
use crate::probe::{Answer, Finding};

const GROUP: &str = "limits";
/// Payloads that are tried, KiB; the search ends with the first that does not arrive.
const PAYLOADS: [u32; 9] = [1, 16, 64, 256, 1024, 2048, 4096, 8192, 16_384];
/// Lengths of topics that are tried, bytes.
const TOPICS: [usize; 5] = [128, 1024, 4096, 16_384, 65_000];
/// Levels of topics that are tried.
const LEVELS: [usize; 5] = [8, 32, 128, 512, 2048];
/// Lengths of client ids that are tried, bytes.
const CLIENT_IDS: [usize; 6] = [23, 64, 128, 256, 1024, 65_000];

pub(super) fn ask(target: &Target, version: Version) -> Vec<Finding> {
    let greatest = |id, title, tried: Option<String>| {
        Finding::tried(GROUP, id, title, tried.map_or(Answer::Unknown("none arrived".to_owned()), Answer::Value))
    };
    let payload =
        PAYLOADS.into_iter().take_while(|kib| arrives(target, version, &own_topic("size"), kib * 1024)).last();
    let payload = payload.map(|kib| at_least(&kib, PAYLOADS.last(), &format!("{kib} KiB")));
    let topic = TOPICS.into_iter().take_while(|len| arrives(target, version, &long_topic(*len), 1)).last();
    let topic = topic.map(|len| at_least(&len, TOPICS.last(), &format!("{len} bytes")));
    let levels = LEVELS.into_iter().take_while(|levels| arrives(target, version, &deep_topic(*levels), 1)).last();
    let levels = levels.map(|levels| at_least(&levels, LEVELS.last(), &levels.to_string()));
    let id = CLIENT_IDS.into_iter().take_while(|len| accepts_id(target, version, *len)).last();
    let id = id.map(|len| at_least(&len, CLIENT_IDS.last(), &format!("{len} bytes")));
    vec![
        greatest("payload", "Largest payload that arrived", payload),
        greatest("topic-length", "Longest topic that arrived", topic),
        greatest("topic-levels", "Most levels of a topic that arrived", levels),
        greatest("client-id", "Longest client id that was accepted", id),
    ]
}

/// The greatest that was tried is no limit.
fn at_least<T: PartialEq>(found: &T, greatest: Option<&T>, text: &str) -> String {
    if Some(found) == greatest { format!("{text}, more was not tried") } else { text.to_owned() }
}

fn long_topic(len: usize) -> String {
    let own = own_topic("");
    format!("{own}{}", "x".repeat(len.saturating_sub(own.len())))
}

fn deep_topic(levels: usize) -> String {
    format!("{}{}", own_topic("deep"), "/x".repeat(levels.saturating_sub(3)))
}

fn arrives(target: &Target, version: Version, topic: &str, bytes: u32) -> bool {
    let came = || -> Result<bool> {
        let mut subscriber = open(target, version, "sub")?;
        if subscriber.subscribe(topic, at(QoS::AtLeastOnce), None)? >= 0x80 {
            return Ok(false);
        }
        let mut publisher = open(target, version, "pub")?;
        let payload = vec![b'x'; bytes as usize];
        publisher.publish(&message(topic, &payload, QoS::AtLeastOnce)?)?;
        let came = subscriber.message(PATIENCE, |message| message.topic == topic)?;
        publisher.leave();
        subscriber.leave();
        Ok(came.is_some_and(|message| message.payload.len() == payload.len()))
    };
    came().unwrap_or(false)
}

fn accepts_id(target: &Target, version: Version, len: usize) -> bool {
    let id = "x".repeat(len);
    Session::open(target, &connect(version, &id), |_| ()).map(|accepted| accepted.session.leave()).is_ok()
}
