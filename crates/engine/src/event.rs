//! Requests of the engine to its shell.

use crate::events::reason::Reason;
use crate::identity::Identity;
use crate::ids::{ConnectionKey, ListenerId, ObserverId, PrincipalId, ShardId, TenantId};
use crate::now::Millis;
use crate::settings::broker_links::DialAttempt;
use std::sync::Arc;
use tidegate_mqtt::{QoS, ReasonCode, Version};

/// Something that the shell has to do or to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Write the rest of the output, within a bound, then close the transport and release the connection.
    Close {
        /// The connection.
        key: ConnectionKey,
        /// Why it ends.
        reason: Reason,
    },
    /// The client's home is another shard: the socket and all bytes read so far go there. The key is forgotten already.
    HandOver {
        /// The connection.
        key: ConnectionKey,
        /// The home of the client.
        home: ShardId,
        /// The listener that it came from.
        listener: ListenerId,
        /// All received and unprocessed bytes: the CONNECT packet and the bytes after it.
        bytes: Vec<u8>,
    },
    /// The client's home is another orchestrator, by its number in [`Homes::references`](crate::Homes::references).
    /// Once that is reached, [`HomeCalls::leave_for_home`](crate::HomeCalls::leave_for_home) gives the connection away;
    /// [`HomeCalls::fail_relay`](crate::HomeCalls::fail_relay) says why not.
    Relay {
        /// The connection.
        key: ConnectionKey,
        /// The place of the home.
        place: u16,
    },
    /// Another node brings the image of a connection that is to continue here, with a proof of the shell. Nothing else of
    /// the connection is taken until [`HomeCalls::continue_connection`](crate::HomeCalls::continue_connection) has
    /// answered.
    Continue {
        /// The connection.
        key: ConnectionKey,
        /// The image and its proof, as received.
        proven: Vec<u8>,
    },
    /// Stop reading the socket: its input cannot be taken now.
    PauseReading {
        /// The connection.
        key: ConnectionKey,
    },
    /// Read the socket again.
    ResumeReading {
        /// The connection.
        key: ConnectionKey,
    },
    /// A CONNECT waits for [`EntryCalls::handle_auth_outcome`](crate::EntryCalls::handle_auth_outcome).
    Authenticate {
        /// The connection.
        key: ConnectionKey,
        /// The client that asks for admission.
        request: AuthRequest,
    },
    /// The client answered a challenge ([`AuthOutcome::Challenge`]); the next outcome is awaited.
    AnswerChallenge {
        /// The connection.
        key: ConnectionKey,
        /// Its authentication data.
        data: Vec<u8>,
    },
    /// The store is asked for a part of a queue: [`StoreCalls::handle_read`](crate::StoreCalls::handle_read) brings it,
    /// [`StoreCalls::fail_read`](crate::StoreCalls::fail_read) says why not.
    ReadQueue(WantedQueue),
    /// A transport to a broker of the fleet is to be opened: [`FleetCalls::open_broker_link`](crate::FleetCalls::open_broker_link) takes
    /// it, [`FleetCalls::fail_broker_link`](crate::FleetCalls::fail_broker_link) says why not.
    Dial {
        /// The broker's name.
        broker_link: String,
        /// The number of the attempt: an outcome of another attempt comes too late.
        attempt: DialAttempt,
    },
    /// A client has acknowledged a [`ping`](crate::InsiderCalls::ping).
    Pong {
        /// The tenant of the client.
        tenant: TenantId,
        /// The client id.
        client_id: String,
    },
    /// A message for an observer, which answers with
    /// [`InsiderCalls::confirm_observed`](crate::InsiderCalls::confirm_observed).
    Observed {
        /// The observer of its topic.
        observer: ObserverId,
        /// The message.
        message: Box<ObservedMessage>,
    },
    /// The outcome of a message given to [`InsiderCalls::publish_as`](crate::InsiderCalls::publish_as). Each is
    /// answered exactly once.
    Published {
        /// The publisher.
        principal: PrincipalId,
        /// As it was given.
        number: u64,
        /// The code that a PUBACK would have, when everything that it promises is so; or why the message was refused.
        /// A message refused for [a temporary reason](Reason::is_temporary) may be published again.
        outcome: Result<ReasonCode, Reason>,
    },
    /// Something for the log.
    Log(LogEvent),
}

/// A part of a queue that is wanted from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedQueue {
    /// The tenant of the client.
    pub tenant: TenantId,
    /// The client id.
    pub client_id: String,
    /// The session's number in the store.
    pub session: u64,
    /// The first key that is wanted.
    pub from: Vec<u8>,
    /// The first key that is not.
    pub to: Vec<u8>,
    /// Bytes wanted at once, but at least one pair.
    pub max_bytes: usize,
}

