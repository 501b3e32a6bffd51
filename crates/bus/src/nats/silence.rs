//! Whether the connection still carries anything.
//!
//! A server that is frozen, or a way that drops everything, closes no connection. The client of NATS sends a PING once a
//! minute, and closes the connection after three of them: much later than a lease. A shorter time of the client would cut
//! slow connections, since only whole messages count for it. So here each byte counts as a sign of life.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Client;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::server::{Turns, is_up};

/// A connection is silent for at most this part of a lease until it is cut.
const PARTS_OF_LEASE: u32 = 3;
/// It has at least this time: a machine under load answers late.
const SHORTEST: Duration = Duration::from_secs(2);
/// Looks without a byte after which a connection is cut.
const SILENT_LOOKS: u32 = 4;
/// The most such looks: each cut doubles them, so that a slow connection is not cut for ever.
const MAX_SILENT_LOOKS: u32 = 64;
/// Looks in a row at which bytes had come, after which the number is the first one again.
const TRUSTED_AFTER: u32 = 64;

/// How long a silent server has until the connection to it is cut: a third of a lease, and at least two seconds.
pub(super) fn patience(lease: Duration) -> Duration {
    (lease / PARTS_OF_LEASE).max(SHORTEST)
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    /// A request that the server answers at once.
    Ask,
    Cut,
}

/// The state of a connection, in looks instead of time: a process that was frozen does not take its own silence for that
/// of the server.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// All bytes that had come by the last look.
    heard: u64,
    silent: u32,
    limit: u32,
    /// Looks in a row at which bytes had come.
    trusted: u32,
}

impl Silence {
    fn new() -> Self {
        Self { heard: 0, silent: 0, limit: SILENT_LOOKS, trusted: 0 }
    }

    /// Looks at the bytes that have come so far.
    fn look(&mut self, is_up: bool, heard: u64) -> Step {
        if !is_up || heard != self.heard {
            (self.heard, self.silent) = (heard, 0);
            self.trusted = if is_up { self.trusted.saturating_add(1) } else { 0 };
            if self.trusted >= TRUSTED_AFTER {
                self.limit = SILENT_LOOKS;
            }
            return Step::Nothing;
        }
        (self.silent, self.trusted) = (self.silent + 1, 0);
        if self.silent < self.limit {
            return Step::Ask;
        }
        (self.silent, self.limit) = (0, (self.limit * 2).min(MAX_SILENT_LOOKS));
        Step::Cut
    }
}

/// Watches the connection until the bus has gone.
pub(super) async fn watch(client: Client, turns: watch::Receiver<Turns>, lease: Duration) {
    let pause = patience(lease) / (SILENT_LOOKS + 1);
    let mut looks = interval(pause);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let statistics = client.statistics();
    let mut silence = Silence::new();
    while turns.has_changed().is_ok() {
        looks.tick().await;
        let up = is_up(*turns.borrow());
        match silence.look(up, statistics.in_bytes.load(Ordering::Relaxed)) {
            Step::Nothing => {}
            // A client that cannot send now is silent, too.
            Step::Ask => drop(timeout(pause, ask(&client)).await),
            Step::Cut => {
                tracing::warn!(lease_ms = lease.as_millis(), "a server of the bus is silent; connecting again");
                let _ = timeout(pause, client.force_reconnect()).await;
            }
        }
    }
}

/// Has the client send a PING, with the end of a subscription: it has no other call for that.
async fn ask(client: &Client) {
    if let Ok(mut subscriber) = client.subscribe(client.new_inbox()).await {
        let _ = subscriber.drain().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks without a byte until the connection is cut.
    fn until_cut(silence: &mut Silence, heard: u64) -> u32 {
        let mut looks = 0;
        loop {
            looks += 1;
            match silence.look(true, heard) {
                Step::Cut => return looks,
                step => assert_eq!(step, Step::Ask),
            }
        }
    }

    #[test]
    fn a_silent_connection_is_cut_within_its_part_of_a_lease() {
        let mut silence = Silence::new();
        assert_eq!(silence.look(true, 1), Step::Nothing);
        assert_eq!(until_cut(&mut silence, 1), SILENT_LOOKS);
    }

    #[test]
    fn a_byte_now_and_then_keeps_a_connection() {
        let mut silence = Silence::new();
        for heard in 1..1_000 {
            assert_eq!(silence.look(true, heard), Step::Nothing);
            for _ in 1..SILENT_LOOKS {
                assert_eq!(silence.look(true, heard), Step::Ask);
            }
        }
    }

    #[test]
    fn each_cut_gives_the_next_connection_more_time() {
        let mut silence = Silence::new();
        let cuts: Vec<u32> = (1..7).map(|_| until_cut(&mut silence, 0)).collect();
        assert_eq!(cuts, [4, 8, 16, 32, 64, 64]);
        for heard in 1..=u64::from(TRUSTED_AFTER) {
            silence.look(true, heard);
        }
        assert_eq!(until_cut(&mut silence, u64::from(TRUSTED_AFTER)), SILENT_LOOKS);
    }

    #[test]
    fn a_connection_that_is_away_is_not_cut() {
        let mut silence = Silence::new();
        assert!((0..100).all(|_| silence.look(false, 0) == Step::Nothing));
    }
}
