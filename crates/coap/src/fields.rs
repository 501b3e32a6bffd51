//! The fields of a message in a request and in an answer, as docs/coap.md has them in one table.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tidegate_client::{MessageProperties, Publish, QoS, TopicError, TopicNameBuf};
use tidegate_visitor::message_json;

use crate::{Credentials, format};

/// Begins parameters with user properties.
const USER_PARAMETER: &str = "user.";
/// User properties of one message.
const MAX_USER_PROPERTIES: usize = 64;

/// The invalid parameter of a query, or the invalid topic of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldError {
    #[error("a message may have {MAX_USER_PROPERTIES} user properties")]
    TooManyUserProperties,
    #[error("`expiry` is a number of seconds, not {0:?}")]
    Expiry(String),
    #[error("the response topic {0}")]
    ResponseTopic(TopicError),
    #[error("`correlation_data` is not base64")]
    CorrelationData,
    #[error("`{0}` is not known")]
    Unknown(String),
    #[error("the topic {0}")]
    Topic(TopicError),
    #[error("`{name}` is true or false, not {value:?}")]
    Flag { name: String, value: String },
    #[error("the QoS is 0, 1 or 2, not {0:?}")]
    Qos(String),
}

/// The parameters of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) credentials: Credentials,
    /// Whether an answer has a message with all its fields as JSON.
    pub(crate) event: bool,
    pub(crate) qos: Option<QoS>,
    pub(crate) retain: Option<bool>,
    expiry: Option<u32>,
    content_type: Option<String>,
    response_topic: Option<TopicNameBuf>,
    correlation_data: Option<Vec<u8>>,
    user_properties: Vec<(String, String)>,
}

impl Parameters {
    /// Reads the parameters.
    ///
    /// # Errors
    /// The invalid field.
    pub(crate) fn read(query: &[String]) -> Result<Self, FieldError> {
        let mut parameters = Self::default();
        for one in query.iter().filter(|one| !one.is_empty()) {
            let (name, value) = one.split_once('=').unwrap_or((one, ""));
            match name.strip_prefix(USER_PARAMETER) {
                Some(name) => parameters.user_properties.push((name.to_owned(), value.to_owned())),
                None => parameters.set(name, value)?,
            }
        }
        if parameters.user_properties.len() > MAX_USER_PROPERTIES {
            return Err(FieldError::TooManyUserProperties);
        }
        Ok(parameters)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), FieldError> {
        match name {
            "username" => self.credentials.user_name = Some(value.to_owned()),
            "password" | "token" => self.credentials.password = Some(value.as_bytes().to_vec()),
            "event" => self.event = flag(name, value)?,
            "retain" => self.retain = Some(flag(name, value)?),
            "qos" => self.qos = Some(qos(value)?),
            "expiry" => {
                let seconds = value.parse().map_err(|_| FieldError::Expiry(value.to_owned()))?;
                self.expiry = Some(seconds);
            }
            "content_type" => self.content_type = Some(value.to_owned()),
            "response_topic" => {
                let topic = TopicNameBuf::new(value).map_err(FieldError::ResponseTopic)?;
                self.response_topic = Some(topic);
            }
            "correlation_data" => {
                let data = STANDARD.decode(value).map_err(|_| FieldError::CorrelationData)?;
                self.correlation_data = Some(data);
            }
            _ => return Err(FieldError::Unknown(name.to_owned())),
        }
        Ok(())
    }

    /// The message of a request. `format` is its content format, and `qos` holds where the query names none.
    ///
    /// # Errors
    /// The invalid field.
    pub(crate) fn message(
        self,
        topic: &str,
        payload: Vec<u8>,
        format: Option<u16>,
        qos: QoS,
    ) -> Result<Publish, FieldError> {
        let topic = TopicNameBuf::new(topic).map_err(FieldError::Topic)?;
        let named = format.and_then(format::content_type).map(str::to_owned);
        let properties = MessageProperties {
            payload_format: None,
            message_expiry: self.expiry,
            content_type: self.content_type.or(named),
            response_topic: self.response_topic,
            correlation_data: self.correlation_data,
            user_properties: self.user_properties,
        };
        let (qos, retain) = (self.qos.unwrap_or(qos), self.retain.unwrap_or(false));
        Ok(Publish { properties, ..Publish::new(topic, payload).with_qos(qos).with_retain(retain) })
    }
}