/// A part of a queue that the store has brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedQueue {
    /// As it was asked for.
    pub tenant: TenantId,
    /// As it was asked for.
    pub client_id: String,
    /// As it was asked for.
    pub session: u64,
    /// Keys and values, in the order of the keys; empty when the store has none.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The credentials of a CONNECT.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthRequest {
    /// The tenant of the listener.
    pub tenant: TenantId,
    /// The listener.
    pub listener: ListenerId,
    /// The client id, as assigned if the client gave none.
    pub client_id: String,
    /// The user name.
    pub user_name: Option<String>,
    /// The password.
    pub password: Option<Vec<u8>>,
    /// How an exchange of several steps begins, if the client asked for one ([MQTT-4.12]).
    pub enhanced: Option<Enhanced>,
    /// True if a connected client re-authenticates ([MQTT-4.12.1]).
    pub again: bool,
}

/// The beginning of an enhanced authentication.
#[derive(Clone, PartialEq, Eq)]
pub struct Enhanced {
    /// The name of the method.
    pub method: String,
    /// The client's authentication data.
    pub data: Vec<u8>,
}

impl std::fmt::Debug for Enhanced {
    /// Leaves the data out: it may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enhanced").field("method", &self.method).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for AuthRequest {
    /// Leaves the password out: requests end up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthRequest")
            .field("tenant", &self.tenant)
            .field("listener", &self.listener)
            .field("client_id", &self.client_id)
            .field("user_name", &self.user_name)
            .finish_non_exhaustive()
    }
}

/// The answer to a CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthOutcome {
    /// The client is admitted.
    Accept(Accepted),
    /// The client is refused with this reason.
    Refuse(Reason),
    /// The client has to answer this first; only where it asked for an enhanced authentication.
    Challenge(Vec<u8>),
}

/// An admitted client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Its identity, if a provider was asked.
    pub identity: Option<Arc<Identity>>,
    /// The last step of an enhanced authentication.
    pub data: Option<Vec<u8>>,
}

/// An event for the log, reported once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// A client connected.
    Connected {
        /// Its connection.
        key: ConnectionKey,
        /// Its client id.
        client_id: String,
        /// The tenant of the client.
        tenant: TenantId,
        /// Its protocol version.
        version: Version,
        /// Whether an earlier session was resumed.
        session_present: bool,
    },
    /// A client's connection ended.
    Disconnected {
        /// Its connection.
        key: ConnectionKey,
        /// Its client id.
        client_id: String,
        /// The tenant of the client.
        tenant: TenantId,
        /// Why.
        reason: Reason,
    },
    /// A connection was refused or broke off before it was a client's.
    Refused {
        /// The connection.
        key: ConnectionKey,
        /// Why.
        reason: Reason,
        /// The fault of the packet, if the cause is a packet.
        detail: String,
    },
    /// A packet was refused; the connection ends.
    BadPacket {
        /// The connection.
        key: ConnectionKey,
        /// Its client id.
        client_id: String,
        /// The tenant of the client.
        tenant: TenantId,
        /// The fault.
        detail: String,
    },
    /// A broker of the fleet is there and holds all subscriptions.
    BrokerServes {
        /// Its name.
        broker: String,
    },
    /// A broker of the fleet is given messages although another member may not have its filters there.
    BrokerOpensEarly {
        /// Its name.
        broker: String,
    },
    /// A broker of the fleet is there no more.
    BrokerLost {
        /// Its name.
        broker: String,
        /// The fault.
        detail: String,
    },
    /// A broker of the fleet is spoken to in MQTT 3.1.1: it has closed MQTT 5.0 twice without an answer.
    BrokerIsOlder {
        /// Its name.
        broker: String,
    },
    /// Brokers deny messages of a topic: its publishers are refused for a while.
    TopicDenied {
        /// The broker that has denied the last one.
        broker: String,
        /// The topic.
        topic: String,
    },
    /// Messages that were kept back for partitions that have moved here cannot be read by the process that has noted them:
    /// they are lost.
    KeptBackLost {
        /// The record that cannot be read, and why.
        detail: String,
    },
    /// Messages for a session are being dropped: reported once until its queue has room again.
    QueueFull {
        /// The client.
        client_id: String,
        /// The tenant of the client.
        tenant: TenantId,
        /// The policy's reason.
        reason: Reason,
        /// Whether the client is connected; an absent client cannot acknowledge.
        connected: bool,
        /// How many messages the client has not acknowledged.
        unacknowledged: u64,
        /// The packet id of the oldest of those.
        oldest_packet_id: Option<u16>,
        /// Milliseconds since the client's last acknowledgement, while it is connected and has unacknowledged messages.
        waiting_ms: u64,
    },
    /// A message was not delivered to a client. These and the following events are limited per second, for each client
    /// and in all; the next one has the number of omitted ones.
    Dropped {
        /// The client that did not get it.
        client_id: String,
        /// The tenant of the client.
        tenant: TenantId,
        /// The topic.
        topic: String,
        /// Why.
        reason: Reason,
        /// The publisher, if it is a client that this shard still knows.
        publisher: Option<String>,
        /// Number of omitted events about the client since the last reported one.
        omitted: u64,
    },
    /// A client was denied an action, and stays connected.
    Denied {
        /// The client.
        client_id: String,
        /// The tenant of the client.
        tenant: TenantId,
        /// The action.
        attempt: Attempt,
        /// With which topic, or filter.
        topic: String,
        /// Why not.
        reason: Reason,
        /// The client whose queue had no room, if that was the reason and it is a client of this shard.
        held_up_by: Option<String>,
        /// Number of omitted events about the client since the last reported one.
        omitted: u64,
    },
    /// A publisher has to wait.
    Delayed {
        /// Its connection.
        key: ConnectionKey,
        /// The publisher.
        client_id: String,
        /// The tenant of the client.
        tenant: TenantId,
        /// The cause of the delay.
        delay: Delay,
        /// Number of omitted events about the client since the last reported one.
        omitted: u64,
    },
}

