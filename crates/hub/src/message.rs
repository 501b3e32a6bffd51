//! A message as a pipeline sees it.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::format::Format;

/// The user property in which the broker hands over who published a message, under which id, and when: it is set for
/// sessions of the hub alone.
pub const ORIGIN_PROPERTY: &str = "tidegate-hub";

/// The user property, or the header of a bus, with the number of pipelines that have published a message one after the other.
pub const HOPS_PROPERTY: &str = "tidegate-hub-hops";

/// Pipelines that a message may pass; bridges have the same number. The next pipeline refuses the message, so loops end.
pub const MAX_HOPS: u8 = 16;

/// The layout of messages in a log. Another one is not read.
const LAYOUT: u64 = 1;

/// The name of a field. The records of a pipeline share the names of its SELECT.
pub type FieldName = Arc<str>;

/// The publisher of a message, and when the broker took it.
///
/// Its text is `ID TIME CLIENT`, where the client id may have blanks. A known host follows the time, `ID TIME@HOST CLIENT`,
/// and a known user name with its bytes follows that: `ID TIME@HOST/BYTES USER CLIENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin<'a> {
    /// The same whenever the message is delivered again.
    pub(crate) id: &'a str,
    /// When the broker took it, Unix milliseconds.
    pub(crate) timestamp: u64,
    /// The address of the publisher.
    pub(crate) peer_host: Option<&'a str>,
    /// Its user name.
    pub(crate) user_name: Option<&'a str>,
    /// Its client id.
    pub(crate) client_id: &'a str,
}

impl<'a> Origin<'a> {
    /// Reads the value of [`ORIGIN_PROPERTY`].
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (id, rest) = split_at_blank(text)?;
        let (time, rest) = split_at_blank(rest)?;
        let Some((time, host)) = time.split_once('@') else {
            return Some(Self { id, timestamp: time.parse().ok()?, peer_host: None, user_name: None, client_id: rest });
        };
        let (host, len) = host.split_once('/').map_or((host, None), |(host, len)| (host, Some(len)));
        let (user_name, client_id) = match len {
            None => (None, rest),
            Some(len) => {
                let (user_name, rest) = rest.split_at_checked(len.parse().ok()?)?;
                (Some(user_name), rest.strip_prefix(' ')?)
            }
        };
        let peer_host = Some(host).filter(|host| !host.is_empty());
        Some(Self { id, timestamp: time.parse().ok()?, peer_host, user_name, client_id })
    }
}

/// The parts before and after the first blank.
fn split_at_blank(text: &str) -> Option<(&str, &str)> {
    let (steps, rest) = text.as_bytes().as_chunks();
    let in_step = |(number, step): (usize, &[u8; STEP])| Some(number * STEP + blank_in(u64::from_le_bytes(*step))?);
    let behind = || Some(steps.len() * STEP + rest.iter().position(|byte| *byte == b' ')?);
    let at = steps.iter().enumerate().find_map(in_step).or_else(behind)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Bytes that are looked at in one step: in a short text the set-up of a search for long texts costs more than the search.
const STEP: usize = size_of::<u64>();

/// The place of the first blank among eight bytes. Only a byte that was 0 lets a borrow reach its highest bit, and those
/// before the first one are not changed by it.
fn blank_in(bytes: u64) -> Option<usize> {
    const LOWEST: u64 = u64::from_ne_bytes([0x01; STEP]);
    const HIGHEST: u64 = u64::from_ne_bytes([0x80; STEP]);
    const BLANKS: u64 = u64::from_ne_bytes([b' '; STEP]);
    let differences = bytes ^ BLANKS;
    let found = differences.wrapping_sub(LOWEST) & !differences & HIGHEST;
    (found != 0).then(|| found.trailing_zeros() as usize / 8)
}

/// A message from a topic.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent, and each is read in another place")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its id: of the broker, or made up where the broker gives none.
    pub id: String,
    /// Whether the id is the same when the message is delivered again.
    pub lasting_id: bool,
    /// The topic name.
    pub topic: String,
    /// The publisher, where the broker names it.
    pub client_id: Option<String>,
    /// The user name of the publisher, where the broker knows it.
    pub user_name: Option<String>,
    /// The address of the publisher, where the broker knows it.
    pub peer_host: Option<String>,
    /// 0, 1 or 2, as it came to the hub.
    pub qos: u8,
    /// RETAIN as it came.
    pub retain: bool,
    /// When the broker took it, or else when the hub did; Unix milliseconds.
    pub timestamp: u64,
    /// Content Type of MQTT 5.
    pub content_type: Option<String>,
    /// Response Topic of MQTT 5.
    pub response_topic: Option<String>,
    /// Correlation Data of MQTT 5.
    pub correlation_data: Option<Vec<u8>>,
    /// When it expires, Unix milliseconds.
    pub expires_at: Option<u64>,
    /// Pipelines that have published it one after the other.
    pub hops: u8,
    /// User properties of MQTT 5, without the properties that the broker and pipelines add.
    pub user_properties: Vec<(String, String)>,
    /// The payload.
    pub payload: Vec<u8>,
    /// Whether it comes from the archive of the pipeline, which keeps it already.
    pub archived: bool,
    /// Whether its source has left out headers, which took more than `MAX_HEADER_BYTES`.
    pub headers_cut: bool,
}

