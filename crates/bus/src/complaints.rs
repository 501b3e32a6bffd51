//! Log lines about servers that cannot be reached: the cause and the remedy. Not every attempt is worth a line.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::Link;

/// The interval between two lines. Attempts in between are in the log at `debug`.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// The cause of an unreachable server, with its address, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) cause: String,
    pub(crate) next: &'static str,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.cause, self.next)
    }
}

/// Logs the complaints of the bus's client.
#[derive(Default)]
pub(crate) struct Complaints {
    next: Mutex<Option<Instant>>,
    looking: AtomicBool,
}

impl Complaints {
    /// There is a connection: the next failure is news.
    pub(crate) fn connected(&self) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// True if the caller may look for the cause and report it: only one does at a time.
    #[cfg(any(feature = "nats", feature = "kafka"))]
    pub(crate) fn may_look(&self) -> bool {
        !self.looking.swap(true, Ordering::Relaxed)
    }

    /// The servers cannot be reached.
    pub(crate) fn tell(&self, link: &Link, complaint: &Complaint) {
        self.looking.store(false, Ordering::Relaxed);
        link.failed(complaint.to_string());
        // The connection may have been made during the diagnosis.
        if !link.state().is_connected() && self.is_due_at(Instant::now()) {
            let servers = link.servers();
            tracing::warn!(servers, "cannot reach the bus; retrying: {complaint}");
        }
    }

    fn is_due_at(&self, now: Instant) -> bool {
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
    fn a_lasting_failure_is_logged_rarely_and_a_new_one_at_once() {
        let (complaints, now) = (Complaints::default(), Instant::now());
        let attempts = (0..200).filter(|attempt| complaints.is_due_at(now + Duration::from_millis(100) * *attempt));
        assert_eq!(attempts.count(), 2, "in 20 seconds");
        complaints.connected();
        assert!(complaints.is_due_at(now + Duration::from_secs(20)), "it was lost again");
    }
}
