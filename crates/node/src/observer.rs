//! The interface from a node to its process: log events, requests for authentication, and failures.

use tidegate_engine::{
    Accepted, AuthOutcome, AuthRequest, ConnectionKey, Identity, ListenerId, LogEvent, Proof, Reason, ShardId, TenantId,
};

use crate::orders::{Door, ShardSender, ToShard};
use crate::peer::Peer;
use crate::secret::Secret;
use crate::tls::{ConnectionFacts, Identity as CertificateIdentity};

/// A log event of an engine and where it happened.
#[derive(Debug)]
pub struct Occasion<'a> {
    /// The shard.
    pub shard: ShardId,
    /// The listener of the connection, if the event concerns an open one.
    pub listener: Option<ListenerId>,
    /// The origin of the connection, if the event concerns an open one.
    pub peer: Option<Peer>,
    /// The event.
    pub event: &'a LogEvent,
}

/// A client whose connection has come from another node of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct ContinuedClient<'a> {
    /// The listener of its connection here.
    pub listener: ListenerId,
    /// The listener that accepts the certificate of the client, if the client has shown one.
    pub shown_to: Option<ListenerId>,
    /// The name in its certificate, by the settings of that listener.
    pub certificate: Option<&'a CertificateIdentity>,
    /// Its tenant.
    pub tenant: TenantId,
    /// Its client id.
    pub client_id: &'a str,
    /// Its identity by the node that has accepted its CONNECT, if that node has asked for one.
    pub identity: Option<&'a Identity>,
    /// Whether this node has accepted its CONNECT: the move of its home was called off.
    pub is_of_here: bool,
    /// The secret that has sealed the mark of its proof.
    pub secret: &'a Secret,
}

impl ContinuedClient<'_> {
    /// Whether the proof of the client has this mark of this provider.
    pub fn has_mark(&self, provider: &str, mark: [u8; Proof::MARK_BYTES]) -> bool {
        let proof = self.identity.and_then(|identity| identity.proof.as_ref());
        proof.is_some_and(|proof| *proof.provider == *provider && proof.mark == self.secret.seal_mark(provider, mark))
    }
}

/// Called on the threads of shards: an implementation must be quick and must not block.
pub trait Observer: Send + Sync + 'static {
    /// Whether [`Observer::log`] would use an event, asked before details are looked up.
    fn wants(&self, event: &LogEvent) -> bool {
        let _ = event;
        true
    }

    /// Receives an event: connects, disconnects, refusals, full queues, and a bounded part of the events of messages.
    fn log(&self, occasion: &Occasion<'_>);

    /// Decides about a client, at once or later. Only called when the engine's settings ask for external
    /// authentication; refuses unless overridden. `facts` describe the connection itself. A request without an answer
    /// ends with the connect timeout.
    fn authenticate(&self, request: AuthRequest, facts: ConnectionFacts, answer: Answer) {
        drop((request, facts));
        answer.give(AuthOutcome::Refuse(Reason::NotAuthorized));
    }

    /// A client has answered a challenge; [`Answer::connection`] identifies the exchange. Refuses unless overridden.
    fn answer_challenge(&self, data: Vec<u8>, answer: Answer) {
        drop(data);
        answer.give(AuthOutcome::Refuse(Reason::NotAuthorized));
    }

    /// Whether the credential of a client that another node of the cluster has accepted is accepted here, too. Only called
    /// when the engine's settings ask for external authentication; refuses unless overridden. That a certificate is
    /// accepted and a proof has not ended was checked before.
    ///
    /// # Errors
    /// With the reason for the client.
    fn accept_continued(&self, client: &ContinuedClient<'_>) -> Result<(), Reason> {
        let _ = client;
        Err(Reason::UseAnotherServer)
    }

    /// A shard's thread has panicked. Its clients are stuck and its share of the sessions is lost, so the process must
    /// end with an error; unless overridden, it ends here, if the panic has not ended it before.
    fn shard_failed(&self, shard: ShardId) {
        tracing::error!(shard = shard.0, "a shard has panicked; the process ends");
        std::process::exit(FAILURE_EXIT_CODE);
    }
}

/// Exit code of a process that ends because a shard panicked, as for any panic in Rust.
const FAILURE_EXIT_CODE: i32 = 101;

/// The receiver of the answer to a request for authentication.
#[derive(Debug)]
pub struct Answer {
    pub(crate) shard: ShardSender,
    pub(crate) place: ShardId,
    pub(crate) key: ConnectionKey,
}

impl Answer {
    /// The connection that waits for it, which names an exchange of several steps.
    pub fn connection(&self) -> (ShardId, ConnectionKey) {
        (self.place, self.key)
    }

    /// Gives the answer. It has no effect if the client has disconnected.
    pub fn give(self, outcome: AuthOutcome) {
        self.shard.send(ToShard::AuthOutcome { key: self.key, outcome });
    }

    /// Passes the client to the node of its user. It has no effect if the client has disconnected.
    pub fn pass_to(self, door: Door, accepted: Accepted) {
        self.shard.send(ToShard::Pass { key: self.key, door, accepted });
    }
}

/// Renders log events with `tracing`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingObserver;

