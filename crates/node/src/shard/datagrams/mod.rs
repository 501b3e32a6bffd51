//! QUIC on a shard: datagrams come and go, connections change their shard, timers are worked off.

mod receive;
mod send;
mod state;

pub(crate) use state::{Owner, QuicState};
