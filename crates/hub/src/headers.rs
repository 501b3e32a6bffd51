//! The properties of MQTT 5 as headers of other systems: sinks write them, and sources read them.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tidegate_client::TopicNameBuf;

use crate::message::{HOPS_PROPERTY, Message};
use crate::record::Record;

/// The names of headers in another system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderNames {
    pub(crate) content_type: &'static str,
    pub(crate) response_topic: &'static str,
    /// In base64.
    pub(crate) correlation_data: &'static str,
    /// When the message expires, Unix milliseconds.
    pub(crate) expires_at: &'static str,
    /// Headers that are no user properties.
    pub(crate) others: &'static [&'static str],
}

/// The headers of records of Kafka.
pub(crate) const KAFKA: HeaderNames = HeaderNames {
    content_type: "content-type",
    response_topic: "mqtt_response_topic",
    correlation_data: "mqtt_correlation_data",
    expires_at: "mqtt_expires_at",
    others: &["message_id", "mqtt_topic", "kafka_key"],
};

/// The headers of messages of NATS.
pub(crate) const NATS: HeaderNames = HeaderNames {
    content_type: "Content-Type",
    response_topic: "Mqtt-Response-Topic",
    correlation_data: "Mqtt-Correlation-Data",
    expires_at: "Mqtt-Expires-At",
    others: &["Mqtt-Topic"],
};

/// Bytes of the headers of a message of another system, each with [`HEADER_MEMORY`]. The source leaves out the others, and
/// the message fails.
pub(crate) const MAX_HEADER_BYTES: usize = 64 << 10;
/// Memory of a header beside its texts, bytes.
const HEADER_MEMORY: usize = size_of::<(String, String)>();

/// Counts the headers of a message.
#[derive(Debug)]
pub(crate) struct HeaderRoom(usize);

impl Default for HeaderRoom {
    fn default() -> Self {
        Self(MAX_HEADER_BYTES)
    }
}

impl HeaderRoom {
    /// Takes room for a header whose name and value have this length together. False if there is too little: then later
    /// headers have no room either.
    pub(crate) fn takes(&mut self, len: usize) -> bool {
        let left = self.0.checked_sub(len.saturating_add(HEADER_MEMORY));
        self.0 = left.unwrap_or_default();
        left.is_some()
    }
}

impl HeaderNames {
    /// The headers of a record: of a message that is sent as it came its properties, else none.
    pub(crate) fn of(&self, record: &Record) -> Vec<(Cow<'static, str>, String)> {
        if !record.is_as_it_came() {
            return Vec::new();
        }
        let message = &record.message;
        let mut headers = Vec::new();
        let mut put = |name: &'static str, value: Option<String>| {
            headers.extend(value.map(|value| (Cow::Borrowed(name), value)));
        };
        put(self.content_type, message.content_type.clone());
        put(self.response_topic, message.response_topic.clone());
        put(self.correlation_data, message.correlation_data.as_ref().map(|data| STANDARD.encode(data)));
        put(self.expires_at, message.expires_at.filter(|_| !message.archived).map(|at| at.to_string()));
        let own = message.user_properties.iter().filter(|(name, _)| !self.is_reserved(name));
        headers.extend(own.map(|(name, value)| (Cow::Owned(name.clone()), value.clone())));
        headers
    }

    /// Puts a header into a message: as its property, or as a user property.
    pub(crate) fn take(&self, message: &mut Message, name: &str, value: &str) {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if is(self.content_type) {
            message.content_type = Some(value.to_owned());
        } else if is(self.response_topic) && TopicNameBuf::new(value).is_ok() {
            message.response_topic = Some(value.to_owned());
        } else if let Some(data) = STANDARD.decode(value).ok().filter(|_| is(self.correlation_data)) {
            message.correlation_data = Some(data);
        } else if let Some(at) = value.parse().ok().filter(|_| is(self.expires_at)) {
            message.expires_at = Some(at);
        } else {
            // Also of a value that is not of its form: nothing is lost.
            message.user_properties.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Whether a user property of this name would be read as something else.
    fn is_reserved(&self, name: &str) -> bool {
        let own = [self.content_type, self.response_topic, self.correlation_data, self.expires_at, HOPS_PROPERTY];
        own.iter().chain(self.others).any(|other| name.eq_ignore_ascii_case(other))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::record::{Content, WholeMessage};

    #[test]
    fn the_headers_of_a_message_are_bounded() {
        let mut room = HeaderRoom::default();
        let count = (0..MAX_HEADER_BYTES).take_while(|_| room.takes(0)).count();
        assert_eq!(count, MAX_HEADER_BYTES / HEADER_MEMORY, "empty ones, too");
        assert!(!room.takes(0) && !HeaderRoom::default().takes(MAX_HEADER_BYTES));
        assert!(HeaderRoom::default().takes(MAX_HEADER_BYTES - HEADER_MEMORY));
        assert!(!HeaderRoom::default().takes(usize::MAX));
    }

    #[test]
    fn properties_are_the_same_behind_headers() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let message = Message {
            content_type: Some("text/plain".into()),
            response_topic: Some("answers/7".into()),
            correlation_data: Some(vec![0, 255]),
            expires_at: Some(1_772_323_200_000),
            user_properties: vec![pair("unit", "C"), pair("unit", "K")],
            ..Message::default()
        };
        for names in [KAFKA, NATS] {
            let of = |message: &Message| {
                let whole = Content::Whole(WholeMessage::default());
                let mut read = Message::default();
                for (name, value) in names.of(&Record::new(Arc::new(message.clone()), whole)) {
                    names.take(&mut read, &name, &value);
                }
                read
            };
            assert_eq!(of(&message), message);
            let mut forged = message.clone();
            for name in ["CONTENT-TYPE", names.expires_at, HOPS_PROPERTY, names.others[0]] {
                forged.user_properties.push(pair(name, "1"));
            }
            assert_eq!(of(&forged), message, "a user property is read as no other header");
            let mut odd = Message::default();
            names.take(&mut odd, names.correlation_data, "?");
            names.take(&mut odd, names.expires_at, "soon");
            names.take(&mut odd, names.response_topic, "a/#");
            let unread = [(names.correlation_data, "?"), (names.expires_at, "soon"), (names.response_topic, "a/#")];
            assert_eq!(odd.user_properties, unread.map(|(name, value)| pair(name, value)));
            let replayed = Message { archived: true, ..message.clone() };
            assert_eq!(of(&replayed).expires_at, None, "a replayed message does not expire");
            let row = Record::new(Arc::new(message.clone()), Content::Row(Vec::new()));
            assert!(names.of(&row).is_empty());
        }
    }
}
