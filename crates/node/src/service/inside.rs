//! Connections that another part of the process has made, on their way to a shard.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use tidegate_engine::ListenerId;
use tidegate_pipe::PipeEnd;

use crate::peer::Peer;
use crate::tls::TlsFacts;
use crate::transport::Transport;

/// A connection on its way to a shard.
pub(crate) struct Inside {
    pub(crate) transport: Transport,
    pub(crate) listener: ListenerId,
    pub(crate) peer: Peer,
    /// Whether the process itself is the client: limits and bans do not hold for it.
    pub(crate) is_own: bool,
}

impl Inside {
    /// A socket of a client at this address, over this TLS session if it has one.
    pub(crate) fn socket(
        stream: UnixStream,
        listener: ListenerId,
        client: SocketAddr,
        tls: Option<Arc<TlsFacts>>,
    ) -> Self {
        let transport = Transport::inside(mio::net::UnixStream::from_std(stream), client, tls);
        Self { transport, listener, peer: Peer::Address(client), is_own: false }
    }

    /// A pipe to a part of the process that is a client itself.
    pub(crate) fn pipe(end: PipeEnd, listener: ListenerId) -> Self {
        Self { transport: Transport::Pipe(Box::new(end)), listener, peer: Peer::Unix, is_own: true }
    }
}
