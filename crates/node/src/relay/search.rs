//! The pauses of a relay that looks for the new home of its client.

use tidegate_engine::Millis;

/// Time for which a client waits for its new home, milliseconds: as long as its session waits there.
pub(crate) const MOVE_PATIENCE_MS: u64 = 10_000;
/// Pause of a relay between searches for the new home, milliseconds. It doubles with each further failure.
pub(crate) const RETRY_MS: u64 = 50;
/// Maximum number of doublings of this pause.
const MAX_DOUBLINGS: u32 = 4;

/// The search for the new home of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// Time of its end without success.
    pub(crate) until: Millis,
    /// Number of homes that could not be reached, or have closed without an answer.
    failed: u32,
}

impl Search {
    pub(crate) fn from(now: Millis) -> Self {
        Self { until: now.plus(MOVE_PATIENCE_MS), failed: 0 }
    }

    /// The search after one more failure.
    pub(crate) fn failed(self) -> Self {
        Self { failed: self.failed + 1, ..self }
    }

    /// Time of the next search: at once, and after failures later each time.
    pub(crate) fn next_at(self, now: Millis) -> Millis {
        match self.failed.checked_sub(1) {
            None => now,
            Some(doublings) => now.plus(RETRY_MS << doublings.min(MAX_DOUBLINGS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_that_do_not_serve_are_tried_less_and_less_often() {
        let now = Millis(7);
        let mut search = Search::from(now);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            pauses.push(search.next_at(now).since(now));
            search = search.failed();
        }
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 800]);
    }
}
