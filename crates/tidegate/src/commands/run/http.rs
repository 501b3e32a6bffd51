//! The listeners of a broker for HTTP, and the way of clients without MQTT to the node.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use tidegate_administration::{BrokerStatus, Part};
use tidegate_auth::KeyName;
use tidegate_client::{MessageProperties, TopicNameBuf};
use tidegate_config::Config;
use tidegate_connectors::hub::{Histories, HistoryPlace, HistoryQuery, ReadHistoryError};
use tidegate_console::{HttpNumbers, Status};
use tidegate_engine::{
    ListenerId, Millis, Partitions, Principal, PrincipalKind, Reason, RetainedValue, TenantId, partition_of,
};
use tidegate_http::{
    Caller, Counters, DoorSettings, Gateway, HistoryAnswer, HistoryError, HistoryQuestion, MAX_BODY_BYTES,
    ProtocolVersion, RetainedMessage, Running, ServeError, TlsSession, TlsStart, Who,
};
use tidegate_mqtt::PublishProperties;
use tidegate_node::{Door, Inlet, ListenAddress, Node, NodeHandle, NotFetched, TenantSeat, TlsFacts, TlsVersion};
use tidegate_visitor::{Entry, Found, ReadError, Seat};

use tidegate_identity::access::Tenancy;
use tidegate_identity::access::tenants::Traits;
use tidegate_identity::authentication::{Visitor, Visitors};

/// HTTP connections of a listener that names no limit. Each holds three files.
const MAX_CONNECTIONS: u32 = 256;
/// Topics whose rights are remembered while a history is read.
const MAX_RIGHTS: usize = 10_000;
/// Client ids that are drawn for one whose home is here. A node that serves one partition of 1,024 misses it once in
/// ten million times.
const MAX_DRAWS: usize = 16_384;

/// The node, for clients without MQTT.
#[derive(Clone)]
pub(super) struct ToNode {
    node: Inlet,
    visitors: Visitors,
    tenancy: Tenancy,
    /// Whether clients are authenticated; otherwise nothing is noted of them.
    asked: bool,
    /// Whether other nodes also serve clients.
    shared: bool,
    /// The histories that pipelines write.
    histories: Arc<Histories>,
    /// The way to other nodes.
    handle: NodeHandle,
}

impl ToNode {
    /// The connection to a node. `clustered` is true if it is one of several.
    pub(super) fn new(
        config: &Config,
        node: &Node,
        tenancy: &Tenancy,
        (visitors, clustered): (Visitors, bool),
    ) -> Self {
        let (handle, tenancy) = (node.handle(), tenancy.clone());
        let (asked, shared) = (config.needs_authentication(), clustered || config.orchestrator.enabled);
        let (node, histories) = (Inlet::new(handle.clone()), Arc::new(Histories::of(config)));
        Self { node, visitors, tenancy, asked, shared, histories, handle }
    }

    /// The tenant of a client, as far as it is known before CONNECT.
    fn tenant(&self, caller: &Caller) -> TenantId {
        let listener = ListenerId(caller.listener);
        let traits = Traits {
            listener: self.tenancy.listener(listener),
            sni: caller.tls.as_ref().and_then(|tls| tls.server_name.as_deref()),
            user_name: caller.user_name.as_deref(),
            ..Traits::default()
        };
        self.tenancy.ask(|tenants| tenants.resolve(&traits)).unwrap_or(TenantId::DEFAULT)
    }

    /// A client as it may read outside its session, and the way to the node of its user, where each user has one.
    fn principal(&self, caller: &Caller, client_id: &str) -> Option<(Principal, Option<Door>)> {
        let known = self.visitors.get(client_id);
        let visitor = match known {
            Some(visitor) => visitor,
            // Another node has let it in.
            None if self.asked => return None,
            None => Visitor { tenant: self.tenant(caller), identity: None, door: None },
        };
        let principal = Principal {
            kind: PrincipalKind::User,
            tenant: visitor.tenant,
            name: client_id.to_owned(),
            identity: visitor.identity,
            listener: Some(ListenerId(caller.listener)),
            max_held_messages: 0,
            max_held_bytes: 0,
            unobserved_by: Vec::new(),
        };
        Some((principal, visitor.door))
    }

