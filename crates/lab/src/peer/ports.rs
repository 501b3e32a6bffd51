//! Unused ports.

use std::net::TcpListener;
use std::ops::RangeInclusive;

use super::PeerError;

/// A range that ports are taken from, one after the other, so that a peer does not get the ports that its predecessor
/// has just left.
#[derive(Clone, Debug)]
pub struct Ports {
    range: RangeInclusive<u16>,
    next: usize,
}

impl Default for Ports {
    /// Below the range that Linux takes for outgoing connections.
    fn default() -> Self {
        Self::new(21_000..=29_999)
    }
}

impl Ports {
    /// Ports of a range.
    pub fn new(range: RangeInclusive<u16>) -> Self {
        Self { range, next: 0 }
    }

    /// One port that can be listened on at a host.
    ///
    /// # Errors
    /// When none is free.
    pub fn take_one(&mut self, host: &str) -> Result<u16, PeerError> {
        let none = PeerError::NoPorts { wanted: 1, from: *self.range.start(), to: *self.range.end() };
        self.take(host, 1)?.pop().ok_or(none)
    }

    /// This number of free ports of a host.
    ///
    /// # Errors
    /// When fewer are free.
    pub fn take(&mut self, host: &str, wanted: usize) -> Result<Vec<u16>, PeerError> {
        let first = self.next % self.range.len().max(1);
        let candidates = self.range.clone().skip(first).chain(self.range.clone().take(first));
        let mut looked_at = 0;
        let taken: Vec<u16> = candidates
            .inspect(|_| looked_at += 1)
            .filter(|port| TcpListener::bind((host, *port)).is_ok())
            .take(wanted)
            .collect();
        self.next = first + looked_at;
        if taken.len() == wanted {
            return Ok(taken);
        }
        Err(PeerError::NoPorts { wanted, from: *self.range.start(), to: *self.range.end() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_listened_on_is_not_taken() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = held.local_addr().unwrap().port();
        let mut ports = Ports::new(port..=port);
        assert!(matches!(ports.take("127.0.0.1", 1), Err(PeerError::NoPorts { wanted: 1, .. })));
        drop(held);
        assert_eq!(ports.take("127.0.0.1", 1).unwrap(), [port]);
        assert_eq!(ports.take_one("127.0.0.1").unwrap(), port);
    }
}
