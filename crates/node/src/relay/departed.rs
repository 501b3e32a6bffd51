//! The client's end of a relay between two homes.

use mio::net::TcpStream;
use tidegate_engine::Millis;

use super::end::End;
use super::frame::Parcel;
use super::goodbye::Goodbye;
use super::pair::ClientOrigin;
use super::search::Search;
use super::way::Way;
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
    /// Time of the next search for its new home.
    pub(crate) next_at: Millis,
    pub(crate) attempt: Option<HomeAttempt>,
}

/// A connection to the new home in progress.
#[derive(Debug)]
pub(crate) struct HomeAttempt {
    pub(crate) home: TcpStream,
    pub(crate) way: Way,
    /// Time at which it has failed.
    pub(crate) until: Millis,
}

impl Departed {
    /// Another table is in force: sets the time of the next search for the new home.
    pub(crate) fn look_at(&mut self, at: Millis) {
        self.next_at = at;
    }

    /// Ends an attempt after its deadline, or when the home is reached by another way.
    pub(crate) fn end_late_attempt(&mut self, now: Millis, way: Option<Way>) {
        match &self.attempt {
            Some(attempt) if way != Some(attempt.way) => self.attempt = None,
            Some(attempt) if attempt.until <= now => self.fail_attempt(now),
            Some(_) | None => {}
        }
    }

    /// The new home was not reached.
    pub(crate) fn fail_attempt(&mut self, now: Millis) {
        self.attempt = None;
        self.search = self.search.failed();
        self.next_at = self.search.next_at(now);
    }
}
