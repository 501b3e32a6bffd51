//! The requests that wait for a thread. Addresses take turns, and users within an address: a user or a device that logs in
//! again and again does not hold up the others.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

use super::Job;
use crate::request::Request;

/// The waiting requests.
#[derive(Default)]
pub(super) struct Turns {
    addresses: RoundRobin<Option<IpAddr>, RoundRobin<Option<String>, VecDeque<Job>>>,
    length: usize,
}

/// Lines that take turns. A line is here while it has a request.
struct RoundRobin<K, L> {
    lines: HashMap<K, L>,
    order: VecDeque<K>,
}

/// Waiting requests in some order.
trait Line: Default {
    fn is_empty(&self) -> bool;

    fn pop(&mut self) -> Option<Job>;
}

impl Line for VecDeque<Job> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn pop(&mut self) -> Option<Job> {
        self.pop_front()
    }
}

impl<K, L> Default for RoundRobin<K, L> {
    fn default() -> Self {
        Self { lines: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Clone + Eq + Hash, L: Line> RoundRobin<K, L> {
    /// The line of a key, for a request that is put in.
    fn line(&mut self, key: K) -> &mut L {
        let order = &mut self.order;
        self.lines.entry(key).or_insert_with_key(|key| {
            order.push_back(key.clone());
            L::default()
        })
    }
}

impl<K: Clone + Eq + Hash, L: Line> Line for RoundRobin<K, L> {
    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn pop(&mut self) -> Option<Job> {
        let key = self.order.pop_front()?;
        let line = self.lines.get_mut(&key)?;
        let job = line.pop();
        if line.is_empty() {
            self.lines.remove(&key);
        } else {
            self.order.push_back(key);
        }
        job
    }
}

impl Turns {
    /// Puts a request behind other requests of its user at its address.
    pub(super) fn push(&mut self, job: Job) {
        let (address, user) = (network_of(&job.request), job.request.user_name.clone());
        self.addresses.line(address).line(user).push_back(job);
        self.length += 1;
    }

    /// The request whose turn it is.
    pub(super) fn pop(&mut self) -> Option<Job> {
        let job = self.addresses.pop()?;
        self.length -= 1;
        Some(job)
    }

    /// Waiting requests.
    pub(super) fn len(&self) -> usize {
        self.length
    }
}

/// The address of a client: of IPv6 the first 64 bits, since one client has all addresses that begin with them.
fn network_of(request: &Request) -> Option<IpAddr> {
    request.peer.map(|peer| match peer.ip().to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address @ IpAddr::V4(_) => address,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::chain::cache::CacheKey;

    fn order(requests: &[(&str, &str)]) -> Vec<usize> {
        let mut turns = Turns::default();
        for (number, (peer, user)) in requests.iter().enumerate() {
            let request = Request {
                client_id: number.to_string(),
                peer: Some(format!("{peer}:1").parse().unwrap()),
                user_name: Some((*user).to_owned()),
                ..Request::default()
            };
            turns.push(Job { key: CacheKey::default(), request: Arc::new(request), entered_ms: 0 });
        }
        assert_eq!(turns.len(), requests.len());
        let order = std::iter::from_fn(|| turns.pop()).map(|job| job.request.client_id.parse().unwrap()).collect();
        assert!(turns.addresses.lines.is_empty() && turns.len() == 0);
        order
    }

    #[test]
    fn addresses_take_turns() {
        let (a, b) = ("192.0.2.1", "192.0.2.2");
        assert_eq!(order(&[(a, "u"), (a, "u"), (a, "v"), (b, "u"), (b, "u")]), [0, 3, 2, 4, 1]);
        let (a, same, b) = ("[2001:db8::1]", "[2001:db8::2]", "[2001:db8:1::1]");
        assert_eq!(order(&[(a, "u"), (same, "u"), (b, "u")]), [0, 2, 1]);
    }

    #[test]
    fn users_of_one_address_take_turns() {
        let at = "192.0.2.1";
        assert_eq!(order(&[(at, "u"), (at, "u"), (at, "u"), (at, "v")]), [0, 3, 1, 2]);
    }
}
