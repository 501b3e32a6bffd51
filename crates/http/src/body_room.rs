//! The memory for bodies at a listener: of requests, and of answers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of bodies that a listener holds at once, at most; more where one body may be longer.
pub const MAX_BODY_BYTES: usize = 64 << 20;
/// Bytes of a permit.
const UNIT: usize = 1 << 10;
/// Parts of a room; the bodies of one address take one part at most. A longest body has room in any case.
const SHARES: usize = 2;

/// Bounds the bytes of the bodies that the connections of a listener hold.
pub(crate) struct BodyRoom {
    /// Longest body, bytes.
    max_body: usize,
    units: Arc<Semaphore>,
    /// Bytes for the bodies of one address.
    share: usize,
    /// The shares of addresses that have bodies, or wait for room.
    shares: Mutex<HashMap<IpAddr, Weak<Semaphore>>>,
}

/// The room of a body, which is free again when this is dropped.
pub(crate) struct BodyPermit {
    _of_listener: OwnedSemaphorePermit,
    _of_address: Option<OwnedSemaphorePermit>,
}

impl BodyRoom {
    /// Room for `bytes` bytes of bodies, each of at most `max_body` bytes.
    pub(crate) fn new(bytes: usize, max_body: usize) -> Self {
        let bytes = bytes.max(max_body);
        let share = (bytes / SHARES).max(max_body);
        let units = Arc::new(Semaphore::new(units(bytes) as usize));
        Self { max_body, units, share, shares: Mutex::default() }
    }

    /// Waits for room for a body of this length, as far as its length is known; a body of an unknown length takes
    /// the room of the longest one. Bodies of one address wait for each other first, so that slow ones leave room to
    /// others.
    pub(crate) async fn take(&self, of: IpAddr, length: Option<u64>) -> Option<BodyPermit> {
        let length = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(self.max_body);
        let needed = units(length.min(self.max_body));
        // The semaphores are never closed.
        let of_address = self.share_of(of).acquire_many_owned(needed).await.ok()?;
        let of_listener = Arc::clone(&self.units).acquire_many_owned(needed).await.ok()?;
        Some(BodyPermit { _of_listener: of_listener, _of_address: Some(of_address) })
    }

    /// Waits for room for an answer of this length. The share of the address does not count answers: each connection has
    /// its own limit of them.
    pub(crate) async fn take_answer(&self, length: u64) -> Option<BodyPermit> {
        let length = usize::try_from(length).unwrap_or(self.max_body).min(self.max_body);
        let of_listener = Arc::clone(&self.units).acquire_many_owned(units(length)).await.ok()?;
        Some(BodyPermit { _of_listener: of_listener, _of_address: None })
    }

    /// Room for an answer of this length, if there is some and no other waits for it.
    pub(crate) fn try_take_answer(&self, length: u64) -> Option<BodyPermit> {
        let length = usize::try_from(length).unwrap_or(self.max_body).min(self.max_body);
        let of_listener = Arc::clone(&self.units).try_acquire_many_owned(units(length)).ok()?;
        Some(BodyPermit { _of_listener: of_listener, _of_address: None })
    }

    /// The share of an address; the addresses of one IPv6 network of 64 bits have one together.
    fn share_of(&self, address: IpAddr) -> Arc<Semaphore> {
        let network = match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
            address @ IpAddr::V4(_) => address,
        };
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(&network).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Semaphore::new(units(self.share) as usize));
        shares.insert(network, Arc::downgrade(&share));
        share
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
    use std::task::{Context, Waker};

    use super::*;

    fn client(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[tokio::test]
    async fn bodies_wait_until_the_listener_has_room() {
        let room = BodyRoom::new(MAX_BODY_BYTES, MAX_BODY_BYTES / 2);
        let first = room.take(client(1), None).await.unwrap();
        let second = room.take(client(2), Some((MAX_BODY_BYTES / 2 - UNIT) as u64)).await.unwrap();
        let small = room.take(client(3), Some(1)).await.unwrap();
        let mut next = pin!(room.take(client(4), Some(1)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(next.await.is_some());
        drop((second, small));
        // A body beyond the limit is refused while it is read.
        assert!(BodyRoom::new(MAX_BODY_BYTES, 2 * MAX_BODY_BYTES).take(client(1), Some(u64::MAX)).await.is_some());
    }

    #[tokio::test]
    async fn slow_bodies_of_one_address_leave_room_to_others() {
        let room = BodyRoom::new(MAX_BODY_BYTES, 1 << 20);
        let mut slow = Vec::new();
        for _ in 0..32 {
            slow.push(room.take(client(1), None).await.unwrap());
        }
        let mut context = Context::from_waker(Waker::noop());
        let mut next = pin!(room.take(client(1), None));
        assert!(next.as_mut().poll(&mut context).is_pending());
        assert!(room.take(client(2), None).await.is_some());
        slow.pop();
        assert!(next.await.is_some());
        drop(slow);
        let neighbours = ["2001:db8::1", "2001:db8::2"].map(|address| room.share_of(address.parse().unwrap()));
        assert!(Arc::ptr_eq(&neighbours[0], &neighbours[1]), "one network");
        assert_eq!(room.shares.lock().unwrap().len(), 1, "shares without bodies are forgotten");
    }
}