    /// An MQTT connection for a caller whose handshake has shown `tls`.
    pub(super) fn connect_with(
        &self,
        caller: &Caller,
        tls: Option<TlsFacts>,
        draw: &dyn Fn() -> String,
    ) -> io::Result<Connection> {
        let tenant = self.tenant(caller);
        let served = self.shared.then(|| self.node.served().ok()).flatten();
        let client_id = served.map_or_else(draw, |served| draw_served(served, tenant, draw));
        let stream = self.node.connect(ListenerId(caller.listener), caller.peer, tls)?;
        self.visitors.expect(&client_id);
        // Another node counts the clients that it serves.
        let is_served = served.is_none_or(|served| served.has(partition_of(tenant, &client_id)));
        let seat = is_served.then(|| TenantSeat::new(Arc::clone(self.tenancy.counts()), tenant));
        Ok(Connection { client_id, stream, seat: InTenant(seat) })
    }

    /// The retained message of a topic that another node has.
    fn fetch_from_home(&self, tenant: TenantId, topic: &str) -> Result<Option<RetainedMessage>, ReadError> {
        let fetched = self.node.fetch_retained(tenant, topic).map_err(|error| match error {
            NotFetched::Moving => ReadError::Moving,
            NotFetched::Silent(node) => ReadError::Silent(node),
            NotFetched::Busy => ReadError::Busy,
            NotFetched::TooLong(node) => ReadError::TooLong(node),
        })?;
        fetched.map(|value| self.shown(value)).transpose()
    }

    /// The retained message of a topic at this node, and the tenant of the client.
    fn read(
        &self,
        caller: &Caller,
        client_id: &str,
        topic: &str,
    ) -> Result<(TenantId, Found<RetainedMessage>), ReadError> {
        let (principal, door) = self.principal(caller, client_id).ok_or(ReadError::SessionElsewhere)?;
        let read = match door {
            Some(door) => door.retained(&principal, topic),
            None => self.node.retained(&principal, topic),
        };
        let found = match read.map_err(|_| ReadError::Unavailable)? {
            Ok(value) => Found::Here(value.map(|value| self.shown(value)).transpose()?),
            Err(Reason::NotAuthorized) => return Err(ReadError::NotAuthorized),
            Err(Reason::InvalidTopicName) => return Err(ReadError::InvalidTopic),
            Err(_) => Found::Elsewhere,
        };
        Ok((principal.tenant, found))
    }

    fn shown(&self, value: RetainedValue) -> Result<RetainedMessage, ReadError> {
        let found = PublishProperties::decode(&value.properties).map_err(|_| ReadError::Unavailable)?;
        let left = value.expires_at.0.saturating_sub(self.node.now().monotonic.0).div_ceil(1_000);
        let expires = value.expires_at != Millis::NEVER;
        let topic = found.response_topic.map(|topic| TopicNameBuf::new(topic.as_str()));
        let properties = MessageProperties {
            payload_format: found.payload_format,
            message_expiry: expires.then(|| u32::try_from(left).unwrap_or(u32::MAX)),
            content_type: found.content_type.map(str::to_owned),
            response_topic: topic.transpose().map_err(|_| ReadError::Unavailable)?,
            correlation_data: found.correlation_data.map(<[u8]>::to_vec),
            user_properties: found.user_properties.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        };
        Ok(RetainedMessage { qos: value.qos as u8, payload: value.payload, properties })
    }
}

/// An MQTT connection of a client without MQTT.
pub(super) struct Connection {
    pub(super) client_id: String,
    pub(super) stream: UnixStream,
    pub(super) seat: InTenant,
}

/// A connection in the quotas of its tenant, where this node counts it.
pub(super) struct InTenant(Option<TenantSeat>);

impl Seat for InTenant {
    fn rest(&mut self) {
        if let Some(seat) = &mut self.0 {
            seat.rest();
        }
    }

    fn resume(&mut self) -> bool {
        self.0.as_mut().is_none_or(TenantSeat::resume)
    }

