//! State that the shard of a UDP socket shares with the shards of its connections: the socket, and the queue of events
//! for the endpoint.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mio::net::UdpSocket;
use quinn_proto::{ConnectionEvent, ConnectionHandle, EndpointEvent};
use quinn_udp::{RecvMeta, UdpSocketState};
use tidegate_engine::ShardId;

use super::limits::{DATAGRAMS_UNDER_WAY, SEGMENTS_PER_SEND};

/// Takes the events of connections to the shard of their socket.
pub(crate) type Notices = Box<dyn Fn(QuicNotice) + Send + Sync>;

/// A connection of this node: its socket's number, and its own number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QuicId {
    pub endpoint: u16,
    pub handle: ConnectionHandle,
}

/// Datagrams for connections whose clients have their home on another shard, in order.
pub(crate) struct QuicBatch {
    endpoint: Arc<EndpointShared>,
    to: ShardId,
    events: Vec<(ConnectionHandle, ConnectionEvent)>,
}

/// Events of a connection for its endpoint.
pub(crate) struct QuicNotice {
    pub endpoint: u16,
    pub handle: ConnectionHandle,
    pub events: Vec<EndpointEvent>,
}

/// The outcome of sending datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// They are on their way, or lost as on any network.
    Gone,
    /// The socket would block.
    Blocked,
}

/// A UDP socket as all shards see it.
pub(crate) struct EndpointShared {
    pub number: u16,
    socket: UdpSocket,
    state: UdpSocketState,
    notices: Notices,
    /// Datagrams under way to each shard.
    under_way: Box<[AtomicUsize]>,
}

impl EndpointShared {
    pub(crate) fn new(number: u16, socket: UdpSocket, state: UdpSocketState, notices: Notices, shards: u16) -> Self {
        let under_way = (0..shards).map(|_| AtomicUsize::new(0)).collect();
        Self { number, socket, state, notices, under_way }
    }

    /// The socket, for a poller.
    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Datagrams that one system call may carry.
    pub(crate) fn segments(&self) -> usize {
        self.state.max_gso_segments().min(SEGMENTS_PER_SEND)
    }

    /// Sends once. Whatever is wrong with a datagram is the network's: it is lost, and sent again where that matters.
    pub(crate) fn send(&self, transmit: &quinn_proto::Transmit, contents: &[u8]) -> Sent {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|mark| quinn_udp::EcnCodepoint::from_bits(mark as u8)),
            contents: contents.get(..transmit.size).unwrap_or(contents),
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        match self.state.try_send((&self.socket).into(), &transmit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Blocked,
            Err(error) => {
                tracing::trace!(%error, to = %transmit.destination, "a datagram was not sent");
                Sent::Gone
            }
            Ok(()) => Sent::Gone,
        }
    }

    /// Receives once and returns the number of buffers that were filled.
    pub(crate) fn receive(&self, buffers: &mut [io::IoSliceMut<'_>], metas: &mut [RecvMeta]) -> io::Result<usize> {
        self.state.recv((&self.socket).into(), buffers, metas)
    }

    /// Sends events of a connection to the endpoint.
    pub(crate) fn tell(&self, handle: ConnectionHandle, events: Vec<EndpointEvent>) {
        (self.notices)(QuicNotice { endpoint: self.number, handle, events });
    }

    /// Datagrams for the shard of their connections, and how many were dropped because too many wait there.
    pub(crate) fn batch(
        self: &Arc<Self>,
        to: ShardId,
        mut events: Vec<(ConnectionHandle, ConnectionEvent)>,
    ) -> (Option<QuicBatch>, usize) {
        let Some(under_way) = self.under_way.get(usize::from(to.0)) else { return (None, events.len()) };
        let room = DATAGRAMS_UNDER_WAY.saturating_sub(under_way.load(Ordering::Relaxed));
        let dropped = events.len().saturating_sub(room);
        events.truncate(room);
        if events.is_empty() {
            return (None, dropped);
        }
        under_way.fetch_add(events.len(), Ordering::Relaxed);
        (Some(QuicBatch { endpoint: Arc::clone(self), to, events }), dropped)
    }

    /// The answer to a connection's notice, for its shard. There is no more of them than of notices.
    pub(crate) fn answer(
        self: &Arc<Self>,
        to: ShardId,
        answer: (ConnectionHandle, ConnectionEvent),
    ) -> Option<QuicBatch> {
        self.under_way.get(usize::from(to.0))?.fetch_add(1, Ordering::Relaxed);
        Some(QuicBatch { endpoint: Arc::clone(self), to, events: vec![answer] })
    }
}

impl QuicBatch {
    /// The number of the socket, and the datagrams.
    pub(crate) fn open(mut self) -> (u16, Vec<(ConnectionHandle, ConnectionEvent)>) {
        let events = std::mem::take(&mut self.events);
        self.settle(events.len());
        (self.endpoint.number, events)
    }

    fn settle(&self, count: usize) {
        if let Some(under_way) = self.endpoint.under_way.get(usize::from(self.to.0)) {
            under_way.fetch_sub(count, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for QuicBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicBatch").field("to", &self.to).field("events", &self.events.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for QuicNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicNotice")
            .field("handle", &self.handle)
            .field("events", &self.events.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EndpointShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointShared").field("number", &self.number).finish_non_exhaustive()
    }
}
