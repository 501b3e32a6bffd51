//! Queries over connections (RFC 7766): each with its length before it, answered in order.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{FAULT_PAUSE, answered};
use crate::counters::{DropReason, Event};
use crate::flood::{Network, Transport};
use crate::settings::Limits;
use crate::wire::{MAX_QUERY_BYTES, Responder};

/// Bytes of the length before a message.
const LENGTH_BYTES: usize = 2;

/// Connections of each network. It holds no more networks than there may be connections.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLimit {
    taken: Arc<Mutex<BTreeMap<Network, usize>>>,
    all: usize,
    of_network: usize,
}

impl ConnectionLimit {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { taken: Arc::default(), all: limits.tcp_connections, of_network: limits.tcp_connections_per_network }
    }

    /// Admits a connection of a network, if the limits allow it.
    pub(super) fn take(&self, network: Network) -> Option<ConnectionPermit> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let of_network = taken.get(&network).copied().unwrap_or(0);
        if of_network >= self.of_network || taken.values().sum::<usize>() >= self.all {
            return None;
        }
        taken.insert(network, of_network + 1);
        Some(ConnectionPermit { limit: self.clone(), network })
    }
}

/// The right of one connection to be open, given back when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    limit: ConnectionLimit,
    network: Network,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.limit.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = taken.get_mut(&self.network) {
            *number = number.saturating_sub(1);
            if *number == 0 {
                taken.remove(&self.network);
            }
        }
    }
}

/// Takes connections, within the limits.
pub(super) async fn serve(listener: TcpListener, responder: Arc<Responder>, limit: ConnectionLimit, limits: Limits) {
    loop {
        let (mut stream, source) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a DNS connection");
                tokio::time::sleep(FAULT_PAUSE).await;
                continue;
            }
        };
        let Some(permit) = limit.take(Network::of(source.ip())) else {
            responder.counters().event(Event::TcpRefused);
            continue;
        };
        responder.counters().event(Event::TcpAccepted);
        let responder = Arc::clone(&responder);
        tokio::spawn(async move {
            let conversation = converse(&mut stream, source, &responder, limits);
            if timeout(limits.tcp_life, conversation).await.unwrap_or(Ended::TooLong) == Ended::TooLong {
                responder.counters().event(Event::TcpTimedOut);
            }
            // A client that sees the connection closed finds it counted, and room for another one.
            drop(permit);
            drop(stream);
        });
    }
}

/// How a connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The client closed it, or it broke.
    Gone,
    /// We closed it: the query cannot be answered.
    Closed,
    /// We closed it: it took too long.
    TooLong,
}

/// Answers the queries of a connection, one after the other.
async fn converse(stream: &mut TcpStream, source: SocketAddr, responder: &Responder, limits: Limits) -> Ended {
    // Answers are small and complete, so Nagle's algorithm only delays them. Without the option the server still works.
    let _ = stream.set_nodelay(true);
    let mut query = Vec::new();
    loop {
        match timeout(limits.tcp_idle, read_query(stream, &mut query)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => {
                responder.counters().drop_packet(DropReason::Oversize);
                return Ended::Closed;
            }
            Ok(Err(_)) => return Ended::Gone,
            Err(_) => return Ended::TooLong,
        }
        let Some(answer) = answered(|| responder.respond(&query, source, Transport::Tcp, Instant::now())).await else {
            return Ended::Closed;
        };
        let Ok(length) = u16::try_from(answer.len()) else { return Ended::Closed };
        // One write, so that length and answer travel together.
        let framed = [length.to_be_bytes().as_slice(), &answer].concat();
        match timeout(limits.tcp_idle, stream.write_all(&framed)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ended::Gone,
            Err(_) => return Ended::TooLong,
        }
    }
}

/// Reads one query; `false` if it is too long.
async fn read_query(stream: &mut TcpStream, query: &mut Vec<u8>) -> io::Result<bool> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length).await?;
    let length = usize::from(u16::from_be_bytes(length));
    if length > MAX_QUERY_BYTES {
        return Ok(false);
    }
    query.resize(length, 0);
    stream.read_exact(query).await?;
    Ok(true)
}
