//! By when a shard has taken in all that had arrived.
//!
//! A deadline for the silence of a peer is compared with this time, not with the clock: after a stop of the process or
//! a long turn, packets that were sent in time are still in the sockets.

use tidegate_engine::Millis;

use crate::limits::{ACCEPTS_PER_TURN, BACKLOG, EVENTS_PER_TURN};

/// Turns after which earlier input counts as handled although the shard is never idle, beside the turns needed to
/// report every socket. That many turns accept a whole backlog. No flood of connections delays the deadlines for
/// longer.
const TURNS_MAX: usize = BACKLOG as usize / ACCEPTS_PER_TURN;

/// The time up to which all input was handled: the poller has reported it, and the backlogs and the inbox are empty.
/// Connections that were reported and not read yet are marked by their own flags.
#[derive(Debug)]
pub(crate) struct Heard {
    until: Millis,
    /// When the poller was asked whose reports are being worked off.
    asked: Option<Millis>,
    /// Whether the poller has reported all its events.
    complete: bool,
    /// Turns since `asked`.
    turns: usize,
}

impl Heard {
    pub(crate) fn new(now: Millis) -> Self {
        Self { until: now, asked: None, complete: false, turns: 0 }
    }

    /// The time by which all was taken that had arrived.
    pub(crate) fn until(&self) -> Millis {
        self.until
    }

    /// The poller was asked at this time, and has answered; `complete` says that it reported all it had.
    pub(crate) fn note_poll(&mut self, asked: Millis, complete: bool) {
        self.asked.get_or_insert(asked);
        self.complete = complete;
    }

    /// The poller's events were handled; `drained` means that all backlogs and the inbox are empty. `connections` is
    /// the number of connections.
    pub(crate) fn note_taken(&mut self, drained: bool, connections: usize) {
        let Some(asked) = self.asked else { return };
        self.turns += 1;
        if (self.complete && drained) || self.turns >= TURNS_MAX + connections / EVENTS_PER_TURN {
            *self = Self::new(asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_as_heard_once_all_is_taken() {
        let mut heard = Heard::new(Millis(5));
        heard.note_poll(Millis(10), true);
        assert_eq!(heard.until(), Millis(5), "nothing is taken yet");
        heard.note_taken(true, 0);
        assert_eq!(heard.until(), Millis(10));
    }

    #[test]
    fn an_interrupted_poll_proves_nothing() {
        let mut heard = Heard::new(Millis(5));
        heard.note_taken(true, 0);
        assert_eq!(heard.until(), Millis(5));
    }

    #[test]
    fn work_left_for_later_turns_delays_the_time() {
        let mut heard = Heard::new(Millis(5));
        heard.note_poll(Millis(10), false);
        heard.note_taken(true, 0);
        heard.note_poll(Millis(11), true);
        heard.note_taken(false, 0);
        assert_eq!(heard.until(), Millis(5));
        heard.note_poll(Millis(12), true);
        heard.note_taken(true, 0);
        assert_eq!(heard.until(), Millis(10), "what the first poll has not reported was reported since");
    }

    #[test]
    fn a_flood_holds_the_time_back_for_a_bounded_time() {
        let mut heard = Heard::new(Millis(0));
        for turn in 1..=TURNS_MAX as u64 {
            heard.note_poll(Millis(turn), false);
            heard.note_taken(false, 0);
        }
        assert_eq!(heard.until(), Millis(1));
    }
}
