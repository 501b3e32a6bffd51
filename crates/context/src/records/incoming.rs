//! From an application's record to a message for nodes.

use tidegate_bus::Record;

use super::{Annotations, Envelope, Packing, headers};
use crate::register::Topic;

/// Longest topic of MQTT, bytes.
const MAX_TOPIC_BYTES: usize = 65_535;
/// Receipts that a message may ask for.
const RECEIPTS: [&str; 2] = ["delivered", "all"];

/// A message for nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// The levels behind `PREFIX/to/`: `node/ID`, `group/NAME` or `all`, and the rest that the sender appended.
    pub address: String,
    /// 0, 1 or 2.
    pub qos: u8,
    /// Seconds after which it is of no use.
    pub expiry: Option<u32>,
    /// When it is of no use any more, milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
    /// Its other properties. Priority and the request for receipts are among the user properties, as in MQTT.
    pub annotations: Annotations,
    /// The payload.
    pub payload: Vec<u8>,
}

/// Why a record is no message, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Rejected(pub String);

/// Reads a record of [`Topic::PrivateMessageTopic`], [`Topic::GroupMessageTopic`] or [`Topic::BroadcastMessageTopic`].
/// `packing` applies to a record without a header for its packing.
///
/// # Errors
/// When it is invalid: no receiver, an invalid topic, a number out of range, an unreadable envelope.
pub fn read_record(topic: Topic, record: &Record, packing: Packing) -> Result<Delivery, Rejected> {
    let get = |name| headers::get(&record.headers, name);
    let packing = match get(headers::ENVELOPE) {
        None => packing,
        Some(name) => Packing::named(name).ok_or_else(|| bad(headers::ENVELOPE, name, "plain, json or msgpack"))?,
    };
    let envelope = Envelope::read(packing, &record.payload).map_err(|error| Rejected(error.to_string()))?;
    let key = std::str::from_utf8(&record.key).ok().filter(|key| !key.is_empty());
    let recipient = envelope.recipient.as_deref().or(get(headers::RECIPIENT)).or(key);
    let rest = envelope.topic.as_deref().or(get(headers::TOPIC)).unwrap_or_default();
    let address = address_of(topic, recipient, rest)?;
    let qos = match envelope.qos {
        Some(qos) => qos,
        None => number(headers::QOS, get(headers::QOS), 2)?.map_or(1, |qos| qos as u8),
    };
    if qos > 2 {
        return Err(bad(headers::QOS, &qos.to_string(), "0, 1 or 2"));
    }
    let expiry = match envelope.duration {
        Some(seconds) => Some(seconds),
        None => number(headers::EXPIRY, get(headers::EXPIRY), u32::MAX)?,
    };
    let expires_at_ms = match get(headers::EXPIRES_AT) {
        None => None,
        Some(said) => Some(said.parse().map_err(|_| bad(headers::EXPIRES_AT, said, "milliseconds since 1970"))?),
    };
    let mut annotations = annotations_of(record, &envelope)?;
    let priority = match envelope.priority {
        Some(level) => Some(u32::from(level)),
        None => number(headers::PRIORITY, get(headers::PRIORITY), 9)?,
    };
    if let Some(level) = priority {
        annotations.user_properties.push((headers::PRIORITY.to_owned(), level.min(9).to_string()));
    }
    if let Some(receipt) = envelope.receipt.as_deref().or(get(headers::RECEIPT)) {
        if annotations.response_topic.is_none() {
            return Err(Rejected("it asks for receipts and has no response topic for them".to_owned()));
        }
        annotations.user_properties.push((headers::RECEIPT.to_owned(), receipt.to_owned()));
    }
    let unknown = |(name, value): &&(String, String)| name == headers::RECEIPT && !RECEIPTS.contains(&value.as_str());
    if let Some((_, receipt)) = annotations.user_properties.iter().find(unknown) {
        return Err(bad(headers::RECEIPT, receipt, "delivered or all"));
    }
    let payload = envelope.text.map(String::into_bytes).or(envelope.message.map(|blob| blob.0)).unwrap_or_default();
    Ok(Delivery { address, qos, expiry, expires_at_ms, annotations, payload })
}

