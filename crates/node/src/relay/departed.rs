//! The client's end of a relay between two homes.

use std::net::SocketAddr;

use mio::net::TcpStream;
use tidegate_engine::Millis;

use super::end::End;
use super::frame::Parcel;
use super::goodbye::Goodbye;
use super::pair::ClientOrigin;
use super::search::Search;
use crate::admission::Seat;

/// The client's end of a relay whose home moves.
#[derive(Debug)]
pub(crate) struct Departed {
    pub(crate) client: End,
    pub(crate) seat: Seat,
    pub(crate) goodbye: Goodbye,
    pub(crate) origin: ClientOrigin,
    pub(crate) parcel: Parcel,
    pub(crate) search: Search,
    /// When it looks for its new home.
    pub(crate) next_at: Millis,
    pub(crate) attempt: Option<HomeAttempt>,
}

/// The new home that is being connected to.
#[derive(Debug)]
pub(crate) struct HomeAttempt {
    pub(crate) home: TcpStream,
    pub(crate) at: SocketAddr,
    /// When it has failed.
    pub(crate) until: Millis,
}

impl Departed {
    /// Another table has come: its new home is looked for at this time.
    pub(crate) fn look_at(&mut self, at: Millis) {
        self.next_at = at;
    }

    /// The new home was not reached.
    pub(crate) fn fail_attempt(&mut self, now: Millis) {
        self.attempt = None;
        self.search = self.search.failed();
        self.next_at = self.search.next_at(now);
    }
}
