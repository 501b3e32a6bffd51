//! Sockets of clients of other protocols, on their way to a shard.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use tidegate_engine::ListenerId;

use crate::peer::Peer;
use crate::tls::TlsFacts;
use crate::transport::Transport;

/// A socket on its way to a shard.
pub(crate) struct Inside {
    stream: UnixStream,
    listener: ListenerId,
    client: SocketAddr,
    tls: Option<Arc<TlsFacts>>,
}

impl Inside {
    /// A socket of a client at this address, over this TLS session if it has one.
    pub(crate) fn new(
        stream: UnixStream,
        listener: ListenerId,
        client: SocketAddr,
        tls: Option<Arc<TlsFacts>>,
    ) -> Self {
        Self { stream, listener, client, tls }
    }

    /// The connection for a shard, with its listener and its client.
    pub(crate) fn into_parts(self) -> (Transport, ListenerId, Peer) {
        let transport = Transport::inside(mio::net::UnixStream::from_std(self.stream), self.client, self.tls);
        (transport, self.listener, Peer::Address(self.client))
    }
}
