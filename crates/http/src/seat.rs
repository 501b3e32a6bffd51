//! The place of a session in the quotas of its tenant, which ends with the connection to the broker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use crate::Seat;

/// The event of a socket that says only that the other side has closed it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOSED: Interest = Interest::PRIORITY;
/// Other systems have no such event: there the end shows with the next read.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOSED: Interest = Interest::ERROR;

/// The connection in the quotas of its tenant, until either side ends it.
pub(crate) struct SharedSeat(Mutex<Option<Box<dyn Seat>>>);

impl SharedSeat {
    /// The place of a connection that has begun.
    pub(crate) fn new(seat: Box<dyn Seat>) -> Self {
        Self(Mutex::new(Some(seat)))
    }

    fn seat(&self) -> MutexGuard<'_, Option<Box<dyn Seat>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the connection no longer.
    pub(crate) fn rest(&self) {
        if let Some(seat) = &mut *self.seat() {
            seat.rest();
        }
    }

    /// Counts the connection again. False at the tenant's connection limit. An end of the connection shows with the
    /// next event.
    pub(crate) fn resume(&self) -> bool {
        if let Some(seat) = &mut *self.seat() { seat.resume() } else { true }
    }

    /// Counts the session no longer: it ends with the connection.
    pub(crate) fn pass(&self) {
        if let Some(seat) = &mut *self.seat() {
            seat.pass();
        }
    }

    /// The connection has ended, or is about to end.
    pub(crate) fn leave(&self) {
        let left = self.seat().take();
        if let Some(mut seat) = left {
            seat.leave();
        }
    }
}

/// The task that waits until the broker closes the socket. While the session rests, nothing else reads it, and its
/// exemption from the quotas would outlive it. The task ends when this is dropped.
pub(crate) struct Watch(JoinHandle<()>);

impl Watch {
    /// Begins to wait.
    pub(crate) fn begin(stream: Arc<UnixStream>, seat: Arc<SharedSeat>) -> Self {
        Self(tokio::spawn(async move {
            closed(&stream).await;
            seat.leave();
        }))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until the broker closes a socket. It reads nothing.
pub(crate) async fn closed(stream: &UnixStream) {
    // An error of the socket is its end, too.
    while stream.ready(CLOSED).await.is_ok_and(|ready| !ready.is_read_closed()) {}
}
