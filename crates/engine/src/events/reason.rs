//! The one table of reasons: why a message, a connection or a request was not served.
//!
//! Each has a permanent number, a name for logs, a text for people, the reason code for an MQTT 5 peer, and a label for
//! metrics. `tidegate manual reasons` explains each.

use tidegate_mqtt::{PacketType, ReasonCode};

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $label:literal, $code:ident, $text:literal;)*) => {
        /// Why something was not served.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Reason { $($(#[$doc])* $name = $number,)* }

        impl Reason {
            /// Every reason, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The metric label and the name in logs: lower case with underscores.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }

            /// The text for people.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The reason code for an MQTT 5 peer.
            pub const fn code(self) -> ReasonCode {
                match self { $(Self::$name => ReasonCode::$code,)* }
            }
        }
    };
}

reasons! {
    /// The client said goodbye.
    NormalDisconnect = 0, "normal_disconnect", Success, "the client disconnected";
    /// The transport ended without a DISCONNECT packet.
    ConnectionLost = 1, "connection_lost", UnspecifiedError, "the network connection ended without a DISCONNECT";
    /// No packet within one and a half times the keep-alive time.
    KeepAliveTimeout = 2, "keep_alive_timeout", KeepAliveTimeout, "no packet within one and a half times the keep-alive time";
    /// No complete CONNECT in time.
    ConnectTimeout = 3, "connect_timeout", KeepAliveTimeout, "no CONNECT packet arrived in time";
    /// A newer connection of the same client id took over.
    SessionTakenOver = 4, "session_taken_over", SessionTakenOver, "another connection with the same client id took the session over";
    /// A packet that breaks the wire format.
    MalformedPacket = 5, "malformed_packet", MalformedPacket, "a packet broke the wire format";
    /// A packet that the protocol does not allow at this point.
    ProtocolError = 6, "protocol_error", ProtocolError, "a packet was not allowed at this point of the protocol";
    /// A protocol level that is not served.
    UnsupportedVersion = 7, "unsupported_version", UnsupportedProtocolVersion, "the protocol version is not supported; use MQTT 3.1, 3.1.1 or 5";
    /// A client id that is not allowed.
    InvalidClientId = 8, "invalid_client_id", ClientIdentifierNotValid, "the client id is not valid";
    /// More than `receive maximum` unacknowledged messages from a client.
    ReceiveMaximumExceeded = 9, "receive_maximum_exceeded", ReceiveMaximumExceeded, "more unacknowledged QoS 1 and 2 messages than the receive maximum";
    /// A packet longer than the listener allows.
    PacketTooLarge = 10, "packet_too_large", PacketTooLarge, "a packet was longer than the maximum packet size";
    /// A topic alias of 0 or above the maximum, or one that was never set.
    InvalidTopicAlias = 11, "invalid_topic_alias", TopicAliasInvalid, "a topic alias was out of range or not set";
    /// A topic name that is not valid in a PUBLISH.
    InvalidTopicName = 12, "invalid_topic_name", TopicNameInvalid, "the topic name is not valid";
    /// A topic filter that is not valid.
    InvalidTopicFilter = 13, "invalid_topic_filter", TopicFilterInvalid, "the topic filter is not valid";
    /// A payload that is not UTF-8 although its publisher says so.
    InvalidPayloadFormat = 14, "invalid_payload_format", PayloadFormatInvalid, "the payload is not the UTF-8 text that its format indicator promises";
    /// The server is stopping.
    ServerShuttingDown = 15, "server_shutting_down", ServerShuttingDown, "the server is shutting down";
    /// Connections of the server or of the listener are at their limit.
    TooManyConnections = 16, "too_many_connections", ServerBusy, "the limit of connections is reached";
    /// Bytes of unfinished packets or waiting output are at the shard's limit.
    MemoryCeiling = 17, "memory_ceiling", QuotaExceeded, "the memory limit of the broker is reached";
    /// A client sent more behind its CONNECT than may wait for the answer.
    PipelinedTooMuch = 18, "pipelined_too_much", QuotaExceeded, "too many bytes were sent before the CONNACK";
    /// Credentials were refused.
    BadCredentials = 19, "bad_credentials", BadUserNameOrPassword, "user name or password was refused";
    /// The rules do not allow it.
    NotAuthorized = 20, "not_authorized", NotAuthorized, "the access rules do not allow it";
    /// The authentication method is not known.
    BadAuthenticationMethod = 21, "bad_authentication_method", BadAuthenticationMethod, "the authentication method is not supported";
    /// A queue was full and its policy drops the newest message.
    QueueFullNewest = 22, "queue_full_drop_newest", QuotaExceeded, "the subscriber's queue was full; the new message was dropped";
    /// A queue was full and its policy drops the oldest message.
    QueueFullOldest = 23, "queue_full_drop_oldest", QuotaExceeded, "the subscriber's queue was full; its oldest message was dropped";
    /// A queue was full and its policy disconnects the slow reader.
    QueueFullDisconnect = 24, "queue_full_disconnect", QuotaExceeded, "the client read too slowly and its queue was full";
    /// A publisher waited too long for a full queue.
    BlockedTooLong = 25, "blocked_too_long", QuotaExceeded, "a blocking queue stayed full longer than the limit; the message was dropped";
    /// A message outlived its expiry.
    MessageExpired = 26, "message_expired", UnspecifiedError, "the message expired before it could be delivered";
    /// A message is larger than its subscriber's maximum packet size.
    SubscriberPacketLimit = 27, "subscriber_packet_limit", PacketTooLarge, "the message is larger than the subscriber's maximum packet size";
    /// A QoS 0 message for a client that is away.
    OfflineQos0 = 28, "offline_qos0", UnspecifiedError, "the subscriber is away and QoS 0 messages are not kept";
    /// A session ended with messages still owed to it.
    SessionExpired = 29, "session_expired", UnspecifiedError, "the session expired with messages still queued";
    /// A client started a clean session over one with messages still owed.
    SessionDiscarded = 30, "session_discarded", UnspecifiedError, "the client asked for a clean start; its queued messages are gone";
    /// Sessions are at their limit.
    TooManySessions = 31, "too_many_sessions", QuotaExceeded, "the limit of sessions is reached";
    /// Subscriptions of a client are at their limit.
    TooManySubscriptions = 32, "too_many_subscriptions", QuotaExceeded, "the limit of subscriptions is reached";
    /// Retained messages are at their limit in number.
    RetainedCountLimit = 33, "retained_count_limit", QuotaExceeded, "the limit of retained messages is reached";
    /// Retained messages are at their limit in bytes.
    RetainedBytesLimit = 34, "retained_bytes_limit", QuotaExceeded, "the memory limit of retained messages is reached";
    /// Retained messages are switched off.
    RetainNotSupported = 35, "retain_not_supported", RetainNotSupported, "retained messages are switched off";
    /// A QoS above the server's maximum.
    QosNotSupported = 36, "qos_not_supported", QosNotSupported, "the QoS is above the maximum that the server offers";
    /// Shared subscriptions are switched off.
    SharedNotSupported = 37, "shared_subscriptions_not_supported", SharedSubscriptionsNotSupported, "shared subscriptions are switched off";
    /// An inner link between two shards is full.
    ShardInboxFull = 38, "shard_inbox_full", QuotaExceeded, "the queue between two shards was full";
    /// A shared group had no member left to take a message.
    NoGroupMember = 39, "no_group_member", UnspecifiedError, "no member of the shared group could take the message";
    /// A message in flight was given up by its receiver with an error code.
    RefusedByReceiver = 40, "refused_by_receiver", UnspecifiedError, "the subscriber refused the message with an error code";
    /// The client is asked to use another server.
    UseAnotherServer = 41, "use_another_server", UseAnotherServer, "the client was sent to another server";
    /// An operator closed the connection.
    AdministrativeAction = 42, "administrative_action", AdministrativeAction, "an operator closed the connection";
    /// A topic name or filter with more levels than allowed.
    TopicTooDeep = 43, "topic_too_deep", TopicNameInvalid, "the topic has more levels than the limit";
    /// The client ended the connection and asked for its will to be published.
    DisconnectWithWill = 44, "disconnect_with_will", DisconnectWithWillMessage, "the client disconnected and asked for its will to be published";
    /// The part of a queue that is in the store alone did not return.
    QueueLost = 45, "queue_lost", UnspecifiedError, "the part of the queue that is in the store alone could not be read";
    /// The client, its user name or its address is banned.
    Banned = 46, "banned", Banned, "the client id, the user name or the address is banned";
    /// One address has as many connections as it may have.
    TooManyFromAddress = 47, "too_many_from_address", QuotaExceeded, "the limit of connections from one address is reached";
    /// One user has as many connections as it may have.
    TooManyForUser = 48, "too_many_for_user", QuotaExceeded, "the limit of connections with one user name is reached";
    /// A listener is asked for connections faster than it may take them.
    ListenerRateExceeded = 49, "listener_rate_exceeded", ConnectionRateExceeded, "connections arrive at the listener faster than its limit";
    /// An address asks for connections faster than it may.
    AddressRateExceeded = 50, "address_rate_exceeded", ConnectionRateExceeded, "connections arrive from one address faster than its limit";
    /// A shard's turns take too long.
    LoopLag = 51, "loop_lag", ServerBusy, "the broker is overloaded: its shards take too long for a turn";
    /// A newer message of the same topic took the place of one that waited.
    QueueReplaced = 52, "queue_replaced", QuotaExceeded, "a newer message of the same topic took its place in the subscriber's queue";
    /// The store has no room for more.
    StoreFull = 53, "store_full", QuotaExceeded, "the disk of the store is full";
    /// The proof of a client's identity has expired.
    ProofExpired = 54, "proof_expired", NotAuthorized, "the token or certificate that the client came in with has expired";
    /// A subscriber that rejects had no room, so no subscriber got the message.
    QueueFullReject = 55, "queue_full_reject", QuotaExceeded, "a subscriber's queue was full; no subscriber got the message";
    /// A publisher without a negative acknowledgement waited too long for room.
    RejectedTooLong = 56, "rejected_too_long", QuotaExceeded, "a subscriber's queue stayed full longer than an acknowledgement may be withheld";
    /// A topic name with more bytes than allowed.
    TopicTooLong = 57, "topic_too_long", TopicNameInvalid, "the topic is longer than the limit";
    /// A topic filter with more single-level wildcards than allowed.
    TooManyWildcards = 58, "too_many_wildcards", QuotaExceeded, "the topic filter has more wildcard levels than the limit";
    /// A topic filter with more bytes than allowed.
    FilterTooLong = 59, "filter_too_long", TopicFilterInvalid, "the topic filter is longer than the limit";
    /// The identity of a client could not be found out: in time, or at all.
    AuthenticationUnavailable = 60, "authentication_unavailable", ServerUnavailable, "who the client is could not be found out";
    /// A tenant has as many clients connected as it may have.
    TenantConnections = 61, "tenant_connections", QuotaExceeded, "the tenant's limit of connections is reached";
    /// A tenant has as many sessions as it may have.
    TenantSessions = 62, "tenant_sessions", QuotaExceeded, "the tenant's limit of sessions is reached";
    /// A tenant has as many subscriptions as it may have.
    TenantSubscriptions = 63, "tenant_subscriptions", QuotaExceeded, "the tenant's limit of subscriptions is reached";
    /// A tenant has as many retained messages as it may have.
    TenantRetained = 64, "tenant_retained", QuotaExceeded, "the tenant's limit of retained messages is reached";
    /// A broker of the fleet refused an orchestrator's CONNECT.
    BrokerLinkRefused = 65, "uplink_refused", NotAuthorized, "the broker refused the orchestrator";
    /// A broker of the fleet has gone or does not answer.
    BrokerLinkLost = 66, "uplink_lost", UnspecifiedError, "the broker has gone or does not answer";
    /// A broker was taken out of the fleet.
    BrokerLinkRemoved = 67, "uplink_removed", AdministrativeAction, "the broker was taken out of the fleet";
    /// The fleet owes as much as it may.
    FleetFull = 68, "fleet_full", QuotaExceeded, "no broker of the fleet can take more at the moment";
    /// The orchestrator that a client belongs to cannot be reached.
    HomeUnreachable = 69, "home_unreachable", ServerUnavailable, "the orchestrator that the client belongs to cannot be reached";
    /// A client belongs to a partition that is not served here at the moment.
    NotServedHere = 70, "not_served_here", ServerUnavailable, "the client is not served here at the moment; it may connect again shortly";
    /// The lease on a partition has run out.
    LeaseEnded = 71, "lease_ended", ServerUnavailable, "the lease of this orchestrator has run out; others may serve the client";
    /// A node of the cluster has gone that had to confirm something.
    NodeLost = 72, "node_lost", ServerBusy, "a node of the cluster has gone that had to confirm what the client has sent";
    /// A topic filter with more levels than allowed.
    FilterTooDeep = 73, "filter_too_deep", TopicFilterInvalid, "the topic filter has more levels than the limit";
    /// TLS failed before there was a CONNECT.
    TlsFailed = 74, "tls_failed", UnspecifiedError, "TLS failed before a CONNECT arrived";
    /// A PROXY header that was missing, malformed or not allowed.
    ProxyHeader = 75, "proxy_header", UnspecifiedError, "the header of the PROXY protocol was missing, malformed or not allowed";
    /// As many TLS handshakes are going on as there may be.
    TooManyHandshakes = 76, "too_many_handshakes", ServerBusy, "the limit of TLS handshakes at once is reached";
    /// A message that makes brokers close the connection.
    ClosesConnections = 77, "closes_connections", UnspecifiedError, "a broker closed the connection each time that it was given the message";
    /// An orchestrator has no broker.
    NoBroker = 78, "no_broker", ServerUnavailable, "the orchestrator has no broker that could take the message";
    /// A WebSocket or a QUIC connection came to nothing.
    HandshakeFailed = 79, "handshake_failed", UnspecifiedError, "the WebSocket or QUIC connection failed before a CONNECT arrived";
    /// A message for applications that the bus does not take now.
    BusRefused = 80, "bus_refused", QuotaExceeded, "the bus that applications read does not take the message now";
    /// The broker cannot read its part of a message: an invalid context or advertisement, or an unknown receipt.
    NotUnderstood = 81, "not_understood", ImplementationSpecificError, "what the message says to the broker is not understood: a context, an advertisement of groups, or the property receipt";
    /// An MQTT 3 client asks for a keep-alive that is not given.
    KeepAliveTooLong = 82, "keep_alive_too_long", ClientIdentifierNotValid, "the keep-alive is longer than the listener's maximum";
    /// A payload that is longer than allowed.
    PayloadTooLong = 83, "payload_too_long", ImplementationSpecificError, "the payload is longer than the limit";
    /// A publisher without a session has to wait, and as many of its messages wait as may.
    PublisherHeld = 84, "publisher_held", QuotaExceeded, "the publisher has to wait, and as many of its messages wait as may";
    /// An observer that must have a message does not take it now.
    ObserverRefused = 85, "observer_refused", QuotaExceeded, "a service that must have the message does not take it now";
    /// Brokers of the fleet have denied messages of the topic a moment ago.
    TopicDenied = 86, "topic_denied", NotAuthorized, "brokers of the fleet have just denied messages of the topic";
    /// A message that is longer than any broker of the fleet takes.
    FleetPacketLimit = 87, "fleet_packet_limit", ImplementationSpecificError, "the message is longer than any broker of the fleet takes";
    /// An observer that must have a message will never take this one.
    ObserverRejected = 88, "observer_rejected", ImplementationSpecificError, "a service that must have the message will never take this one";
    /// The home of a client moves, and its connection stays.
    Moved = 89, "moved", Success, "the connection of the client continues at another node";
    /// A mobile node's session ended while there were as many mailboxes as there may be.
    MailboxLimit = 90, "mailbox_limit", QuotaExceeded, "the limit of mailboxes is reached; messages to the node are not kept";
    /// The orchestrator that deals for a shared group is away, and no other one asks brokers for the filter.
    GroupHomeAway = 91, "group_home_away", UnspecifiedError, "the orchestrator that deals for the shared group cannot be reached";
    /// A pipeline of the hub refuses the payload: it is not of its schema.
    PayloadRefused = 92, "payload_refused", PayloadFormatInvalid, "the payload is not of the schema of the topic";
}

