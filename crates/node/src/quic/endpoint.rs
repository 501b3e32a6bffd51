//! A UDP socket on its shard: datagrams find their connections, and Initial packets become new ones.

use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use quinn_proto::crypto::HandshakeTokenKey;
use quinn_proto::{
    ConnectionError, ConnectionEvent, ConnectionHandle, DatagramEvent, Endpoint, EndpointEvent, Incoming, Transmit,
};
use quinn_udp::RecvMeta;
use tidegate_engine::{ListenerId, ShardId};

use super::bind::BoundSocket;
use super::configuration;
use super::connection::Quic;
use super::limits::{MAX_ENDPOINTS, PROOF_SHARE, RECEIVE_BATCH, RECEIVE_BUFFER_BYTES};
use super::shared::{EndpointShared, Notices};
use crate::tls::{HandshakeSlot, TlsError, TlsListener};
use crate::tokens::RESERVED_INDEX;

/// The tokens of UDP sockets follow the tokens of listeners.
const FIRST_TOKEN: usize = RESERVED_INDEX as usize + 512;

/// The token of a UDP socket.
pub(crate) fn token_of(number: u16) -> Token {
    Token(FIRST_TOKEN + usize::from(number))
}

/// The number of the UDP socket that a token names.
pub(crate) fn number_of(token: Token) -> Option<u16> {
    let number = token.0.checked_sub(FIRST_TOKEN).filter(|number| *number < MAX_ENDPOINTS)?;
    u16::try_from(number).ok()
}

/// A bound socket of a listener, on its way to its shard.
#[derive(Debug)]
pub(crate) struct QuicSocket {
    listener: ListenerId,
    tls: Arc<TlsListener>,
    bound: BoundSocket,
    number: u16,
}

impl QuicSocket {
    pub(crate) fn new(listener: ListenerId, tls: Arc<TlsListener>, bound: BoundSocket) -> Self {
        Self { listener, tls, bound, number: 0 }
    }

    /// Gives it the number that all shards know it by.
    pub(crate) fn set_number(&mut self, number: u16) {
        self.number = number;
    }
}

/// The result of one datagram.
pub(crate) enum Arrived {
    /// It is for a connection.
    Event(ConnectionHandle, ConnectionEvent),
    /// A request for a connection.
    Incoming(Incoming),
}

/// Buffer for the datagrams of one system call. Its pages take memory only once they were written to.
pub(crate) struct ReceiveRoom {
    bytes: Box<[u8]>,
    metas: [RecvMeta; RECEIVE_BATCH],
}

impl Default for ReceiveRoom {
    fn default() -> Self {
        let bytes = vec![0; RECEIVE_BATCH * RECEIVE_BUFFER_BYTES].into_boxed_slice();
        Self { bytes, metas: [RecvMeta::default(); RECEIVE_BATCH] }
    }
}

/// A listening UDP socket.
pub(crate) struct QuicEndpoint {
    endpoint: Endpoint,
    pub(crate) shared: Arc<EndpointShared>,
    pub(crate) listener: ListenerId,
    pub(crate) tls: Arc<TlsListener>,
    /// The certificates that new connections get.
    certificates: Arc<rustls::ServerConfig>,
    token_key: Arc<dyn HandshakeTokenKey>,
    /// The shard of each connection, by its number.
    routes: Vec<Option<ShardId>>,
    /// Datagrams may be waiting.
    pub(crate) ready: bool,
    /// Whether new connections are taken.
    pub(crate) accepting: bool,
}

impl QuicEndpoint {
    /// Creates an endpoint on a socket.
    ///
    /// # Errors
    /// When the certificates or the system's randomness cannot be used.
    pub(crate) fn new(socket: QuicSocket, notices: Notices, shards: u16) -> Result<Self, TlsError> {
        let refused = |reason: String| TlsError::Setup { reason };
        let QuicSocket { listener, tls, bound, number } = socket;
        let token_key = configuration::token_key().map_err(|_| refused("the system gives no random bytes".into()))?;
        let certificates = tls.configuration();
        let server = configuration::server(&certificates, &token_key).map_err(|error| refused(error.to_string()))?;
        let endpoint = Endpoint::new(configuration::endpoint(), Some(server), !bound.state.may_fragment(), None);
        let shared = Arc::new(EndpointShared::new(number, bound.socket, bound.state, notices, shards));
        let (routes, ready, accepting) = (Vec::new(), true, true);
        Ok(Self { endpoint, shared, listener, tls, certificates, token_key, routes, ready, accepting })
    }

    /// Asks a poller to report datagrams.
    pub(crate) fn register(&self, registry: &Registry) -> io::Result<()> {
        let (fd, token) = (self.shared.fd(), token_of(self.shared.number));
        registry.register(&mut SourceFd(&fd), token, Interest::READABLE)
    }

