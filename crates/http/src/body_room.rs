//! The memory for bodies at a listener: of requests, and of answers.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of bodies that a listener holds at once, at most; more where one body may be longer.
pub const MAX_BODY_BYTES: usize = 64 << 20;
/// Bytes of a permit.
const UNIT: usize = 1 << 10;

/// Bounds the bytes of the bodies that the connections of a listener hold.
pub(crate) struct BodyRoom {
    /// Longest body, bytes.
    max_body: usize,
    units: Arc<Semaphore>,
}

impl BodyRoom {
    /// Room for `bytes` bytes of bodies, each of at most `max_body` bytes.
    pub(crate) fn new(bytes: usize, max_body: usize) -> Self {
        let units = units(bytes.max(max_body));
        Self { max_body, units: Arc::new(Semaphore::new(units as usize)) }
    }

    /// Waits for room for a body of this length, as far as its length is known; a body of an unknown length takes
    /// the room of the longest one. The room is free again when the result is dropped.
    pub(crate) async fn take(&self, length: Option<u64>) -> Option<OwnedSemaphorePermit> {
        let length = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(self.max_body);
        // The semaphore is never closed.
        Arc::clone(&self.units).acquire_many_owned(units(length.min(self.max_body))).await.ok()
    }

    /// Room for a body of this length, if there is some and no other body waits for it.
    pub(crate) fn try_take(&self, length: u64) -> Option<OwnedSemaphorePermit> {
        let length = usize::try_from(length).unwrap_or(self.max_body).min(self.max_body);
        Arc::clone(&self.units).try_acquire_many_owned(units(length)).ok()
    }
}

/// Permits for this number of bytes.
fn units(bytes: usize) -> u32 {
    let most = Semaphore::MAX_PERMITS.min(u32::MAX as usize);
    u32::try_from(bytes.div_ceil(UNIT).min(most)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[tokio::test]
    async fn bodies_wait_until_the_listener_has_room() {
        let room = BodyRoom::new(MAX_BODY_BYTES, MAX_BODY_BYTES / 2);
        let first = room.take(None).await.unwrap();
        let second = room.take(Some((MAX_BODY_BYTES / 2 - UNIT) as u64)).await.unwrap();
        let small = room.take(Some(1)).await.unwrap();
        let mut next = pin!(room.take(Some(1)));
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(next.await.is_some());
        drop((second, small));
        // A body beyond the limit is refused while it is read.
        assert!(BodyRoom::new(MAX_BODY_BYTES, 2 * MAX_BODY_BYTES).take(Some(u64::MAX)).await.is_some());
    }
}