    fn pass(&mut self) {
        if let Some(seat) = &mut self.0 {
            seat.pass();
        }
    }

    fn leave(&mut self) {
        if let Some(seat) = &mut self.0 {
            seat.leave();
        }
    }
}

impl Gateway for ToNode {
    fn connect(&self, caller: &Caller, draw: &dyn Fn() -> String) -> io::Result<Entry> {
        let Connection { client_id, stream, seat } = self.connect_with(caller, caller.tls.as_ref().map(facts), draw)?;
        Ok(Entry { client_id, stream, seat: Box::new(seat) })
    }

    fn tls(&self, listener: u16) -> Option<TlsStart> {
        let begun = self.node.begin_tls(ListenerId(listener))?;
        Some(TlsStart { config: begun.config, slot: begun.slot })
    }

    fn retained(&self, caller: &Caller, client_id: &str, topic: &str) -> Result<Found<RetainedMessage>, ReadError> {
        self.read(caller, client_id, topic).map(|(_, found)| found)
    }

    fn fetch(&self, caller: &Caller, client_id: &str, topic: &str) -> Result<Option<RetainedMessage>, ReadError> {
        // The rights and the place of the topic may have changed since the last question.
        match self.read(caller, client_id, topic)? {
            (_, Found::Here(message)) => Ok(message),
            (tenant, Found::Elsewhere) => self.fetch_from_home(tenant, topic),
        }
    }

    fn user_of_key(&self, token: &[u8]) -> Option<String> {
        KeyName::of_key(token).map(|name| name.user.to_owned())
    }

    fn who(&self, caller: &Caller, client_id: &str) -> Option<Who> {
        let (principal, _) = self.principal(caller, client_id)?;
        let user_name = principal.identity.and_then(|identity| identity.user_name.clone());
        Some(Who { tenant: principal.tenant.0, user_name })
    }