    /// Receives once and processes the datagrams; answers the datagrams that need no connection. Returns their number.
    pub(crate) fn receive(&mut self, room: &mut ReceiveRoom, arrived: &mut Vec<Arrived>) -> io::Result<usize> {
        let mut buffers = room.bytes.chunks_mut(RECEIVE_BUFFER_BYTES).map(IoSliceMut::new);
        let mut buffers: [IoSliceMut<'_>; RECEIVE_BATCH] =
            std::array::from_fn(|_| buffers.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let filled = self.shared.receive(&mut buffers, &mut room.metas)?;
        let (now, mut answer, mut count) = (Instant::now(), Vec::new(), 0);
        for (meta, buffer) in room.metas.iter().zip(&buffers).take(filled) {
            let received = buffer.get(..meta.len).unwrap_or_default();
            for datagram in received.chunks(meta.stride.max(1)) {
                count += 1;
                let mark = meta.ecn.and_then(|mark| quinn_proto::EcnCodepoint::from_bits(mark as u8));
                answer.clear();
                let bytes = BytesMut::from(datagram);
                match self.endpoint.handle(now, meta.addr, meta.dst_ip, mark, bytes, &mut answer) {
                    Some(DatagramEvent::ConnectionEvent(handle, event)) => arrived.push(Arrived::Event(handle, event)),
                    Some(DatagramEvent::NewConnection(incoming)) => arrived.push(Arrived::Incoming(incoming)),
                    Some(DatagramEvent::Response(transmit)) => self.answer(&transmit, &answer),
                    None => {}
                }
            }
        }
        Ok(count)
    }

    /// Sends a packet that belongs to no connection. If the socket would block it is lost, and the peer asks again.
    fn answer(&self, transmit: &Transmit, contents: &[u8]) {
        let _ = self.shared.send(transmit, contents);
    }

    /// Uses certificates that were read again.
    pub(crate) fn follow_certificates(&mut self) {
        let certificates = self.tls.configuration();
        if Arc::ptr_eq(&certificates, &self.certificates) {
            return;
        }
        match configuration::server(&certificates, &self.token_key) {
            Ok(server) => self.endpoint.set_server_config(Some(server)),
            Err(error) => tracing::error!(%error, "QUIC keeps its former certificates"),
        }
        self.certificates = certificates;
    }

    /// True if the number of handshakes in progress is so high that clients have to prove their address first.
    pub(crate) fn is_busy(&self) -> bool {
        let most = self.tls.settings().max_handshakes;
        most != 0 && self.tls.handshakes_under_way() >= most.div_ceil(PROOF_SHARE)
    }

    /// Begins a connection.
    ///
    /// # Errors
    /// When the client's packets so far begin no connection.
    pub(crate) fn accept(
        &mut self,
        incoming: Incoming,
        slot: HandshakeSlot,
        here: ShardId,
    ) -> Result<Quic, ConnectionError> {
        let mut answer = Vec::new();
        match self.endpoint.accept(incoming, Instant::now(), &mut answer, None) {
            Ok((handle, connection)) => {
                self.route(handle, Some(here));
                Ok(Quic::new(connection, handle, Arc::clone(&self.shared), slot))
            }
            Err(failed) => {
                if let Some(transmit) = failed.response {
                    self.answer(&transmit, &answer);
                }
                tracing::debug!(error = %failed.cause, "no QUIC connection");
                Err(failed.cause)
            }
        }
    }

    /// Makes a client validate its address, without state for it.
    pub(crate) fn ask_for_proof(&mut self, incoming: Incoming) {
        let mut answer = Vec::new();
        match self.endpoint.retry(incoming, &mut answer) {
            Ok(transmit) => self.answer(&transmit, &answer),
            Err(proved) => self.endpoint.ignore(proved.into_incoming()),
        }
    }

    /// Refuses a connection.
    pub(crate) fn refuse(&mut self, incoming: Incoming) {
        let mut answer = Vec::new();
        let transmit = self.endpoint.refuse(incoming, &mut answer);
        self.answer(&transmit, &answer);
    }

    /// Forgets that a client asked; it asks again.
    pub(crate) fn forget(&mut self, incoming: Incoming) {
        self.endpoint.ignore(incoming);
    }

    /// The shard of a connection.
    pub(crate) fn shard_of(&self, handle: ConnectionHandle) -> Option<ShardId> {
        self.routes.get(handle.0).copied().flatten()
    }

    /// Notes which shard has a connection, or that it has ended.
    pub(crate) fn route(&mut self, handle: ConnectionHandle, to: Option<ShardId>) {
        if self.routes.len() <= handle.0 {
            self.routes.resize(handle.0 + 1, None);
        }
        if let Some(place) = self.routes.get_mut(handle.0) {
            *place = to;
        }
    }

    /// Processes an event of a connection; returns the endpoint's answer to it.
    pub(crate) fn take_notice(&mut self, handle: ConnectionHandle, event: EndpointEvent) -> Option<ConnectionEvent> {
        self.shard_of(handle)?;
        if event.is_drained() {
            self.route(handle, None);
        }
        self.endpoint.handle_event(handle, event)
    }
}
