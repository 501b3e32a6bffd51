//! Refused requests of the owner, and protocol errors of servers.

use tidegate_mqtt::{DecodeError, EncodeError, FrameError, PacketId, PacketType, QoS, ReasonCode, TopicError};

/// Why a connection cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is one already; report its end first.
    #[error("the client has a connection already")]
    AlreadyOpen,
    /// The topic of the will, or its response topic, is invalid.
    #[error("a topic of the will {0}")]
    InvalidWillTopic(#[from] TopicError),
    /// The CONNECT packet cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Why a message cannot be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// A topic is invalid.
    #[error("the topic {0}")]
    InvalidTopic(#[from] TopicError),
    /// Properties and topic aliases do not exist before MQTT 5.0.
    #[error("message properties and topic aliases need MQTT 5.0")]
    NeedsV5,
    /// The server does not take messages of this QoS ([MQTT-3.2.2-11]).
    #[error("the server takes QoS {maximum} at most", maximum = .maximum.bits())]
    QosNotSupported {
        /// The greatest that it takes.
        maximum: QoS,
    },
    /// The server keeps no retained messages ([MQTT-3.2.2-14]).
    #[error("the server keeps no retained messages")]
    RetainNotSupported,
    /// The alias is greater than the server's Topic Alias Maximum ([MQTT-3.2.2-17]).
    #[error("topic alias {alias} is greater than {maximum}, the greatest that the server takes")]
    TopicAliasTooGreat {
        /// The alias.
        alias: u16,
        /// The server's Topic Alias Maximum; 0 when it accepts none.
        maximum: u16,
    },
    /// As many messages or bytes are waiting as [`Options`](crate::Options) allows.
    #[error("the queue of outgoing messages is full")]
    QueueFull,
    /// The PUBLISH packet cannot be encoded, for example because it is larger than the server takes.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Why a SUBSCRIBE, UNSUBSCRIBE, AUTH or DISCONNECT packet cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There is no connection, or the server has not accepted it yet.
    #[error("the client is not connected")]
    NotConnected,
    /// A topic filter is invalid.
    #[error("the topic filter {0}")]
    InvalidTopicFilter(#[from] TopicError),
    /// The request uses a feature that needs MQTT 5.0.
    #[error("{feature} need MQTT 5.0")]
    NeedsV5 {
        /// The feature.
        feature: &'static str,
    },
    /// The server does not support such subscriptions.
    #[error("{}", .0.text())]
    NotSupported(ReasonCode),
    /// All 65,535 packet identifiers are in use.
    #[error("all packet identifiers are in use")]
    NoPacketId,
    /// The packet cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// A protocol error of the server. The client then closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The stream of bytes cannot be split into packets.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A packet is malformed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The answer to CONNECT is not MQTT: the port belongs to another protocol.
    #[error("the server speaks {speaks} on this port, not MQTT")]
    AnotherProtocol {
        /// The server's protocol: `TLS` or `HTTP`.
        speaks: &'static str,
    },
    /// A packet that only clients send, or that is not allowed in this state.
    #[error("the server sent {packet} out of place")]
    UnexpectedPacket {
        /// The packet.
        packet: PacketType,
    },
    /// The server says that it has a session although the client asked for a new one ([MQTT-3.2.2-2]).
    #[error("the server resumed a session although a new one was asked for")]
    SessionNotAskedFor,
    /// An acknowledgement of the wrong type for the message.
    #[error("the server sent {packet} for packet identifier {packet_id}, which expects another packet")]
    WrongAcknowledgement {
        /// The packet.
        packet: PacketType,
        /// The Packet Identifier.
        packet_id: PacketId,
    },
    /// A SUBACK or UNSUBACK has not one Reason Code for each Topic Filter ([MQTT-3.9.3-1]).
    #[error("{packet} has {found} reason codes for {expected} topic filters")]
    ReasonCodeCount {
        /// The packet.
        packet: PacketType,
        /// How many Topic Filters there were.
        expected: usize,
        /// How many Reason Codes there are.
        found: usize,
    },
    /// The server has sent more than the client's Receive Maximum ([MQTT-3.3.4-9]).
    #[error("the server sent more than {maximum} messages at once, the receive maximum")]
    ReceiveMaximumExceeded {
        /// The client's Receive Maximum.
        maximum: u16,
    },
    /// A Topic Alias is greater than the client's Topic Alias Maximum ([MQTT-3.3.2-9]).
    #[error("the server used topic alias {alias}, greater than {maximum}")]
    TopicAliasTooGreat {
        /// The alias.
        alias: u16,
        /// The client's Topic Alias Maximum.
        maximum: u16,
    },
    /// A Topic Alias was used before it was set.
    #[error("the server used topic alias {alias} without a topic")]
    UnknownTopicAlias {
        /// The alias.
        alias: u16,
    },
    /// Only a client sends a Session Expiry Interval in a DISCONNECT packet ([MQTT-3.14.2-2]).
    #[error("the server sent DISCONNECT with a session expiry interval")]
    SessionExpiryFromServer,
}

impl ProtocolError {
    /// The Reason Code of the DISCONNECT packet by which the client reports the error.
    pub const fn reason_code(&self) -> ReasonCode {
        match self {
            Self::Frame(error) => error.reason_code(),
            Self::Decode(error) => match error.reason_code() {
                // Only a CONNACK may carry this one.
                ReasonCode::UnsupportedProtocolVersion => ReasonCode::ProtocolError,
                code => code,
            },
            Self::ReceiveMaximumExceeded { .. } => ReasonCode::ReceiveMaximumExceeded,
            Self::TopicAliasTooGreat { .. } => ReasonCode::TopicAliasInvalid,
            Self::AnotherProtocol { .. }
            | Self::UnexpectedPacket { .. }
            | Self::SessionNotAskedFor
            | Self::WrongAcknowledgement { .. }
            | Self::ReasonCodeCount { .. }
            | Self::UnknownTopicAlias { .. }
            | Self::SessionExpiryFromServer => ReasonCode::ProtocolError,
        }
    }
}
