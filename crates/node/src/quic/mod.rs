//! MQTT over QUIC: one UDP socket for each listener address, and connections that live where their clients have their
//! home.
//!
//! A socket belongs to one shard, like every listener. Its [`QuicEndpoint`] finds the connection of a datagram by the
//! connection id, so that a client may change its address, and passes the datagram to the shard that has the
//! connection, without decrypting it. The connection itself, a [`Quic`] with keys, streams and timers, moves to its
//! client's home after CONNECT, as a socket does, and sends from there through the same UDP socket. `docs/quic.md` has
//! the reasons, and the purpose of each limit.

mod bind;
mod configuration;
mod connection;
mod endpoint;
mod limits;
mod shared;
mod stream;

pub(crate) use bind::bind;
pub(crate) use connection::{Flushed, News, Quic, QuicFailure};
pub(crate) use endpoint::{Arrived, QuicEndpoint, QuicSocket, ReceiveRoom, number_of, token_of};
pub(crate) use limits::{DATAGRAMS_PER_TURN, MAX_ENDPOINTS, UNPROVED_HANDSHAKES_PER_TURN};
pub(crate) use shared::{EndpointShared, Notices, QuicBatch, QuicId, QuicNotice};
