//! The listeners of a broker for CoAP.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_administration::{BrokerStatus, Part};
use tidegate_coap::{
    Caller, Counted, DoorSettings, Gateway, Keys, KeysError, MAX_WAITING_BYTES, Outcomes, Running, ServeError,
    Settings, Shown,
};
use tidegate_config::Config;
use tidegate_console::{CoapNumbers, Status};
use tidegate_http::{Gateway as _, RetainedMessage};
use tidegate_node::{Identity, IdentityRole, ListenAddress, TlsFacts, TlsVersion};
use tidegate_visitor::{Entry, Found, ReadError};

use super::http::{Connection, ToNode};

/// Sessions of a listener that names no limit. Each holds three files.
const MAX_SESSIONS: u32 = 256;
/// Longest body, bytes: the blocks of a longer one would take minutes.
const MAX_BODY: usize = 1 << 20;

/// The node, for CoAP clients: their sessions are like sessions of HTTP clients.
struct ToSessions(ToNode);

impl ToSessions {
    fn caller(caller: &Caller) -> tidegate_http::Caller {
        let Caller { listener, peer, user_name, identity } = caller.clone();
        tidegate_http::Caller { listener, peer, tls: None, user_name: identity.or(user_name) }
    }
}

impl Gateway for ToSessions {
    fn connect(&self, caller: &Caller, draw: &dyn Fn() -> String) -> io::Result<Entry> {
        let facts = caller.identity.as_deref().map(facts);
        let Connection { client_id, stream, seat } = self.0.connect_with(&Self::caller(caller), facts, draw)?;
        Ok(Entry { client_id, stream, seat: Box::new(seat) })
    }

    fn retained(&self, caller: &Caller, client_id: &str, topic: &str) -> Result<Found<Shown>, ReadError> {
        Ok(match self.0.retained(&Self::caller(caller), client_id, topic)? {
            Found::Here(message) => Found::Here(message.map(|message| shown(topic, message))),
            Found::Elsewhere => Found::Elsewhere,
        })
    }

    fn fetch(&self, caller: &Caller, client_id: &str, topic: &str) -> Result<Option<Shown>, ReadError> {
        let fetched = self.0.fetch(&Self::caller(caller), client_id, topic)?;
        Ok(fetched.map(|message| shown(topic, message)))
    }

    fn user_of_key(&self, token: &[u8]) -> Option<String> {
        self.0.user_of_key(token)
    }

    fn left(&self, client_id: &str) {
        self.0.left(client_id);
    }
}

fn shown(topic: &str, message: RetainedMessage) -> Shown {
    let RetainedMessage { qos, payload, properties } = message;
    Shown { topic: topic.to_owned(), qos, retain: true, payload, properties }
}

/// The facts of a client with a pre-shared key: its identity is the user name. DTLS 1.2 is TLS 1.2 over datagrams.
fn facts(identity: &str) -> TlsFacts {
    let identity = Identity { value: identity.into(), role: IdentityRole::Username };
    TlsFacts { version: TlsVersion::Tls12, server_name: None, alpn: None, client: None, identity: Some(identity) }
}

/// The numbers of the listeners.
struct CoapPart(Counted);

impl Part for CoapPart {
    fn add_to(&self, status: &mut Status) {
        let it = self.0.total();
        let methods = [("read", it.reads), ("publish", it.publishes), ("other", it.others)];
        let outcomes = |(method, outcomes): (&'static str, Outcomes)| {
            let Outcomes { answered, refused, failed } = outcomes;
            [(method, "answered", answered), (method, "refused", refused), (method, "failed", failed)]
        };
        status.coap = Some(CoapNumbers {
            requests: methods.into_iter().flat_map(outcomes).collect(),
            received: (it.datagrams_in, it.bytes_in),
            sent: (it.datagrams_out, it.bytes_out),
            dropped: vec![
                ("malformed", it.malformed),
                ("no-place", it.without_place),
                ("unproven", it.withheld),
                ("unacknowledged", it.unacknowledged),
                ("observer", it.left_out),
                ("handshake", it.handshakes_failed),
            ],
            notifications: it.notifications,
            repeated: it.repeated,
            clients: it.clients,
            sessions: it.sessions,
        });
    }
}

/// Why the listeners for CoAP do not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoapListenerError {
    /// The host name of an address.
    #[error("cannot listen on {address}: {source}")]
    Address {
        /// The address of the configuration.
        address: ListenAddress,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file of pre-shared keys.
    #[error("listener `{listener}`: {source}")]
    Keys {
        /// The name of the listener.
        listener: String,
        /// The fault.
        source: KeysError,
    },
    /// A socket or a thread.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// The listeners for CoAP of a broker.
#[derive(Debug, Default)]
pub(crate) struct CoapListeners(Option<Running>);

impl CoapListeners {
    /// Listens and serves, where the configuration has such listeners.
    ///
    /// # Errors
    /// When an address is taken or the system has nothing left.
    pub(crate) fn start(config: &Config, gateway: ToNode, status: &BrokerStatus) -> Result<Self, CoapListenerError> {
        let mut doors = Vec::new();
        let waiting =
            usize::try_from(config.limits.bytes_outside_shards()).unwrap_or(usize::MAX).min(MAX_WAITING_BYTES);
        for (listener, number) in config.listeners.iter().zip(0..) {
            let Some(at) = listener.address.host_port().filter(|_| listener.address.is_coap()) else { continue };
            let addresses = at.resolve();
            let addresses =
                addresses.map_err(|source| CoapListenerError::Address { address: listener.address.clone(), source })?;
            let sessions = if listener.max_connections == 0 { MAX_SESSIONS } else { listener.max_connections };
            let keys = listener.psk_file.as_ref().map(|file| Keys::open(Path::new(file)).map(Arc::new)).transpose();
            let keys = keys.map_err(|source| CoapListenerError::Keys { listener: listener.name.clone(), source })?;
            let settings = Settings {
                max_sessions: usize::try_from(sessions).unwrap_or(usize::MAX),
                max_body: usize::try_from(listener.max_packet_size.0).unwrap_or(usize::MAX).min(MAX_BODY),
                max_waiting_bytes: waiting,
                are_proven: keys.is_some(),
            };
            let name = listener.name.clone();
            doors.push(DoorSettings { listener: number, name, addresses, settings, keys });
        }
        if doors.is_empty() {
            return Ok(Self::default());
        }
        let running = tidegate_coap::start(doors, Arc::new(ToSessions(gateway)))?;
        status.parts().register(Arc::new(CoapPart(running.counted())));
        Ok(Self(Some(running)))
    }

    /// The addresses as URLs, for the line that says "ready".
    pub(crate) fn urls(&self, config: &Config) -> impl Iterator<Item = String> {
        let scheme = |number: u16| {
            let listener = config.listeners.get(usize::from(number));
            if listener.is_some_and(|listener| listener.psk_file.is_some()) { "coaps" } else { "coap" }
        };
        self.0.iter().flat_map(Running::addresses).map(move |(number, at)| format!("{}://{at}", scheme(*number)))
    }

    /// Takes no more requests, and waits for the answers under way, within `grace`.
    pub(crate) fn stop(self, grace: Duration) {
        if let Some(running) = self.0 {
            running.stop(grace);
        }
    }
}
