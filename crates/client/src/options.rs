//! The options of a client.

use std::num::{NonZeroU16, NonZeroU32};
use std::time::Duration;

use tidegate_mqtt::{
    Connect, ConnectProperties as ConnectPacketProperties, MAX_PACKET_SIZE, PacketId, QoS, UserProperties, Version,
    Will as WillPacket, WillProperties as WillPacketProperties,
};

use crate::publish::borrowed_pairs;
use crate::{MessageProperties, OpenError, TopicNameBuf};

/// The client's identity, its requests to the server, and its own limits.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version of the protocol.
    pub version: Version,
    /// Mark the client as a bridge of another broker, with the protocol level before MQTT 5.0. Some servers then send
    /// it none of its own messages, and keep RETAIN as published; others refuse it.
    pub bridge: bool,
    /// The Client Identifier; empty asks the server to assign one, which needs `clean_start` before MQTT 5.0
    /// and does not exist in MQTT 3.1.
    pub client_id: String,
    /// Forget the session that may exist (Clean Session before MQTT 5.0). See [`Client::open`](crate::Client::open).
    pub clean_start: bool,
    /// The longest silence of the client in seconds, after which it pings; 0 for no pings. A server may ask for
    /// another in MQTT 5.0.
    pub keep_alive: u16,
    /// The user name.
    pub username: Option<String>,
    /// The password: bytes of any kind. Before MQTT 5.0 it needs a user name.
    pub password: Option<Vec<u8>>,
    /// The message that the server publishes when the connection ends without a DISCONNECT.
    pub will: Option<Will>,
    /// The properties of the CONNECT packet; not sent before MQTT 5.0, though the limits among them hold.
    pub properties: ConnectProperties,
    /// How long the server may take to answer a CONNECT packet.
    pub connect_timeout: Duration,
    /// How long the server may take to answer a PUBREL packet once that is written. It has nothing to wait for then, other
    /// than for a PUBACK or a PUBREC, which it may hold back for as long as subscribers make it wait.
    pub release_timeout: Duration,
    /// How many messages of QoS 1 and 2 are sent before the first is acknowledged. The server's Receive Maximum
    /// may lower it.
    pub max_in_flight: NonZeroU16,
    /// How many messages may wait to be sent; beyond that [`PublishError::QueueFull`](crate::PublishError).
    pub max_queued_messages: usize,
    /// How many bytes of topics, payloads and properties may wait to be sent.
    pub max_queued_bytes: usize,
    /// How many messages beyond the client's Receive Maximum it takes from a server that ignores it, as Mosquitto 2.0
    /// does when it resumes a session. Each is an [`Event::BeyondReceiveMaximum`](crate::Event). One more is a
    /// [`ProtocolError`](crate::ProtocolError): the connection ends.
    pub max_messages_beyond: u16,
    /// The same bound in bytes of payloads that the client has not acknowledged.
    pub max_bytes_beyond: usize,
    /// How a message of QoS 2 is taken that the server has released and sends again.
    pub sent_after_release: SentAfterRelease,
    /// The side that acknowledges messages of QoS 1 and 2.
    pub acknowledgement: Acknowledgement,
    /// Report each packet as an [`Event::Trace`](crate::Event).
    pub trace: bool,
    /// The name of a user property that comes apart from the others, in [`Message::marked`](crate::Message::marked).
    pub mark: Option<&'static str>,
}

impl Options {
    /// MQTT 3.1.1 with a clean session, a Keep Alive of 60 seconds, and limits for a command line tool.
    pub fn new(client_id: impl Into<String>) -> Self {
        Self {
            version: Version::V311,
            bridge: false,
            client_id: client_id.into(),
            clean_start: true,
            keep_alive: 60,
            username: None,
            password: None,
            will: None,
            properties: ConnectProperties::default(),
            connect_timeout: Duration::from_secs(30),
            release_timeout: Duration::from_secs(60),
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
            max_queued_messages: 1_000,
            max_queued_bytes: 16 << 20,
            sent_after_release: SentAfterRelease::New,
            max_messages_beyond: MAX_MESSAGES_BEYOND,
            max_bytes_beyond: MAX_BYTES_BEYOND,
            acknowledgement: Acknowledgement::Automatic,
            trace: false,
            mark: None,
        }
    }

    /// The largest packet that the client takes, in bytes.
    pub(crate) fn max_packet_size(&self) -> u32 {
        let maximum = self.properties.maximum_packet_size;
        maximum.map_or(MAX_PACKET_SIZE, NonZeroU32::get)
    }

    /// How many messages of QoS 1 and 2 the client takes at once.
    pub(crate) fn receive_maximum(&self) -> u16 {
        let maximum = self.properties.receive_maximum;
        maximum.map_or(u16::MAX, NonZeroU16::get)
    }

    /// The largest Packet Identifier of a message.
    pub(crate) fn last_packet_id(&self) -> PacketId {
        PacketId::new(self.max_in_flight.get().saturating_add(SPARE_PACKET_IDS)).unwrap_or(PacketId::MAX)
    }