/// An action that a client was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Publish a message.
    Publish,
    /// Have a message retained.
    Retain,
    /// Have its will published.
    Will,
    /// Subscribe to a filter.
    Subscribe,
    /// Stay subscribed to a filter, after the rules have changed.
    StaySubscribed,
    /// Have messages to its address kept after its session.
    Mailbox,
}

impl Attempt {
    /// The text for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Publish => "to publish",
            Self::Retain => "to have a message retained",
            Self::Will => "to have its will published",
            Self::Subscribe => "to subscribe",
            Self::StaySubscribed => "to stay subscribed",
            Self::Mailbox => "a mailbox",
        }
    }
}

/// The cause of a publisher's delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delay {
    /// The queue of a subscriber, which needs space; its name is unknown on another shard.
    Queue(Option<String>),
    /// Memory of the shard.
    Memory,
    /// Shorter turns of the shard, which it gives more to do than most.
    LoopLag,
    /// The window of an observer, by its name.
    Observer(String),
    /// The link to another shard.
    Link,
    /// Its own rate.
    Rate,
    /// The rate of all clients of its listener.
    ListenerRate,
    /// The rate of all clients of its tenant.
    TenantRate,
}

impl std::fmt::Display for Delay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Queue(Some(client_id)) => write!(f, "the queue of {client_id} is full"),
            Self::Observer(name) => write!(f, "the window of the observer {name} is full"),
            Self::Queue(None) => f.write_str(
                "a subscriber's queue or the memory of its shard is full, or that shard takes too long for its turns",
            ),
            Self::Memory => f.write_str("the shard is near its memory ceiling"),
            Self::LoopLag => {
                f.write_str("the turns of the shard take too long, and it gives the shard more to do than most")
            }
            Self::Link => f.write_str("the link to another shard is full"),
            Self::Rate => f.write_str("it publishes faster than its rate limit"),
            Self::ListenerRate => {
                f.write_str("the clients of its listener publish faster than the limit for all of them")
            }
            Self::TenantRate => f.write_str("the clients of its tenant publish faster than the limit for all of them"),
        }
    }
}

/// Names a message that an observer has to confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedTicket {
    pub(crate) observer: ObserverId,
    pub(crate) number: u64,
}

impl Default for ObservedTicket {
    /// A ticket of no message: to confirm it does nothing.
    fn default() -> Self {
        Self { observer: ObserverId(u8::MAX), number: 0 }
    }
}

/// A message for an observer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedMessage {
    /// For [`InsiderCalls::confirm_observed`](crate::InsiderCalls::confirm_observed).
    pub ticket: ObservedTicket,
    /// True if a publisher waits for the confirmation; false at QoS 0, for wills and for messages of the broker itself.
    pub is_awaited: bool,
    /// The tenant.
    pub tenant: TenantId,
    /// The publisher; empty for the broker itself.
    pub client_id: String,
    /// The topic.
    pub topic: String,
    /// QoS as published.
    pub qos: QoS,
    /// RETAIN as published.
    pub retain: bool,
    /// Encoded MQTT 5 properties, as they are passed on.
    pub properties: Vec<u8>,
    /// When it expires, or [`Millis::NEVER`].
    pub expires_at: Millis,
    /// The payload.
    pub payload: Vec<u8>,
}