impl Message {
    /// The message with its hops.
    pub(crate) fn with_hops(mut self) -> Self {
        self.take_hops();
        self
    }

    /// Reads its hops, which a pipeline has put among its user properties. A number that is too large or none counts as the
    /// largest.
    pub(crate) fn take_hops(&mut self) {
        self.user_properties.retain(|(name, value)| {
            let is_other = name != HOPS_PROPERTY;
            if !is_other {
                self.hops = self.hops.max(value.parse().unwrap_or(u8::MAX));
            }
            is_other
        });
    }

    /// Seconds until it expires, of a message that has expired 1: some brokers take 0 for no expiry. A replayed message does
    /// not expire. `now` is in Unix milliseconds.
    pub(crate) fn expiry(&self, now: u64) -> Option<u32> {
        let at = self.expires_at.filter(|_| !self.archived)?;
        Some(u32::try_from(at.saturating_sub(now).div_ceil(1000)).unwrap_or(u32::MAX).max(1))
    }

    /// Whether it has passed as many pipelines as it may.
    pub(crate) fn is_looped(&self) -> bool {
        self.hops >= MAX_HOPS
    }

    /// Bytes that it holds, roughly.
    pub fn size(&self) -> usize {
        let properties: usize = self.user_properties.iter().map(|(name, value)| name.len() + value.len()).sum();
        let asked =
            self.response_topic.as_ref().map_or(0, String::len) + self.correlation_data.as_ref().map_or(0, Vec::len);
        let publisher = [&self.client_id, &self.user_name, &self.peer_host].into_iter().flatten().map(String::len);
        let texts = self.topic.len() + self.id.len() + publisher.sum::<usize>();
        self.payload.len() + texts + properties + asked + 64
    }

    /// The message as a record of a log: a line of JSON with all but the payload, and the payload.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.head().to_string().into_bytes();
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    /// The message as a line of JSON, for an archive.
    pub(crate) fn to_line(&self) -> Vec<u8> {
        let mut line = self.head();
        match std::str::from_utf8(&self.payload) {
            Ok(text) if escaped_len(text) <= base64_len(text.len()) => line["payload"] = text.into(),
            _ => line["payload_base64"] = STANDARD.encode(&self.payload).into(),
        }
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        bytes
    }

    /// Reads such a line; nothing when it is torn or has another layout.
    pub(crate) fn from_line(line: &[u8]) -> Option<Self> {
        let head: Value = serde_json::from_slice(line).ok()?;
        let payload = match (head.get("payload"), head.get("payload_base64")) {
            (Some(text), _) => text.as_str()?.as_bytes().to_vec(),
            (None, text) => STANDARD.decode(text?.as_str()?).ok()?,
        };
        Self::of_head(&head, payload).filter(|_| head["v"] == LAYOUT)
    }

    /// All but the payload.
    fn head(&self) -> Value {
        let mut head = json!({
            "v": LAYOUT,
            "id": self.id,
            "topic": self.topic,
            "clientid": self.client_id,
            "qos": self.qos,
            "retain": self.retain,
            "timestamp": self.timestamp,
            "content_type": self.content_type,
            "user_properties": self.user_properties,
        });
        for (name, text) in [("username", &self.user_name), ("peerhost", &self.peer_host)] {
            if let Some(text) = text {
                head[name] = text.as_str().into();
            }
        }
        if self.hops > 0 {
            head["hops"] = self.hops.into();
        }
        if let Some(topic) = &self.response_topic {
            head["response_topic"] = topic.as_str().into();
        }
        if let Some(data) = &self.correlation_data {
            head["correlation_data"] = STANDARD.encode(data).into();
        }
        if let Some(at) = self.expires_at {
            head["expires_at"] = at.into();
        }
        head
    }

