//! Keep Alive: when to ping, and after how much silence the server counts as lost.

use std::time::{Duration, Instant};

/// The action to take now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// Send a PINGREQ ([MQTT-3.1.2-20]).
    Ping,
    /// The PINGRESP is overdue: close the connection.
    Gone,
}

/// The Keep Alive of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepAlive {
    /// `None` when Keep Alive is 0, which turns it off. Also the time that a PINGRESP may take.
    interval: Option<Duration>,
    last_sent: Instant,
    ping_sent: Option<Instant>,
}

impl KeepAlive {
    /// Starts with `seconds`, 0 being off.
    pub(crate) fn new(seconds: u16, now: Instant) -> Self {
        Self { interval: (seconds > 0).then(|| Duration::from_secs(seconds.into())), last_sent: now, ping_sent: None }
    }

    /// A packet was sent.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.last_sent = now;
    }

    /// The PINGREQ was sent.
    pub(crate) fn ping_sent(&mut self, now: Instant) {
        self.ping_sent = Some(now);
        self.sent(now);
    }

    /// A PINGRESP arrived.
    pub(crate) fn answered(&mut self) {
        self.ping_sent = None;
    }

    /// When [`KeepAlive::due`] next returns an action; `None` when Keep Alive is off.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let interval = self.interval?;
        let ping = self.last_sent + interval;
        Some(match self.ping_sent {
            // No second ping is sent while the first is unanswered.
            Some(ping_sent) => ping_sent + interval,
            None => ping,
        })
    }

    pub(crate) fn due(&self, now: Instant) -> Due {
        match self.deadline() {
            Some(deadline) if now >= deadline => match self.ping_sent {
                Some(_) => Due::Gone,
                None => Due::Ping,
            },
            _ => Due::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pings_after_silence_and_gives_up_after_as_much_again() {
        let start = Instant::now();
        let mut keep_alive = KeepAlive::new(10, start);
        assert_eq!(keep_alive.due(start + 9 * SECOND), Due::Nothing);
        keep_alive.sent(start + 5 * SECOND);
        assert_eq!(keep_alive.due(start + 14 * SECOND), Due::Nothing);
        assert_eq!(keep_alive.deadline(), Some(start + 15 * SECOND));
        assert_eq!(keep_alive.due(start + 15 * SECOND), Due::Ping);
        keep_alive.ping_sent(start + 15 * SECOND);
        keep_alive.sent(start + 20 * SECOND);
        assert_eq!(keep_alive.due(start + 24 * SECOND), Due::Nothing);
        assert_eq!(keep_alive.due(start + 25 * SECOND), Due::Gone);
        keep_alive.answered();
        assert_eq!(keep_alive.due(start + 29 * SECOND), Due::Nothing);
        assert_eq!(keep_alive.due(start + 30 * SECOND), Due::Ping);
    }

    #[test]
    fn zero_turns_it_off() {
        let start = Instant::now();
        let keep_alive = KeepAlive::new(0, start);
        assert_eq!(keep_alive.deadline(), None);
        assert_eq!(keep_alive.due(start + 1_000_000 * SECOND), Due::Nothing);
    }
}
