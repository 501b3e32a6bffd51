//! Exchanges of several steps that are under way.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_auth::Exchange;

use super::Place;
use super::arrival::Arrival;

/// Exchanges under way at once. Each holds a few hundred bytes.
const MAX_EXCHANGES: usize = 16_384;

/// Age from which an exchange makes room for another: its client is gone, or takes longer than it is given to connect.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The exchanges, each waiting for the next step of its client.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    table: Mutex<HashMap<Place, Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    exchange: Exchange,
    arrival: Box<Arrival>,
    since: Instant,
}

impl Exchanges {
    /// Keeps an exchange until its client answers. Gives the client back when there is no room.
    pub(super) fn put(&self, place: Place, exchange: Exchange, arrival: Box<Arrival>) -> Result<(), Box<Arrival>> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let since = Instant::now();
        if table.len() >= MAX_EXCHANGES {
            table.retain(|_, waiting| since.duration_since(waiting.since) < MAX_AGE);
        }
        if table.len() >= MAX_EXCHANGES {
            return Err(arrival);
        }
        table.insert(place, Waiting { exchange, arrival, since });
        Ok(())
    }

    /// The exchange of a connection.
    pub(super) fn take(&self, place: Place) -> Option<(Exchange, Box<Arrival>)> {
        let waiting = self.table.lock().unwrap_or_else(PoisonError::into_inner).remove(&place)?;
        Some((waiting.exchange, waiting.arrival))
    }
}