fn flag(name: &str, value: &str) -> Result<bool, FieldError> {
    match value {
        "" | "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        other => Err(FieldError::Flag { name: name.to_owned(), value: other.to_owned() }),
    }
}

fn qos(value: &str) -> Result<QoS, FieldError> {
    match value {
        "0" => Ok(QoS::AtMostOnce),
        "1" => Ok(QoS::AtLeastOnce),
        "2" => Ok(QoS::ExactlyOnce),
        other => Err(FieldError::Qos(other.to_owned())),
    }
}

/// A message as an answer shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Its topic.
    pub topic: String,
    /// Its QoS, 0 to 2.
    pub qos: u8,
    /// Whether it is retained.
    pub retain: bool,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Its properties; the expiry is the remaining time.
    pub properties: MessageProperties,
}

impl Shown {
    /// Bytes that its fields take up in memory.
    pub(crate) fn size(&self) -> usize {
        let properties = &self.properties;
        let pairs = properties.user_properties.iter();
        let pairs: usize = pairs.map(|(name, value)| size_of::<(String, String)>() + name.len() + value.len()).sum();
        let texts = properties.content_type.as_deref().map_or(0, str::len)
            + properties.response_topic.as_ref().map_or(0, |topic| topic.as_str().len())
            + properties.correlation_data.as_deref().map_or(0, <[u8]>::len);
        size_of::<Self>() + self.topic.len() + self.payload.len() + texts + pairs
    }

    /// All fields as JSON, like the data of an event over HTTP.
    pub(crate) fn event(&self) -> Vec<u8> {
        let object = message_json(&self.topic, &self.payload, self.qos, self.retain, &self.properties);
        Value::Object(object).to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(query: &[&str]) -> Result<Parameters, FieldError> {
        Parameters::read(&query.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn every_field_has_a_parameter_and_a_member() {
        let query = [
            "qos=2",
            "retain",
            "expiry=60",
            "content_type=a/b",
            "response_topic=x/y",
            "correlation_data=AQI=",
            "user.Unit=°C",
        ];
        let message = read(&query).unwrap().message("t", vec![255], Some(50), QoS::AtMostOnce).unwrap();
        assert_eq!((message.qos, message.retain), (QoS::ExactlyOnce, true));
        let shown = Shown {
            topic: "t".to_owned(),
            qos: 2,
            retain: true,
            payload: message.payload,
            properties: message.properties,
        };
        let expected = json!({
            "topic": "t", "payload_base64": "/w==", "qos": 2, "retain": true, "expiry": 60, "content_type": "a/b",
            "response_topic": "x/y", "correlation_data": "AQI=", "user_properties": [["Unit", "°C"]],
        });
        assert_eq!(serde_json::from_slice::<Value>(&shown.event()).unwrap(), expected);
    }

    #[test]
    fn the_content_format_becomes_the_content_type() {
        let of = |format| read(&[]).unwrap().message("t", Vec::new(), format, QoS::AtMostOnce).unwrap();
        assert_eq!(of(Some(60)).properties.content_type.as_deref(), Some("application/cbor"));
        assert_eq!(of(None).properties.content_type, None);
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        let cases = [
            ("qos=3", "the QoS is 0, 1 or 2"),
            ("retain=maybe", "`retain` is true or false"),
            ("expiry=-1", "`expiry` is a number of seconds"),
            ("correlation_data=!", "is not base64"),
            ("response_topic=+", "the response topic"),
            ("qso=1", "`qso` is not known"),
        ];
        for (query, part) in cases {
            assert!(read(&[query]).is_err_and(|error| error.to_string().contains(part)), "{query}");
        }
        let many: Vec<String> = (0..=MAX_USER_PROPERTIES).map(|number| format!("user.{number}=1")).collect();
        assert!(Parameters::read(&many).is_err());
        assert!(read(&[]).unwrap().message("a/#", Vec::new(), None, QoS::AtMostOnce).is_err());
    }

    #[test]
    fn credentials_are_not_printed() {
        let credentials = read(&["username=ann", "password=secret"]).unwrap().credentials;
        assert_eq!(format!("{credentials:?}"), "Credentials { user_name: Some(\"ann\"), .. }");
        assert_eq!(read(&["token=ey.x"]).unwrap().credentials.password.as_deref(), Some(&b"ey.x"[..]));
    }
}
