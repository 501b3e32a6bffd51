//! A QUIC connection with its one stream, as a transport of MQTT [MQTT over QUIC, single stream mode].
//!
//! It belongs to the home shard of its client, like a socket. Its endpoint keeps only the routing to it, and is
//! informed of its end when it is dropped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{
    Connection, ConnectionError, ConnectionEvent, ConnectionHandle, Dir, EndpointEvent, Event, StreamEvent, StreamId,
    Transmit, VarInt,
};
use rustls::pki_types::CertificateDer;
use tidegate_engine::{Millis, Reason};

use super::limits::SENDS_PER_TURN;
use super::shared::{EndpointShared, QuicId, Sent};
use crate::tls::{HandshakeSlot, TlsFacts, TlsSettings, TlsVersion, client_facts};

/// Code of a connection that has ended as it should.
const ENDED: VarInt = VarInt::from_u32(0);
/// Code of a connection that the server has ended; the text and the DISCONNECT packet say why.
const CLOSED_BY_SERVER: VarInt = VarInt::from_u32(1);

/// Why a connection failed, in words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum QuicFailure {
    /// Before it was established.
    #[error("the QUIC handshake failed: {0}")]
    Handshake(ConnectionError),
    /// Later.
    #[error("the client broke the QUIC protocol: {0}")]
    Violation(ConnectionError),
}

/// A connection and its stream.
pub(crate) struct Quic {
    pub(crate) connection: Connection,
    handle: ConnectionHandle,
    pub(crate) endpoint: Arc<EndpointShared>,
    /// The stream that the client has opened.
    pub(crate) stream: Option<StreamId>,
    phase: Phase,
    /// The client has ended its stream.
    pub(crate) ended: bool,
    /// The failure that is to be reported.
    pub(crate) failure: Option<QuicFailure>,
    /// The client's address when it was read last.
    peer: SocketAddr,
    /// The close code and reason for the client when the connection is dropped.
    goodbye: (VarInt, &'static str),
    /// Datagrams that the socket has not taken.
    unsent: Option<Box<(Transmit, Vec<u8>)>>,
    /// When its timers are worked off next, as the shard has noted it.
    pub(crate) due: Millis,
    /// Whether it is to be processed at the end of this turn.
    pub(crate) touched: bool,
}

/// How far the connection is.
enum Phase {
    Handshake(#[expect(dead_code, reason = "dropping it gives the place back")] HandshakeSlot),
    Open,
}

/// The events of a connection since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// Input, or the end of the stream, may be available.
    pub readable: bool,
    /// Output is taken again.
    pub writable: bool,
    /// It has ended.
    pub ended: bool,
    /// The client's address before it moved.
    pub moved_from: Option<SocketAddr>,
}

/// How sending went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// All that may be sent now is sent.
    All,
    /// There is more than one turn sends.
    More,
    /// The socket would block.
    Blocked,
}

impl Quic {
    /// A connection whose handshake has just begun.
    pub(crate) fn new(
        connection: Connection,
        handle: ConnectionHandle,
        endpoint: Arc<EndpointShared>,
        slot: HandshakeSlot,
    ) -> Self {
        Self {
            peer: connection.remote_address(),
            connection,
            handle,
            endpoint,
            stream: None,
            phase: Phase::Handshake(slot),
            ended: false,
            failure: None,
            goodbye: (ENDED, ""),
            unsent: None,
            due: Millis::NEVER,
            touched: false,
        }
    }