    fn history(
        &self,
        caller: &Caller,
        client_id: &str,
        question: &HistoryQuestion,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<HistoryAnswer, HistoryError> {
        let (principal, door) = self.principal(caller, client_id).ok_or(ReadError::SessionElsewhere)?;
        let tenant = self.tenancy.name(principal.tenant);
        let HistoryQuestion { filters, from, after, limit } = question.clone();
        let behind = from.zip(after).map(|(time, id)| HistoryPlace { time, id });
        let query = HistoryQuery { filters, from, behind, limit };
        let mut rights: HashMap<String, bool> = HashMap::new();
        let mut may = |topic: &str| {
            if let Some(known) = rights.get(topic) {
                return *known;
            }
            // A client that may read the retained message of a topic may read its history.
            let read = match &door {
                Some(door) => door.retained(&principal, topic),
                None => self.node.retained(&principal, topic),
            };
            // The rules decide here, also about topics of other nodes.
            let may = matches!(read, Ok(Ok(_) | Err(Reason::NotServedHere)));
            if rights.len() < MAX_RIGHTS {
                rights.insert(topic.to_owned(), may);
            }
            may
        };
        match self.histories.read(&self.handle, (&tenant, &query), &mut may, is_wanted) {
            Ok(found) => Ok(HistoryAnswer { messages: found.messages, incomplete: found.incomplete }),
            Err(ReadHistoryError::Missing) => Err(HistoryError::Missing),
            Err(error) => {
                tracing::warn!(%error, "cannot read a history");
                Err(ReadError::Unavailable.into())
            }
        }
    }

    fn left(&self, client_id: &str) {
        self.visitors.forget(client_id);
    }
}

/// A client id whose home is here, so that the rights of the client are known here. If none is found, the session is
/// elsewhere.
fn draw_served(served: Partitions, tenant: TenantId, draw: &dyn Fn() -> String) -> String {
    let is_served = |client_id: &String| served.has(partition_of(tenant, client_id));
    (0..MAX_DRAWS).map(|_| draw()).find(is_served).unwrap_or_else(draw)
}

fn facts(tls: &TlsSession) -> TlsFacts {
    let version = if tls.version == ProtocolVersion::TLSv1_3 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
    let server_name = tls.server_name.as_deref().map(Box::from);
    TlsFacts { version, server_name, alpn: None, client: None, identity: None }
}

/// The numbers of the listeners.
struct HttpPart(Arc<Counters>);

impl Part for HttpPart {
    fn add_to(&self, status: &mut Status) {
        let counters = &self.0;
        status.http = Some(HttpNumbers {
            requests: counters.requests(),
            body_bytes: counters.body_bytes(),
            sent: counters.sent(),
            connections_refused: counters.connections_refused(),
            queues: counters.queues(),
            websockets: counters.websockets(),
        });
    }
}

/// Why the listeners for HTTP do not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpListenerError {
    /// The host name of an address.
    #[error("cannot listen on {address}: {source}")]
    Address {
        /// The address of the configuration.
        address: ListenAddress,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A socket or a thread.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// The listeners for HTTP of a broker.
#[derive(Debug, Default)]
pub(crate) struct HttpListeners(Option<Running>);

impl HttpListeners {
    /// Listens and serves, where the configuration has such listeners.
    ///
    /// # Errors
    /// When an address is taken or the system has nothing left.
    pub(crate) fn start(config: &Config, gateway: &ToNode, status: &BrokerStatus) -> Result<Self, HttpListenerError> {
        let mut doors = Vec::new();
        let bodies = usize::try_from(config.limits.bytes_outside_shards()).unwrap_or(usize::MAX).min(MAX_BODY_BYTES);
        for (listener, number) in config.listeners.iter().zip(0..) {
            let Some(at) = listener.address.host_port().filter(|_| listener.address.is_http()) else { continue };
            let addresses = at.resolve();
            let addresses =
                addresses.map_err(|source| HttpListenerError::Address { address: listener.address.clone(), source })?;
            let connections = if listener.max_connections == 0 { MAX_CONNECTIONS } else { listener.max_connections };
            doors.push(DoorSettings {
                listener: number,
                name: listener.name.clone(),
                addresses,
                tls: listener.address.is_tls(),
                max_connections: usize::try_from(connections).unwrap_or(usize::MAX),
                max_body: usize::try_from(listener.max_packet_size.0).unwrap_or(usize::MAX),
                max_body_bytes: bodies,
                origins: listener.allowed_origins.0.clone(),
            });
        }
        // Also for the listeners of other nodes.
        status.parts().register_histories(Arc::clone(&gateway.histories) as _);
        if doors.is_empty() {
            return Ok(Self::default());
        }
        let running = tidegate_http::start(doors, Arc::new(gateway.clone()))?;
        status.parts().register(Arc::new(HttpPart(running.counters())));
        Ok(Self(Some(running)))
    }

    /// The addresses as URLs, for the line that says "ready".
    pub(crate) fn urls(&self, config: &Config) -> Vec<String> {
        let addresses = self.0.iter().flat_map(Running::addresses);
        let url = |(number, at): &(u16, SocketAddr)| {
            let listener = config.listeners.get(usize::from(*number));
            let scheme = if listener.is_some_and(|it| it.address.is_tls()) { "https" } else { "http" };
            format!("{scheme}://{at}")
        };
        addresses.map(url).collect()
    }

    /// Ends streams, and waits for the answers under way, within `grace`.
    pub(crate) fn stop(self, grace: Duration) {
        if let Some(running) = self.0 {
            running.stop(grace);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_client_id_is_drawn_until_its_home_is_here() {
        let tenant = TenantId(3);
        let drawn = Cell::new(0_usize);
        let draw = || {
            drawn.set(drawn.get() + 1);
            format!("http-{}", drawn.get())
        };
        let mut served = Partitions::NONE;
        served.add(partition_of(tenant, "http-40"));
        let client_id = draw_served(served, tenant, &draw);
        assert!(served.has(partition_of(tenant, &client_id)) && drawn.get() <= 40, "{client_id}");
        drawn.set(0);
        draw_served(Partitions::NONE, tenant, &draw);
        assert_eq!(drawn.get(), MAX_DRAWS + 1, "the number of draws is bounded");
    }
}