fn annotations_of(record: &Record, envelope: &Envelope) -> Result<Annotations, Rejected> {
    let get = |name| headers::get(&record.headers, name);
    let text = |own: &Option<String>, name| own.clone().or_else(|| get(name).map(str::to_owned));
    let response_topic = text(&envelope.response_topic, headers::RESPONSE_TOPIC);
    if let Some(topic) = response_topic.as_deref().filter(|topic| !is_topic(topic)) {
        return Err(bad(headers::RESPONSE_TOPIC, topic, "a topic name of MQTT"));
    }
    let correlation_data = match (&envelope.correlation_data, get(headers::CORRELATION_DATA)) {
        (Some(blob), _) => Some(blob.0.clone()),
        (None, None) => None,
        (None, Some(said)) => {
            Some(headers::decode(said).ok_or_else(|| bad(headers::CORRELATION_DATA, said, "bytes in base64"))?)
        }
    };
    let user_properties = match get(headers::USER_PROPERTIES) {
        _ if !envelope.user_properties.is_empty() => envelope.user_properties.clone(),
        None => Vec::new(),
        Some(said) => serde_json::from_str(said)
            .map_err(|_| bad(headers::USER_PROPERTIES, said, "a JSON array of pairs of texts"))?,
    };
    let content_type = text(&envelope.content_type, headers::CONTENT_TYPE);
    let texts = user_properties.iter().flat_map(|(name, value): &(String, String)| [name, value]);
    let short = |text: &String| text.len() <= MAX_TOPIC_BYTES && !text.contains('\0');
    if !texts.chain(&content_type).all(short)
        || correlation_data.as_ref().is_some_and(|data| data.len() > MAX_TOPIC_BYTES)
    {
        return Err(Rejected("a text beside its payload is longer than 65535 bytes, or has a zero in it".to_owned()));
    }
    let is_text = get(headers::PAYLOAD_FORMAT).is_some_and(|said| matches!(said, "utf-8" | "1"));
    Ok(Annotations { content_type, is_text, response_topic, correlation_data, user_properties })
}

/// The levels behind `PREFIX/to/`.
fn address_of(topic: Topic, recipient: Option<&str>, rest: &str) -> Result<String, Rejected> {
    let named = |part: &str| {
        recipient.ok_or_else(|| {
            Rejected(format!("it names no {part}: neither its key, nor the header `recipient`, nor its envelope"))
        })
    };
    let mut address = match topic {
        Topic::PrivateMessageTopic => format!("node/{}", level_of(named("node")?)),
        Topic::GroupMessageTopic => {
            let group = named("group")?;
            if group.len() > 256 || group.contains('/') || !is_topic(group) {
                return Err(bad(headers::RECIPIENT, group, "the name of a group: one level of a topic"));
            }
            format!("group/{group}")
        }
        _ => "all".to_owned(),
    };
    if !rest.is_empty() {
        address.push('/');
        address.push_str(rest);
    }
    // The prefix comes before it; how long that is, the broker checks once more.
    if is_topic(&address) { Ok(address) } else { Err(bad(headers::TOPIC, rest, "levels of a topic name of MQTT")) }
}

/// Whether a text can be a topic name.
fn is_topic(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_TOPIC_BYTES && !text.contains(['+', '#', '\0'])
}

/// A name as a level of a topic.
fn level_of(name: &str) -> String {
    let escaped = [("%", "%25"), ("/", "%2F"), ("+", "%2B"), ("#", "%23")];
    escaped.iter().fold(name.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn number(name: &str, said: Option<&str>, max: u32) -> Result<Option<u32>, Rejected> {
    let Some(said) = said else { return Ok(None) };
    match said.parse::<u32>() {
        Ok(number) if number <= max => Ok(Some(number)),
        _ => Err(bad(name, said, &format!("a number from 0 to {max}"))),
    }
}

fn bad(part: &str, said: &str, wanted: &str) -> Rejected {
    let shown: String = said.chars().take(64).collect();
    Rejected(format!("its {part} is {shown:?} and has to be {wanted}"))
}
