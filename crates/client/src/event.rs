//! Events of a client for its owner.

use tidegate_mqtt::{PacketId, PacketType, ReasonCode, TopicError};

use crate::{Message, ProtocolError, Publish, PublishError, ServerLimits};

/// An event for the owner of a client. [`Client::poll_event`](crate::Client::poll_event) returns them in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server has accepted the connection.
    Connected(Box<Connected>),
    /// The connection is over, or could not be established. The last event of a connection.
    Disconnected(Disconnected),
    /// A message has arrived.
    Message(Box<Message>),
    /// A message is on its way (QoS 0: its last byte was handed to the transport) or has been settled by the
    /// server (QoS 1 and 2), maybe by a refusal.
    Published(Published),
    /// A message is no longer the client's: it has not been acknowledged and will not be sent again.
    Undelivered(Box<Undelivered>),
    /// The server has answered a SUBSCRIBE packet.
    Subscribed(RequestAnswer),
    /// The server has answered an UNSUBSCRIBE packet.
    Unsubscribed(RequestAnswer),
    /// The connection ended before the server answered a SUBSCRIBE or UNSUBSCRIBE packet.
    RequestLost(RequestToken),
    /// The server has sent a step of an authentication exchange (MQTT 5.0).
    Authentication(Box<Authentication>),
    /// The message that follows is beyond the Receive Maximum of the client; it is taken nevertheless. See
    /// [`Options::max_messages_beyond`](crate::Options::max_messages_beyond).
    BeyondReceiveMaximum,
    /// A message to an invalid topic has arrived, such as RabbitMQ makes of one to `a*`. It is acknowledged and dropped.
    InvalidTopic(TopicError),
    /// A packet was sent or received; only with [`Options::trace`](crate::Options::trace).
    Trace(Box<Trace>),
}

/// Names a message that was given to [`Client::publish`](crate::Client::publish).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublishToken(pub(crate) u64);

/// Names a SUBSCRIBE or UNSUBSCRIBE packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(pub(crate) u64);

/// The content of the server's CONNACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// The server resumed an earlier session: its subscriptions exist, and no unsettled message is lost.
    pub session_present: bool,
    /// The Client Identifier of the session: the client's own, or assigned by the server.
    pub client_id: String,
    /// The effective Keep Alive, in seconds; 0 for none.
    pub keep_alive: u16,
    /// How long the session outlives the connection, in seconds, when the server has changed it (MQTT 5.0).
    pub session_expiry_interval: Option<u32>,
    /// The server's limits.
    pub limits: ServerLimits,
    /// The basis of Response Topics, when it was asked for.
    pub response_information: Option<String>,
    /// Another server to use.
    pub server_reference: Option<String>,
    /// The Reason String, for people.
    pub reason_string: Option<String>,
    /// Pairs of the server's own.
    pub user_properties: Vec<(String, String)>,
    /// The final data of the authentication method.
    pub authentication_data: Option<Vec<u8>>,
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disconnected {
    /// The owner asked for it.
    Requested,
    /// The server has refused the connection by its CONNACK.
    Refused(Box<Dismissal>),
    /// The server has closed the connection by a DISCONNECT (MQTT 5.0).
    ByServer(Box<Dismissal>),
    /// The server has broken the protocol.
    Protocol(ProtocolError),
    /// The server has not answered the CONNECT packet in time.
    ConnectTimeout,
    /// The server has not answered a PINGREQ in time.
    KeepAliveTimeout,
    /// The server has not answered a PUBREL in time. The client sends it again when the session is resumed.
    ReleaseTimeout {
        /// The Packet Identifier of the message.
        packet_id: PacketId,
    },
    /// The transport has ended.
    TransportClosed,
}

/// The server's reason for refusing or closing a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dismissal {
    /// Why. For a Connect Return Code before MQTT 5.0 the Reason Code that says the same.
    pub reason_code: ReasonCode,
    /// The Reason String, for people.
    pub reason_string: Option<String>,
    /// Another server to use.
    pub server_reference: Option<String>,
    /// Pairs of the server's own.
    pub user_properties: Vec<(String, String)>,
}

/// How the publishing of a message ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The message.
    pub token: PublishToken,
    /// Its Packet Identifier; `None` at QoS 0.
    pub packet_id: Option<PacketId>,
    /// How it went; 0x80 or greater when the server refuses the message. Always success before MQTT 5.0.
    pub reason_code: ReasonCode,
    /// The Reason String, for people.
    pub reason_string: Option<String>,
    /// The message, where the server refuses it; its owner may publish it once more.
    pub refused: Option<Box<Publish>>,
}

/// A message that was not delivered, as far as the client knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// The token that [`Client::publish`](crate::Client::publish) gave for it.
    pub token: PublishToken,
    /// The message; `None` for one of QoS 0 that exists only as encoded bytes.
    pub publish: Option<Publish>,
    /// Why.
    pub cause: UndeliveredCause,
}

/// Why a message was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndeliveredCause {
    /// The server has no session of the client any more, so it is not known whether the message arrived.
    #[error("the server lost the session, and whether the message arrived is unknown")]
    SessionLost,
    /// A QoS 0 message was still to be written when the connection ended.
    #[error("the connection ended before the message was sent")]
    ConnectionLost,
    /// It cannot be sent to this server.
    #[error(transparent)]
    NotSendable(#[from] PublishError),
}

/// The server's answer to a SUBSCRIBE or UNSUBSCRIBE packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAnswer {
    /// The request.
    pub token: RequestToken,
    /// Its Packet Identifier.
    pub packet_id: PacketId,
    /// One code for each Topic Filter, in order: the granted QoS or the reason of a failure.
    pub reason_codes: Vec<ReasonCode>,
    /// The Reason String, for people.
    pub reason_string: Option<String>,
    /// Pairs of the server's own.
    pub user_properties: Vec<(String, String)>,
}

/// A step of an authentication exchange that the server has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// Whether the exchange continues ([`ReasonCode::ContinueAuthentication`]) or is over ([`ReasonCode::Success`]).
    pub reason_code: ReasonCode,
    /// Data of the authentication method.
    pub data: Option<Vec<u8>>,
    /// The Reason String, for people.
    pub reason_string: Option<String>,
}

/// A packet that went by, for people who look for a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The direction.
    pub direction: Direction,
    /// Its type.
    pub packet: PacketType,
    /// Its most telling fields as text; may be empty.
    pub detail: String,
}

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the server.
    Sent,
    /// From the server.
    Received,
}