    /// Appends the CONNECT packet.
    pub(crate) fn encode_connect(&self, client_id: &str, out: &mut Vec<u8>) -> Result<(), OpenError> {
        let properties = &self.properties;
        let user_properties = borrowed_pairs(&properties.user_properties);
        let will = self.will.as_ref();
        let will_properties = will.map_or(&[][..], |will| &will.properties.user_properties);
        let will_pairs = borrowed_pairs(will_properties);
        let packet = Connect {
            version: self.version,
            bridge: self.bridge && !self.version.is_v5(),
            clean_start: self.clean_start,
            keep_alive: self.keep_alive,
            client_id,
            will: will.map(|will| will.as_packet(&will_pairs)).transpose()?,
            username: self.username.as_deref(),
            password: self.password.as_deref(),
            properties: ConnectPacketProperties {
                session_expiry_interval: properties.session_expiry_interval,
                receive_maximum: properties.receive_maximum,
                maximum_packet_size: properties.maximum_packet_size,
                topic_alias_maximum: properties.topic_alias_maximum,
                request_response_information: properties.request_response_information,
                request_problem_information: properties.request_problem_information,
                user_properties: UserProperties::new(&user_properties),
                authentication_method: properties.authentication_method.as_deref(),
                authentication_data: properties.authentication_data.as_deref(),
            },
        };
        Ok(packet.encode(out)?)
    }
}

/// The default of [`Options::max_messages_beyond`]: as many as there are Packet Identifiers. A lower bound would end the
/// connection before anything is acknowledged, and the server would send the same again on the next one.
const MAX_MESSAGES_BEYOND: u16 = u16::MAX;
/// The default of [`Options::max_bytes_beyond`].
const MAX_BYTES_BEYOND: usize = 256 << 20;

/// How many Packet Identifiers messages have beyond [`Options::max_in_flight`], so that one rests before it is used again.
const SPARE_PACKET_IDS: u16 = 64;

/// The default of [`Options::max_in_flight`].
const DEFAULT_MAX_IN_FLIGHT: NonZeroU16 = match NonZeroU16::new(20) {
    Some(count) => count,
    None => NonZeroU16::MIN,
};

/// The side that acknowledges messages of QoS 1 and 2 to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The client, as soon as it has put the message into its events.
    #[default]
    Automatic,
    /// Its owner, with [`Client::acknowledge`](crate::Client::acknowledge), once it has processed the message.
    Manual,
}

/// How the client takes a message of QoS 2 that the server has released and sends again on the next connection, with the
/// same Packet Identifier, DUP, and content, as Mosquitto 2.0 does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SentAfterRelease {
    /// As a new message, as the standard says.
    #[default]
    New,
    /// As known: it is acknowledged and not delivered.
    Known,
}

/// The properties of a CONNECT packet (MQTT 5.0). An absent property has the default given at its field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectProperties {
    /// How long the session outlives the connection, in seconds, `u32::MAX` for ever; absent: 0.
    pub session_expiry_interval: Option<u32>,
    /// How many messages of QoS 1 and 2 the server may send before the first is acknowledged; absent: 65,535.
    pub receive_maximum: Option<NonZeroU16>,
    /// The largest packet that the client takes, in bytes; absent: no limit but that of the protocol. Before
    /// MQTT 5.0 the server does not learn of it, and a larger packet ends the connection.
    pub maximum_packet_size: Option<NonZeroU32>,
    /// The greatest Topic Alias that the server may use; absent: 0, none.
    pub topic_alias_maximum: Option<u16>,
    /// Ask for Response Information.
    pub request_response_information: Option<bool>,
    /// Accept Reason Strings and User Properties in packets that report a failure; absent: yes.
    pub request_problem_information: Option<bool>,
    /// Pairs of a name and a value, in order.
    pub user_properties: Vec<(String, String)>,
    /// The name of the authentication method.
    pub authentication_method: Option<String>,
    /// Initial data of the authentication method; only with a method.
    pub authentication_data: Option<Vec<u8>>,
}

/// The message that the server publishes when the connection ends without a DISCONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    /// The topic of the will.
    pub topic: TopicNameBuf,
    /// The message itself, at most 65,535 bytes.
    pub payload: Vec<u8>,
    /// The Quality of Service of the message.
    pub qos: QoS,
    /// Publish it as a retained message.
    pub retain: bool,
    /// Will Delay Interval: how long after the connection the message is published, in seconds (MQTT 5.0).
    pub delay_interval: Option<u32>,
    /// The properties of the will (MQTT 5.0).
    pub properties: MessageProperties,
}

impl Will {
    /// A will of QoS 0 that is not retained and has no properties.
    pub fn new(topic: TopicNameBuf, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            topic,
            payload: payload.into(),
            qos: QoS::AtMostOnce,
            retain: false,
            delay_interval: None,
            properties: MessageProperties::default(),
        }
    }

    fn as_packet<'a>(&'a self, user_properties: &'a [(&'a str, &'a str)]) -> Result<WillPacket<'a>, OpenError> {
        let properties = &self.properties;
        let response_topic = properties.response_topic.as_ref();
        Ok(WillPacket {
            topic: self.topic.as_name()?,
            payload: &self.payload,
            qos: self.qos,
            retain: self.retain,
            properties: WillPacketProperties {
                delay_interval: self.delay_interval,
                payload_format: properties.payload_format,
                message_expiry: properties.message_expiry,
                content_type: properties.content_type.as_deref(),
                response_topic: response_topic.map(TopicNameBuf::as_name).transpose()?,
                correlation_data: properties.correlation_data.as_deref(),
                user_properties: UserProperties::new(user_properties),
                raw: &[],
            },
        })
    }
}
