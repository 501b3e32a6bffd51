//! How much may wait for the bus at once, over all logs and requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::{BusError, Settings};

/// Counts of waiting requests and their bytes, and the limits.
pub(crate) struct Budget {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    max_requests: usize,
    max_bytes: usize,
}

impl Budget {
    pub(crate) fn new(settings: &Settings) -> Arc<Self> {
        Arc::new(Self {
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            max_requests: settings.max_waiting,
            max_bytes: settings.max_waiting_bytes,
        })
    }

    /// Takes room for one request.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Result<Ticket, BusError> {
        if self.requests.fetch_add(1, Relaxed) >= self.max_requests {
            self.requests.fetch_sub(1, Relaxed);
            return Err(BusError::Waiting { limit: "max_waiting", value: self.max_requests });
        }
        if self.bytes.fetch_add(bytes, Relaxed).saturating_add(bytes) > self.max_bytes {
            self.requests.fetch_sub(1, Relaxed);
            self.bytes.fetch_sub(bytes, Relaxed);
            return Err(BusError::Waiting { limit: "max_waiting_bytes", value: self.max_bytes });
        }
        Ok(Ticket { budget: Arc::clone(self), bytes })
    }

    /// Requests and bytes that wait now.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.requests.load(Relaxed), self.bytes.load(Relaxed))
    }
}

/// Room that was taken; it is given back when this is dropped.
pub(crate) struct Ticket {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.budget.requests.fetch_sub(1, Relaxed);
        self.budget.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_refused_and_given_back() {
        let budget = Budget::new(&Settings { max_waiting: 2, max_waiting_bytes: 10, ..Settings::default() });
        let first = budget.take(6).unwrap();
        assert!(matches!(budget.take(5), Err(BusError::Waiting { limit: "max_waiting_bytes", value: 10 })));
        let second = budget.take(4).unwrap();
        assert!(matches!(budget.take(0), Err(BusError::Waiting { limit: "max_waiting", value: 2 })));
        assert_eq!(budget.waiting(), (2, 10));
        drop((first, second));
        assert_eq!(budget.waiting(), (0, 0));
    }
}
