//! The fields of a message in a request and in an answer: one table for both ways.
//!
//! | MQTT | query | header |
//! | --- | --- | --- |
//! | QoS | `qos` | `X-MQTT-QoS` |
//! | RETAIN | `retain` | `X-MQTT-Retain` |
//! | message expiry, seconds | `expiry` | `X-MQTT-Expiry` |
//! | content type | `content_type` | `Content-Type` |
//! | response topic | `response_topic` | `X-MQTT-Response-Topic` |
//! | correlation data, base64 | `correlation_data` | `X-MQTT-Correlation-Data` |
//! | user property NAME | `user.NAME` | `X-MQTT-User-NAME` |

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use tidegate_client::{MessageProperties, Publish, QoS, TopicNameBuf};
use tidegate_units::percent::unescape;

use crate::request_error::RequestError;

/// The content type that curl states for any data.
const FORM: &str = "application/x-www-form-urlencoded";
/// Begins headers with user properties.
const USER_HEADER: &str = "x-mqtt-user-";
/// Begins parameters with user properties.
const USER_PARAMETER: &str = "user.";
/// User properties of one message, in a request and in an answer.
pub(crate) const MAX_USER_PROPERTIES: usize = 64;
/// Names and values of the headers of an answer with a message, bytes. Many clients refuse a longer head.
const MAX_MESSAGE_HEADERS: usize = 16 << 10;
/// The content type of a message that has none, or one that no header can carry.
const ANY_DATA: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The fields of a message that a request names, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) qos: Option<String>,
    pub(crate) retain: Option<String>,
    pub(crate) expiry: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) response_topic: Option<String>,
    pub(crate) correlation_data: Option<String>,
    pub(crate) user_properties: Vec<(String, String)>,
}

/// The text of a part of a URL; `None` when its escapes are no UTF-8.
pub(crate) fn decoded(text: &str, plus_is_space: bool) -> Option<String> {
    if plus_is_space { unescape(&text.replace('+', " ")) } else { unescape(text) }
}

/// The parameters of a query.
pub(crate) fn parameters(query: &str) -> Option<Vec<(String, String)>> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Some((decoded(name, true)?, decoded(value, true)?))
    };
    parts.map(pair).collect()
}

impl Fields {
    /// The fields of a request. A parameter goes before a header.
    ///
    /// # Errors
    /// When a field is unknown, or its value is wrong.
    pub(crate) fn of(headers: &HeaderMap, parameters: &[(String, String)]) -> Result<Self, RequestError> {
        let mut fields = Self::default();
        for (name, value) in headers {
            let is_ours = *name == CONTENT_TYPE || name.as_str().starts_with("x-mqtt-");
            if !is_ours {
                continue;
            }
            let text = std::str::from_utf8(value.as_bytes()).map_err(|_| RequestError::Header(name.to_string()))?;
            match name.as_str() {
                "content-type" if text != FORM => fields.content_type = Some(text.to_owned()),
                "content-type" => {}
                name => match name.strip_prefix(USER_HEADER) {
                    Some(name) => fields.user_properties.push((name.to_owned(), text.to_owned())),
                    None => fields.set(&name["x-mqtt-".len()..].replace('-', "_"), text, name)?,
                },
            }
        }
        for (name, value) in parameters {
            match name.strip_prefix(USER_PARAMETER) {
                Some(name) => fields.user_properties.push((name.to_owned(), value.clone())),
                None => fields.set(name, value, name)?,
            }
        }
        if fields.user_properties.len() > MAX_USER_PROPERTIES {
            return Err(RequestError::UserProperties(MAX_USER_PROPERTIES));
        }
        Ok(fields)
    }

    fn set(&mut self, field: &str, value: &str, shown: &str) -> Result<(), RequestError> {
        let place = match field {
            "qos" => &mut self.qos,
            "retain" => &mut self.retain,
            "expiry" => &mut self.expiry,
            "content_type" => &mut self.content_type,
            "response_topic" => &mut self.response_topic,
            "correlation_data" => &mut self.correlation_data,
            _ => return Err(RequestError::UnknownField(shown.to_owned())),
        };
        *place = Some(value.to_owned());
        Ok(())
    }

