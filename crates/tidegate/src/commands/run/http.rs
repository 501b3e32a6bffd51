//! The listeners of a broker for HTTP, and the way of their clients to the node.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use tidegate_client::{MessageProperties, TopicNameBuf};
use tidegate_config::Config;
use tidegate_engine::{ListenerId, Millis, Principal, PrincipalKind, Reason, RetainedValue, TenantId, Tenants};
use tidegate_http::{DoorSettings, Gateway, ReadError, RetainedMessage, Running, TlsStart};
use tidegate_mqtt::PublishProperties;
use tidegate_node::{Inlet, Node};

use tidegate_identity::access::Tenancy;
use tidegate_identity::authentication::{Visitor, Visitors};

/// HTTP connections of a listener that names no limit. Each holds three files.
const MAX_CONNECTIONS: u32 = 256;

/// The node, for HTTP clients.
struct ToNode {
    node: Inlet,
    visitors: Visitors,
    tenancy: Tenancy,
    /// Whether clients are asked who they are. Where they are not, nothing is noted of them.
    asked: bool,
}

impl ToNode {
    fn principal(&self, listener: ListenerId, client_id: &str) -> Option<Principal> {
        let known = self.visitors.get(client_id);
        let visitor = match known {
            Some(visitor) => visitor,
            // Another node has let it in.
            None if self.asked => return None,
            None => {
                let tenant = self.tenancy.of_listener(listener).unwrap_or(TenantId::DEFAULT);
                Visitor { tenant, identity: None }
            }
        };
        Some(Principal {
            kind: PrincipalKind::User,
            tenant: visitor.tenant,
            name: client_id.to_owned(),
            identity: visitor.identity,
            listener: Some(listener),
            max_held_messages: 0,
            max_held_bytes: 0,
            unobserved_by: Vec::new(),
        })
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

impl Gateway for ToNode {
    fn connect(&self, listener: u16, peer: SocketAddr, client_id: &str) -> io::Result<UnixStream> {
        let stream = self.node.connect(ListenerId(listener), peer)?;
        self.visitors.expect(client_id);
        Ok(stream)
    }

    fn tls(&self, listener: u16) -> Option<TlsStart> {
        let begun = self.node.begin_tls(ListenerId(listener))?;
        Some(TlsStart { config: begun.config, slot: begun.slot })
    }

    fn retained(&self, listener: u16, client_id: &str, topic: &str) -> Result<Option<RetainedMessage>, ReadError> {
        let principal = self.principal(ListenerId(listener), client_id).ok_or(ReadError::Elsewhere)?;
        match self.node.retained(&principal, topic).map_err(|_| ReadError::Unavailable)? {
            Ok(value) => value.map(|value| self.shown(value)).transpose(),
            Err(Reason::NotAuthorized) => Err(ReadError::NotAuthorized),
            Err(Reason::InvalidTopicName) => Err(ReadError::InvalidTopic),
            Err(_) => Err(ReadError::Elsewhere),
        }
    }

    fn left(&self, client_id: &str) {
        self.visitors.forget(client_id);
    }
}

/// The listeners for HTTP of a broker.
#[derive(Debug, Default)]
pub(crate) struct HttpListeners(Option<Running>);

impl HttpListeners {
    /// Listens and serves, where the configuration has such listeners.
    ///
    /// # Errors
    /// In words for people, when an address is taken or the system has nothing left.
    pub(crate) fn start(config: &Config, node: &Node, tenancy: &Tenancy, visitors: Visitors) -> Result<Self, String> {
        let mut doors = Vec::new();
        for (listener, number) in config.listeners.iter().zip(0..) {
            let Some(at) = listener.address.host_port().filter(|_| listener.address.is_http()) else { continue };
            let addresses = at.resolve().map_err(|error| format!("cannot listen on {}: {error}", listener.address))?;
            let connections = if listener.max_connections == 0 { MAX_CONNECTIONS } else { listener.max_connections };
            doors.push(DoorSettings {
                listener: number,
                name: listener.name.clone(),
                addresses,
                tls: listener.address.is_tls(),
                max_connections: usize::try_from(connections).unwrap_or(usize::MAX),
                max_body: usize::try_from(listener.max_packet_size.0).unwrap_or(usize::MAX),
                origins: listener.allowed_origins.0.clone(),
            });
        }
        if doors.is_empty() {
            return Ok(Self::default());
        }
        let asked = config.needs_authentication();
        let gateway = ToNode { node: Inlet::new(node.handle()), visitors, tenancy: tenancy.clone(), asked };
        let running = tidegate_http::start(doors, Arc::new(gateway)).map_err(|error| error.to_string())?;
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