/// Number of reasons, the length of a table of counters by reason.
pub const REASONS: usize = Reason::ALL.len();

impl Reason {
    /// The reason code for DISCONNECT, in place of codes that DISCONNECT may not carry ([MQTT-3.14.2-1]). A client that
    /// authenticates again may be refused by a code of CONNACK.
    pub fn code_of_disconnect(self) -> ReasonCode {
        match self.code() {
            ReasonCode::ServerUnavailable => ReasonCode::ServerBusy,
            ReasonCode::BadUserNameOrPassword | ReasonCode::ClientIdentifierNotValid | ReasonCode::Banned => {
                ReasonCode::NotAuthorized
            }
            code if code.allowed_in(PacketType::Disconnect) => code,
            _ => ReasonCode::UnspecifiedError,
        }
    }

    /// The reason for a packet that the codec refused with this code.
    pub fn of_code(code: ReasonCode) -> Self {
        match code {
            ReasonCode::MalformedPacket => Self::MalformedPacket,
            ReasonCode::UnsupportedProtocolVersion => Self::UnsupportedVersion,
            ReasonCode::ClientIdentifierNotValid => Self::InvalidClientId,
            ReasonCode::TopicNameInvalid => Self::InvalidTopicName,
            ReasonCode::TopicFilterInvalid => Self::InvalidTopicFilter,
            ReasonCode::TopicAliasInvalid => Self::InvalidTopicAlias,
            ReasonCode::PacketTooLarge => Self::PacketTooLarge,
            ReasonCode::PayloadFormatInvalid => Self::InvalidPayloadFormat,
            ReasonCode::QosNotSupported => Self::QosNotSupported,
            _ => Self::ProtocolError,
        }
    }

    /// Whether a message that is refused for this reason may be taken when it is published again later, unchanged.
    pub const fn is_temporary(self) -> bool {
        matches!(
            self,
            Self::NodeLost
                | Self::MemoryCeiling
                | Self::StoreFull
                | Self::QueueFullReject
                | Self::RejectedTooLong
                | Self::BlockedTooLong
                | Self::FleetFull
                | Self::NoBroker
                | Self::BusRefused
                | Self::ObserverRefused
                | Self::PublisherHeld
                | Self::ServerShuttingDown
                | Self::NotServedHere
                | Self::LeaseEnded
        )
    }

    /// The reason of a number.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The stable number, an index into tables of [`REASONS`] counters.
    pub const fn number(self) -> usize {
        self as usize
    }
}