    /// The QoS, if it is named.
    ///
    /// # Errors
    /// When its value is wrong.
    pub(crate) fn qos(&self, otherwise: QoS) -> Result<QoS, RequestError> {
        match self.qos.as_deref() {
            None => Ok(otherwise),
            Some("0") => Ok(QoS::AtMostOnce),
            Some("1") => Ok(QoS::AtLeastOnce),
            Some("2") => Ok(QoS::ExactlyOnce),
            Some(other) => Err(RequestError::Qos(other.to_owned())),
        }
    }

    /// Whether RETAIN is set; `otherwise` where the request does not say it.
    ///
    /// # Errors
    /// When its value is wrong.
    pub(crate) fn retain(&self, otherwise: bool) -> Result<bool, RequestError> {
        match self.retain.as_deref() {
            None => Ok(otherwise),
            Some("" | "1" | "true") => Ok(true),
            Some("0" | "false") => Ok(false),
            Some(other) => Err(wrong_value("retain", "true or false", other)),
        }
    }

    /// The message.
    ///
    /// # Errors
    /// When its value is wrong.
    pub(crate) fn message(self, topic: &str, payload: Vec<u8>) -> Result<Publish, RequestError> {
        let name = |topic: &str| TopicNameBuf::new(topic).map_err(RequestError::Topic);
        let (qos, retain) = (self.qos(QoS::AtLeastOnce)?, self.retain(false)?);
        let expiry = self.expiry.as_deref().map(|text| text.parse::<u32>().map_err(|_| text));
        let expiry = expiry.transpose().map_err(|text| wrong_value("expiry", "a number of seconds", text))?;
        let data = self.correlation_data.as_deref().map(|text| STANDARD.decode(text));
        let data = data.transpose().map_err(|_| RequestError::Base64("correlation_data"))?;
        let properties = MessageProperties {
            payload_format: None,
            message_expiry: expiry,
            content_type: self.content_type,
            response_topic: self.response_topic.as_deref().map(name).transpose()?,
            correlation_data: data,
            user_properties: self.user_properties,
        };
        let message = Publish::new(name(topic)?, payload).with_qos(qos).with_retain(retain);
        Ok(Publish { properties, ..message })
    }
}

fn wrong_value(name: &'static str, form: &'static str, value: &str) -> RequestError {
    RequestError::Value { name, form, value: value.to_owned() }
}

