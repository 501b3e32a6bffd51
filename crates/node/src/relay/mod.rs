//! Relays: a client whose home is another orchestrator keeps its socket here, and its bytes go to its home and back.
//!
//! A relay has two ends with a buffer each, bounded by one read. An end is read only while the buffer of the other one
//! is empty, so that a slow reader slows down the sender. A PROXY protocol header informs the home of the client's
//! address. `shard/relaying.rs` and `shard/moving.rs` do the work, on the shard's poll. While the connection between two
//! nodes is cut, a third one carries the relay (`shard/carrying.rs`).

pub(crate) mod departed;
pub(crate) mod end;
pub(crate) mod follower;
pub(crate) mod frame;
pub(crate) mod goodbye;
pub(crate) mod header;
pub(crate) mod introduction;
pub(crate) mod pair;
mod place;
pub(crate) mod search;
pub(crate) mod sieve;
pub(crate) mod slots;
pub(crate) mod way;

use mio::net::TcpStream;
use tidegate_engine::{ConnectionKey, Reason};

use self::departed::Departed;
use self::end::End;
pub(crate) use self::pair::{ClientOrigin, Pair};
pub use self::place::NodeHomes;
pub(crate) use self::search::Search;
pub(crate) use self::slots::{RelayKey, Relays};
pub use self::way::Detours;
pub(crate) use self::way::{Way, Ways};
use crate::admission::Seat;

/// How long a home may take to accept a connection, and how long the last bytes of a relay may take to leave,
/// milliseconds.
pub(crate) const PATIENCE_MS: u64 = 5_000;

/// The client's end, and the home's.
pub(crate) const CLIENT: usize = 0;
pub(crate) const HOME: usize = 1;

/// A client and its home.
#[derive(Debug)]
pub(crate) enum Relay {
    /// The connection to the home is in progress; the client's connection is still the engine's.
    Connecting { client: ConnectionKey, home: TcpStream, way: Way },
    /// Bytes are carried both ways.
    Open(Box<Pair>),
    /// The client's home moves; the client's end waits for the new one.
    Moving(Box<Departed>),
    /// This node stops, and the client has no home: its last bytes are written.
    Farewell(Box<HomelessClient>),
}

/// The client's end of a relay without a home.
#[derive(Debug)]
pub(crate) struct HomelessClient {
    pub(crate) client: End,
    pub(crate) seat: Seat,
}

/// The reason of a client's end if its home has ended the connection.
const HOME_ENDED: Reason = Reason::NormalDisconnect;