    pub(crate) fn id(&self) -> QuicId {
        QuicId { endpoint: self.endpoint.number, handle: self.handle }
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The smoothed round trip, microseconds.
    pub(crate) fn rtt_us(&self) -> Option<u64> {
        let open = !self.is_handshaking();
        open.then(|| u64::try_from(self.connection.rtt().as_micros()).unwrap_or(u64::MAX))
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Sets the close code for the client, beside the DISCONNECT packet.
    pub(crate) fn close(&mut self, reason: Reason) {
        self.goodbye = match reason {
            Reason::NormalDisconnect | Reason::DisconnectWithWill => (ENDED, ""),
            other => (CLOSED_BY_SERVER, other.label()),
        };
    }

    /// Ends the stream, after all output.
    pub(crate) fn finish(&mut self) {
        if let Some(stream) = self.stream {
            // A stream that the client has stopped accepts no end, and needs none.
            let _ = self.connection.send_stream(stream).finish();
        }
    }

    /// Processes an event from the endpoint.
    pub(crate) fn handle_event(&mut self, event: ConnectionEvent) {
        self.connection.handle_event(event);
    }

    /// Processes the events of the connection.
    pub(crate) fn news(&mut self) -> News {
        let mut news = News::default();
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected | Event::Stream(StreamEvent::Readable { .. }) => news.readable = true,
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    news.readable = true;
                    self.take_stream();
                }
                Event::Stream(StreamEvent::Writable { .. }) => news.writable = true,
                // A client that accepts no output any more is not served.
                Event::Stream(StreamEvent::Stopped { .. }) => self.end(None),
                Event::ConnectionLost { reason } => self.end(Some(reason)),
                // There are no other streams and no datagrams; that the end has arrived is known by the client's close.
                _ => {}
            }
        }
        if self.is_handshaking() && self.failure.is_none() && !self.connection.is_handshaking() {
            self.phase = Phase::Open;
        }
        news.ended = self.ended;
        let peer = self.connection.remote_address();
        if peer != self.peer {
            news.moved_from = Some(std::mem::replace(&mut self.peer, peer));
        }
        news
    }

    /// The client opens one stream in the life of a connection.
    fn take_stream(&mut self) {
        while let Some(stream) = self.connection.streams().accept(Dir::Bi) {
            if self.stream.is_some() {
                self.connection.close(Instant::now(), CLOSED_BY_SERVER, Bytes::from_static(b"one stream only"));
                self.ended = true;
                return;
            }
            self.stream = Some(stream);
        }
    }

    fn end(&mut self, reason: Option<ConnectionError>) {
        self.ended = true;
        let failed = |error: &ConnectionError| {
            matches!(error, ConnectionError::TransportError(_) | ConnectionError::ConnectionClosed(_))
        };
        self.failure = match reason {
            Some(error) if self.is_handshaking() => Some(QuicFailure::Handshake(error)),
            Some(error) if failed(&error) => Some(QuicFailure::Violation(error)),
            _ => None,
        };
    }

    /// Sends packets as far as allowed now, at most a bounded number.
    pub(crate) fn flush(&mut self, now: Instant, room: &mut Vec<u8>, sends: &mut u64) -> Flushed {
        if let Some(unsent) = self.unsent.take() {
            if self.endpoint.send(&unsent.0, &unsent.1) == Sent::Blocked {
                self.unsent = Some(unsent);
                return Flushed::Blocked;
            }
            *sends += 1;
        }
        for _ in 0..SENDS_PER_TURN {
            room.clear();
            let Some(transmit) = self.connection.poll_transmit(now, self.endpoint.segments(), room) else {
                return Flushed::All;
            };
            if self.endpoint.send(&transmit, room) == Sent::Blocked {
                let contents = room.get(..transmit.size).unwrap_or_default().to_vec();
                self.unsent = Some(Box::new((transmit, contents)));
                return Flushed::Blocked;
            }
            *sends += 1;
        }
        Flushed::More
    }

    /// Sends the endpoint its pending events, except for the end, which is sent once and last.
    pub(crate) fn tell_endpoint(&mut self) {
        let mut events = Vec::new();
        while let Some(event) = self.connection.poll_endpoint_events() {
            if !event.is_drained() {
                events.push(event);
            }
        }
        if !events.is_empty() {
            self.endpoint.tell(self.handle, events);
        }
    }

    /// The certificates that the client has shown, DER.
    pub(crate) fn client_chain(&self) -> Vec<Box<[u8]>> {
        let shown = self.connection.crypto_session().peer_identity();
        let chain = shown.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
        chain.iter().flat_map(|chain| chain.iter()).map(|certificate| certificate.as_ref().into()).collect()
    }

    /// The result of the handshake, and the client's identity by the listener's rule.
    pub(crate) fn facts(&self, settings: &TlsSettings) -> Option<TlsFacts> {
        let session = self.connection.crypto_session();
        let data = session.handshake_data()?.downcast::<HandshakeData>().ok()?;
        let chain = session.peer_identity().and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
        let certificate = chain.as_ref().and_then(|chain| chain.first());
        let (client, identity) = certificate.map_or((None, None), |certificate| client_facts(certificate, settings));
        Some(TlsFacts {
            version: TlsVersion::Tls13,
            server_name: data.server_name.map(|name| name.to_ascii_lowercase().into()),
            alpn: data.protocol.map(Into::into),
            client,
            identity,
        })
    }
}

impl Drop for Quic {
    fn drop(&mut self) {
        let (now, mut room) = (Instant::now(), Vec::new());
        if !self.connection.is_closed() {
            let (code, text) = self.goodbye;
            self.connection.close(now, code, Bytes::from_static(text.as_bytes()));
        }
        // A failed connection owes the client its close packet, too: during a handshake no reset would inform it.
        if let Some(transmit) = self.connection.poll_transmit(now, 1, &mut room) {
            // When it is lost, a reset answers the client's next packet.
            let _ = self.endpoint.send(&transmit, &room);
        }
        self.endpoint.tell(self.handle, vec![EndpointEvent::drained()]);
    }
}