/// The headers of an answer with a message: within [`MAX_USER_PROPERTIES`] and [`MAX_MESSAGE_HEADERS`]. Fields
/// without room, and values that no header can carry, are left out.
pub(crate) fn headers_of(qos: u8, properties: &MessageProperties) -> Vec<(HeaderName, HeaderValue)> {
    let content_type = properties.content_type.as_deref().filter(|it| it.len() <= MAX_MESSAGE_HEADERS / 2);
    let content_type = content_type.and_then(|it| HeaderValue::from_str(it).ok()).unwrap_or(ANY_DATA);
    let mut room = MAX_MESSAGE_HEADERS.saturating_sub(CONTENT_TYPE.as_str().len() + content_type.len());
    let mut headers = vec![(CONTENT_TYPE, content_type)];
    let mut add = |name: &str, value: &str| {
        let Some(left) = room.checked_sub(name.len() + value.len()) else { return };
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            headers.push((name, value));
            room = left;
        }
    };
    add("x-mqtt-qos", &qos.to_string());
    if let Some(seconds) = properties.message_expiry {
        add("x-mqtt-expiry", &seconds.to_string());
    }
    if let Some(topic) = &properties.response_topic {
        add("x-mqtt-response-topic", topic.as_str());
    }
    if let Some(data) = &properties.correlation_data {
        add("x-mqtt-correlation-data", &STANDARD.encode(data));
    }
    for (name, value) in properties.user_properties.iter().take(MAX_USER_PROPERTIES) {
        add(&format!("{USER_HEADER}{name}"), value);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(query: &str) -> Result<Fields, RequestError> {
        Fields::of(&HeaderMap::new(), &parameters(query).unwrap())
    }

    #[test]
    fn every_field_has_a_parameter_and_a_header() {
        let query = "qos=2&retain=true&expiry=60&content_type=text/plain&response_topic=a%2Fb&correlation_data=AQI%3D&user.Unit=%C2%B0C";
        let by_query = fields(query).unwrap().message("t", vec![1]).unwrap();
        let mut headers = HeaderMap::new();
        let given = [
            ("content-type", "text/plain"),
            ("x-mqtt-qos", "2"),
            ("x-mqtt-retain", "1"),
            ("x-mqtt-expiry", "60"),
            ("x-mqtt-response-topic", "a/b"),
            ("x-mqtt-correlation-data", "AQI="),
        ];
        for (name, value) in given {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert("x-mqtt-user-unit", HeaderValue::from_bytes("°C".as_bytes()).unwrap());
        let by_header = Fields::of(&headers, &[]).unwrap().message("t", vec![1]).unwrap();
        let mut lower = by_query.clone();
        lower.properties.user_properties[0].0.make_ascii_lowercase();
        assert_eq!(lower, by_header, "names of headers have no case");
        assert_eq!(by_query.properties.user_properties, [("Unit".to_owned(), "°C".to_owned())]);
        assert_eq!(by_query.properties.correlation_data.as_deref(), Some(&[1, 2][..]));
        let shown = headers_of(2, &MessageProperties { user_properties: Vec::new(), ..by_header.properties });
        assert!(
            given
                .iter()
                .filter(|(name, _)| *name != "x-mqtt-retain")
                .all(|(name, value)| { shown.iter().any(|(header, text)| header == name && text == value) })
        );
    }

    #[test]
    fn headers_of_a_message_are_bounded_in_number_and_bytes() {
        let pairs = |count: usize, length: usize| {
            (0..count).map(|number| (number.to_string(), "v".repeat(length))).collect::<Vec<_>>()
        };
        let shown = |user_properties, content_type: &str| {
            let content_type = Some(content_type.to_owned());
            headers_of(1, &MessageProperties { content_type, user_properties, ..MessageProperties::default() })
        };
        assert_eq!(shown(pairs(40_000, 1), "a/b").len(), 2 + MAX_USER_PROPERTIES);
        let headers = shown(pairs(60, 1_000), "a/b");
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        assert!(headers.len() > 10 && bytes <= MAX_MESSAGE_HEADERS, "{bytes}");
        for unfit in ["a\nb", &"x".repeat(60_000)] {
            let headers = shown(pairs(1, 1), unfit);
            assert_eq!((headers.len(), &headers[0].1), (3, &ANY_DATA), "a browser guesses no type");
        }
    }

    #[test]
    fn a_wrong_field_is_named() {
        let cases = [
            ("qos=3", "the QoS is 0, 1 or 2"),
            ("retain=maybe", "`retain` is true or false"),
            ("expiry=-1", "`expiry` is a number of seconds"),
            ("correlation_data=%%", ""),
            ("correlation_data=!", "is not base64"),
            ("qso=1", "`qso` is not known"),
            ("response_topic=%2B", "the topic"),
        ];
        for (query, part) in cases {
            let Some(parameters) = parameters(query) else { continue };
            let found = Fields::of(&HeaderMap::new(), &parameters).and_then(|it| it.message("t", Vec::new()));
            assert!(found.clone().is_err_and(|error| error.to_string().contains(part)), "{query}: {found:?}");
        }
        assert!(fields("").unwrap().message("a/#", Vec::new()).is_err());
        let many: Vec<String> = (0..=MAX_USER_PROPERTIES).map(|number| format!("user.{number}=1")).collect();
        assert!(fields(&many.join("&")).is_err());
    }

    #[test]
    fn the_type_that_curl_gives_to_any_data_is_no_content_type() {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static(FORM));
        assert_eq!(Fields::of(&headers, &[]).unwrap().content_type, None);
    }

    #[test]
    fn escapes_are_read_and_wrong_ones_refused() {
        assert_eq!(decoded("a%2Fb+c", false).as_deref(), Some("a/b+c"));
        assert_eq!(decoded("a+c", true).as_deref(), Some("a c"));
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decoded(wrong, false), None, "{wrong}");
        }
    }
}