    /// Reads such a record; nothing when it has another layout.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, payload) = Self::head_of(bytes)?;
        Self::of_head(&head, payload.to_vec())
    }

    fn of_head(head: &Value, payload: Vec<u8>) -> Option<Self> {
        let text = |name: &str| head.get(name).and_then(Value::as_str).map(str::to_owned);
        let pair = |pair: &Value| Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.as_str()?.to_owned()));
        Some(Self {
            id: text("id")?,
            lasting_id: true,
            topic: text("topic")?,
            client_id: text("clientid"),
            user_name: text("username"),
            peer_host: text("peerhost"),
            qos: head.get("qos").and_then(Value::as_u64).and_then(|qos| u8::try_from(qos).ok())?,
            retain: head.get("retain")?.as_bool()?,
            timestamp: head.get("timestamp")?.as_u64()?,
            content_type: text("content_type"),
            response_topic: text("response_topic"),
            correlation_data: text("correlation_data").and_then(|data| STANDARD.decode(data).ok()),
            expires_at: head.get("expires_at").and_then(Value::as_u64),
            hops: head.get("hops").and_then(Value::as_u64).map_or(0, |hops| u8::try_from(hops).unwrap_or(u8::MAX)),
            user_properties: head.get("user_properties")?.as_array()?.iter().filter_map(pair).collect(),
            payload,
            archived: false,
            headers_cut: false,
        })
    }

    /// When the broker took the message of such a record, Unix milliseconds.
    pub(crate) fn time_of(bytes: &[u8]) -> Option<u64> {
        Self::head_of(bytes)?.0.get("timestamp")?.as_u64()
    }

    fn head_of(bytes: &[u8]) -> Option<(Value, &[u8])> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (head, payload) = bytes.split_at(end);
        let head: Value = serde_json::from_slice(head).ok()?;
        (head.get("v")?.as_u64()? == LAYOUT).then_some((head, payload.get(1..)?))
    }

    /// A field for expressions beside the payload.
    pub fn field(&self, name: &str) -> Option<Value> {
        Some(match name {
            "id" => json!(self.id),
            "topic" => json!(self.topic),
            "clientid" => json!(self.client_id),
            "username" => json!(self.user_name),
            "peerhost" => json!(self.peer_host),
            "qos" => json!(self.qos),
            "retain" => json!(self.retain),
            "flags" => json!({ "retain": self.retain }),
            "timestamp" | "publish_received_at" => json!(self.timestamp),
            "pub_props" => json!({ "Content-Type": self.content_type, "User-Property": self.properties() }),
            _ => return None,
        })
    }

    fn properties(&self) -> Value {
        let pair = |(name, value): &(String, String)| (name.clone(), Value::String(value.clone()));
        Value::Object(self.user_properties.iter().map(pair).collect::<Map<_, _>>())
    }

    /// All of it, for a pipeline that selects nothing.
    pub fn fields(&self, format: Format) -> Vec<(FieldName, Value)> {
        let payload = format.shown(&self.payload);
        let mut fields: Vec<(FieldName, Value)> = ["id", "topic", "clientid", "qos", "retain", "timestamp"]
            .into_iter()
            .filter_map(|name| Some((name.into(), self.field(name)?)))
            .collect();
        if !self.user_properties.is_empty() {
            fields.push(("user_properties".into(), self.properties()));
        }
        fields.push(("payload".into(), payload));
        fields
    }
}

/// Bytes of a text in JSON, without its quotes.
fn escaped_len(text: &str) -> usize {
    let of = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(of).sum()
}

