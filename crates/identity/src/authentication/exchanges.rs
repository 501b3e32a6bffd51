//! Exchanges of several steps that are under way.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_auth::Exchange;

use tidegate_config::authentication::MAX_EXCHANGE_BYTES;

use super::ConnectionAddress;
use super::arrival::Arrival;

/// Exchanges under way at once.
const MAX_EXCHANGES: usize = 16_384;

/// Age from which an exchange makes room for another: its client is gone, or takes longer than it is given to connect.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The exchanges, each waiting for the next step of its client.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    table: HashMap<ConnectionAddress, Waiting>,
    /// Bytes that the requests of all of them hold.
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    exchange: Exchange,
    arrival: Box<Arrival>,
    since: Instant,
}

impl State {
    fn remove(&mut self, place: ConnectionAddress) -> Option<Waiting> {
        let waiting = self.table.remove(&place)?;
        self.bytes = self.bytes.saturating_sub(waiting.arrival.request.bytes());
        Some(waiting)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.table.len() < MAX_EXCHANGES && (self.bytes + bytes) as u64 <= MAX_EXCHANGE_BYTES
    }

    fn forget_old(&mut self, now: Instant) {
        self.table.retain(|_, waiting| now.duration_since(waiting.since) < MAX_AGE);
        self.bytes = self.table.values().map(|waiting| waiting.arrival.request.bytes()).sum();
    }
}

impl Exchanges {
    /// Keeps an exchange until its client answers. Gives the client back when there is no room.
    pub(super) fn put(
        &self,
        place: ConnectionAddress,
        exchange: Exchange,
        arrival: Box<Arrival>,
    ) -> Result<(), Box<Arrival>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, bytes) = (Instant::now(), arrival.request.bytes());
        state.remove(place);
        if !state.has_room(bytes) {
            state.forget_old(since);
        }
        if !state.has_room(bytes) {
            return Err(arrival);
        }
        state.bytes += bytes;
        state.table.insert(place, Waiting { exchange, arrival, since });
        Ok(())
    }

    /// The exchange of a connection.
    pub(super) fn take(&self, place: ConnectionAddress) -> Option<(Exchange, Box<Arrival>)> {
        let waiting = self.state.lock().unwrap_or_else(PoisonError::into_inner).remove(place)?;
        Some((waiting.exchange, waiting.arrival))
    }
}
