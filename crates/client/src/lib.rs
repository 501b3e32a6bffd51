//! An MQTT client for MQTT 3.1, 3.1.1 and 5.0: for the command line, and for connections to other brokers.
//!
//! - [`Client`] is the protocol without any I/O: it takes bytes and the time, and returns bytes and [`Event`]s. It
//!   keeps the session over connections: no message of QoS 1 is lost and none of QoS 2 arrives twice, whatever happens
//!   to the transport.
//! - [`net`] drives a `Client` over a socket, for programs that may block.
//!
//! No input from a server makes the client panic or grow without bound; see [`Options`] for the limits. Identifiers
//! such as [MQTT-3.3.1-2] are from the MQTT 5.0 standard unless 3.1.1 is named.
//!
//! `client` handles input and deadlines. Its parts are `options` (before CONNECT), `outgoing` and `incoming` (unsettled
//! messages), `keep_alive`, `aliases`, `packet_ids`, `limits` (of the server), `event` and `error`.

mod aliases;
mod client;
mod error;
mod event;
mod incoming;
mod inherited;
mod keep_alive;
mod limits;
mod message;
pub mod net;
mod options;
mod outgoing;
mod output;
mod packet_ids;
mod publish;
mod released;
mod releases;
mod spares;
mod subscription;
mod topic;
mod trace;

pub use client::Client;
pub use error::{OpenError, ProtocolError, PublishError, RequestError};
pub use event::{
    Authentication, Connected, Direction, Disconnected, Dismissal, Event, PublishToken, Published, RequestAnswer,
    RequestToken, Trace, Undelivered, UndeliveredCause,
};
pub use limits::ServerLimits;
pub use message::{Delivery, Message, MessageProperties};
pub use options::{Acknowledgement, ConnectProperties, Options, SentAfterRelease, Will};
pub use publish::Publish;
pub use subscription::{DisconnectRequest, SubscribeRequest, UnsubscribeRequest};
pub use tidegate_mqtt::{
    EncodeError, MAX_PACKET_SIZE, PacketId, PacketType, PayloadFormat, QoS, ReasonCode, RetainHandling,
    SubscriptionOptions, TopicError, Version,
};
pub use topic::{TopicFilterBuf, TopicNameBuf};