impl Observer for TracingObserver {
    fn wants(&self, event: &LogEvent) -> bool {
        match event {
            LogEvent::QueueFull { .. }
            | LogEvent::BadPacket { .. }
            | LogEvent::BrokerLost { .. }
            | LogEvent::BrokerIsOlder { .. }
            | LogEvent::BrokerOpensEarly { .. }
            | LogEvent::KeptBackLost { .. }
            | LogEvent::TopicDenied { .. } => {
                tracing::enabled!(tracing::Level::WARN)
            }
            LogEvent::Denied { reason: Reason::MailboxLimit, .. } => tracing::enabled!(tracing::Level::WARN),
            LogEvent::Connected { .. }
            | LogEvent::Disconnected { .. }
            | LogEvent::Denied { .. }
            | LogEvent::BrokerServes { .. } => {
                tracing::enabled!(tracing::Level::INFO)
            }
            LogEvent::Dropped { .. } | LogEvent::Delayed { .. } => tracing::enabled!(tracing::Level::DEBUG),
            LogEvent::Refused { reason, .. } if is_ordinary(*reason) => tracing::enabled!(tracing::Level::DEBUG),
            LogEvent::Refused { .. } => tracing::enabled!(tracing::Level::WARN),
        }
    }

    fn log(&self, occasion: &Occasion<'_>) {
        let shard = occasion.shard.0;
        let peer = occasion.peer.unwrap_or(Peer::Gone);
        match occasion.event {
            LogEvent::Connected { client_id, version, session_present, .. } => {
                tracing::info!(shard, %peer, client_id, ?version, session_present, "client connected");
            }
            LogEvent::Disconnected { client_id, reason, .. } => {
                tracing::info!(shard, %peer, client_id, reason = reason.label(), "client disconnected");
            }
            LogEvent::Refused { reason, detail, .. } if is_ordinary(*reason) => {
                tracing::debug!(shard, %peer, reason = reason.label(), detail, "connection closed before CONNECT");
            }
            LogEvent::Refused { reason, detail, .. } => {
                tracing::warn!(shard, %peer, reason = reason.label(), detail, "connection refused");
            }
            LogEvent::BadPacket { client_id, detail, .. } => {
                tracing::warn!(shard, %peer, client_id, detail, "packet refused");
            }
            LogEvent::BrokerServes { .. }
            | LogEvent::BrokerLost { .. }
            | LogEvent::BrokerIsOlder { .. }
            | LogEvent::BrokerOpensEarly { .. }
            | LogEvent::KeptBackLost { .. }
            | LogEvent::TopicDenied { .. } => log_of_broker(shard, occasion.event),
            LogEvent::QueueFull {
                client_id, reason, connected, unacknowledged, oldest_packet_id, waiting_ms, ..
            } => {
                let policy = reason.label();
                tracing::warn!(
                    shard,
                    client_id,
                    policy,
                    connected,
                    unacknowledged,
                    oldest_packet_id,
                    waiting_ms,
                    "queue full"
                );
            }
            LogEvent::Dropped { client_id, topic, reason, publisher, omitted, .. } => {
                let reason = reason.label();
                tracing::debug!(shard, client_id, topic, reason, publisher, omitted, "message dropped");
            }
            LogEvent::Denied { client_id, reason: reason @ Reason::MailboxLimit, omitted, .. } => {
                let (reason, todo) = (reason.label(), "raise addresses.max_mailboxes");
                tracing::warn!(shard, client_id, reason, omitted, todo, "messages to a mobile node are not kept");
            }
            LogEvent::Denied { client_id, attempt, topic, reason, held_up_by, omitted, .. } => {
                let (attempt, reason) = (attempt.text(), reason.label());
                tracing::info!(shard, client_id, attempt, topic, reason, held_up_by, omitted, "denied");
            }
            LogEvent::Delayed { client_id, delay, omitted, .. } => {
                tracing::debug!(shard, %peer, client_id, %delay, omitted, "publisher delayed");
            }
        }
    }
}

/// Logs an event of a broker of a fleet.
fn log_of_broker(shard: u16, event: &LogEvent) {
    match event {
        LogEvent::BrokerServes { broker } => {
            tracing::info!(shard, broker, "broker serving: it has all subscriptions");
        }
        LogEvent::BrokerOpensEarly { broker } => {
            tracing::warn!(
                shard,
                broker,
                "broker gets messages, although another orchestrator has not said that its filters are there: does each have the broker, and reach it?"
            );
        }
        LogEvent::BrokerLost { broker, detail } => {
            tracing::warn!(shard, broker, detail, "broker lost");
        }
        LogEvent::BrokerIsOlder { broker } => {
            tracing::warn!(
                shard,
                broker,
                "broker in MQTT 3.1.1: it closed MQTT 5.0 twice without an answer; messages to it lose their properties"
            );
        }
        LogEvent::KeptBackLost { detail } => {
            tracing::error!(shard, detail, "messages kept back for partitions that have moved here are lost");
        }
        LogEvent::TopicDenied { broker, topic } => {
            let reason = Reason::TopicDenied.label();
            tracing::warn!(shard, broker, topic, reason, "topic refused for a minute: the broker denies its messages");
        }
        _ => {}
    }
}

/// Ends of connections that health checks and port scanners cause: no byte was sent.
fn is_ordinary(reason: Reason) -> bool {
    // Failures before a CONNECT are logged by the shell, a few times at most.
    use Reason::{ConnectionLost, HandshakeFailed, ProxyHeader, ServerShuttingDown, TlsFailed};
    matches!(reason, ConnectionLost | ServerShuttingDown | TlsFailed | ProxyHeader | HandshakeFailed)
}