/// Bytes of base64 for this number of bytes.
fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Names that expressions may look at.
pub(crate) const FIELDS: &[&str] = &[
    "id",
    "topic",
    "clientid",
    "username",
    "peerhost",
    "qos",
    "retain",
    "flags",
    "timestamp",
    "publish_received_at",
    "pub_props",
    "payload",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_of_a_line_is_written_in_the_shorter_form() {
        for payload in ["{\"temp\": 21.5}", "\u{1}\u{1}\u{1}", "\"\"\"\n\n\t\\", "\u{8}\u{c}\u{7f}\u{e4}", ""] {
            let escaped = serde_json::to_string(payload).unwrap().len() - 2;
            assert_eq!(escaped_len(payload), escaped, "{payload:?}");
            let message = Message { lasting_id: true, payload: payload.into(), ..Message::default() };
            let line = message.to_line();
            let encoded = STANDARD.encode(payload).len();
            assert_eq!(base64_len(payload.len()), encoded);
            let shown: Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(shown.get("payload_base64").is_some(), encoded < escaped, "{payload:?}");
            assert_eq!(Message::from_line(&line), Some(message));
        }
    }

    #[test]
    fn hops_are_no_user_property() {
        let of = |values: &[&str]| {
            let property = |value: &&str| (HOPS_PROPERTY.to_owned(), (*value).to_owned());
            let mut user_properties: Vec<_> = values.iter().map(property).collect();
            user_properties.push(("unit".to_owned(), "C".to_owned()));
            let message = Message { user_properties, ..Message::default() }.with_hops();
            assert_eq!(message.user_properties.len(), 1);
            (message.hops, message.is_looped())
        };
        assert_eq!(of(&[]), (0, false));
        assert_eq!(of(&["15"]), (15, false));
        assert_eq!(of(&["2", "16"]), (16, true));
        assert_eq!((of(&["x"]), of(&["300"])), ((255, true), (255, true)));
    }

    #[test]
    fn an_origin_has_an_id_a_time_and_a_client_id() {
        let plain = Origin { id: "a\u{e4}-1", timestamp: 17, peer_host: None, user_name: None, client_id: "" };
        let origin = |client_id: &'static str| Origin { client_id, ..plain };
        assert_eq!(Origin::parse("a\u{e4}-1 17 pump"), Some(origin("pump")));
        assert_eq!(Origin::parse("a\u{e4}-1 17 \u{e4} b "), Some(origin("\u{e4} b ")));
        assert_eq!(Origin::parse("a\u{e4}-1 17 "), Some(origin("")));
        for len in 1..40 {
            let id = "a".repeat(len);
            let text = format!("{id} {len} {}", "!".repeat(40 - len));
            let origin = Origin::parse(&text).unwrap();
            assert_eq!((origin.id, origin.timestamp, origin.client_id.len()), (&*id, len as u64, 40 - len));
        }
        let known = |peer_host, user_name, client_id| Some(Origin { peer_host, user_name, client_id, ..plain });
        for (text, expected) in [
            ("17@192.0.2.7 pump b", known(Some("192.0.2.7"), None, "pump b")),
            ("17@2001:db8::7/6 \u{e4} b c pump b", known(Some("2001:db8::7"), Some("\u{e4} b c"), "pump b")),
            ("17@/0  ", known(None, Some(""), "")),
            ("17@ pump", known(None, None, "pump")),
        ] {
            assert_eq!(Origin::parse(&format!("{} {text}", plain.id)), expected, "{text:?}");
        }
        for wrong in ["17@/1 \u{e4} pump", "17@/9 ann pump", "17@/2 ann pump", "17@/x ann pump", "x@/3 ann pump"] {
            assert_eq!(Origin::parse(&format!("a-1 {wrong}")), None, "{wrong:?}");
        }
        for text in ["", " ", "a-1", "a-1 17", "a-1  pump", "a-1 x pump", "a-1 -1 pump"] {
            assert_eq!(Origin::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_expiry_counts_down_to_a_second() {
        let message = Message { expires_at: Some(10_000), ..Message::default() };
        let of = |now: u64| message.expiry(now);
        assert_eq!(
            (of(0), of(7_001), of(9_999), of(10_000), of(99_000)),
            (Some(10), Some(3), Some(1), Some(1), Some(1))
        );
        assert_eq!(Message { expires_at: Some(u64::MAX), ..Message::default() }.expiry(0), Some(u32::MAX));
        assert_eq!(Message { archived: true, ..message }.expiry(0), None);
        assert_eq!(Message::default().expiry(0), None);
    }

    #[test]
    fn a_message_is_the_same_after_a_log() {
        let message = Message {
            id: "a-1".into(),
            lasting_id: true,
            topic: "plant/\u{e4} b/\n".into(),
            client_id: Some(" pump \n7".into()),
            user_name: Some("ann \u{e4}".into()),
            peer_host: Some("192.0.2.7".into()),
            qos: 1,
            retain: true,
            timestamp: u64::MAX,
            content_type: Some("x/y".into()),
            response_topic: Some("answers/\u{e4}".into()),
            correlation_data: Some(vec![0, 255]),
            expires_at: Some(u64::MAX),
            hops: 3,
            user_properties: vec![("a".into(), "1".into()), ("a".into(), "\u{1}".into())],
            payload: vec![0, 10, 255, 10],
            archived: false,
            headers_cut: false,
        };
        assert_eq!(Message::from_line(&message.to_line()), Some(message.clone()));
        let text = Message { payload: b"{\n\"a\": 1}".to_vec(), ..message.clone() };
        assert_eq!(Message::from_line(&text.to_line()), Some(text.clone()));
        let line = text.to_line();
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1), "it is one line");
        assert!((0..line.len() - 1).all(|end| Message::from_line(&line[..end]).is_none()));
        assert_eq!(Message::from_bytes(&message.to_bytes()), Some(message.clone()));
        assert_eq!(Message::time_of(&message.to_bytes()), Some(u64::MAX));
        let empty = Message { lasting_id: true, ..Message::default() };
        assert_eq!(Message::from_bytes(&empty.to_bytes()), Some(empty));
        for bytes in [&b""[..], b"x", b"{}\n", b"\n", b"{\"v\":2,\"id\":\"\"}\n"] {
            assert_eq!(Message::from_bytes(bytes), None);
        }
    }
}
