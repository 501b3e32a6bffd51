//! What is said of servers that cannot be reached: not every attempt is worth a line.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it is said. What comes between is in the log at `debug`.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Tells what the client of the bus complains about.
pub(super) struct Complaints {
    servers: String,
    next: Mutex<Option<Instant>>,
}

impl Complaints {
    /// About servers of these names.
    pub(super) fn new(servers: String) -> Self {
        Self { servers, next: Mutex::new(None) }
    }

    /// There is a connection: what comes next is news.
    pub(super) fn connected(&self) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The client has met an error, while it had a connection or not.
    pub(super) fn tell(&self, is_up: bool, error: &dyn std::fmt::Display) {
        let servers = &self.servers;
        if !self.is_due(Instant::now()) {
            tracing::debug!(servers, %error, "the client of the bus has met an error");
        } else if is_up {
            tracing::warn!(servers, %error, "the client of the bus has met an error");
        } else {
            tracing::warn!(servers, %error, "the servers of the bus cannot be reached or let nobody in; it is tried until they do");
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let due = next.is_none_or(|next| next <= now);
        if due {
            *next = Some(now + COMPLAIN_EVERY);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_is_said_now_and_then_and_what_is_new_at_once() {
        let (complaints, now) = (Complaints::new(String::new()), Instant::now());
        let attempts = (0..200).filter(|attempt| complaints.is_due(now + Duration::from_millis(100) * *attempt));
        assert_eq!(attempts.count(), 2, "in 20 seconds");
        complaints.connected();
        assert!(complaints.is_due(now + Duration::from_secs(20)), "it was lost again");
    }
}
