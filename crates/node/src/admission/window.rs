//! Counts events within a time window: failed logins, connects of one client id.

use std::collections::VecDeque;

use tidegate_engine::Millis;

/// Most events that a [`Threshold`] counts; each takes eight bytes per client, user or address.
pub const MAX_THRESHOLD: u32 = 1000;

/// The number of events within a time that leads to a ban, and the duration of the ban.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threshold {
    /// Events, at most [`MAX_THRESHOLD`]; 0 disables the window.
    pub count: u32,
    /// Milliseconds within which they are counted; older ones are forgotten.
    pub within_ms: u64,
    /// Length of the ban, milliseconds.
    pub ban_ms: u64,
}

impl Threshold {
    /// Whether anything is counted.
    pub fn is_on(self) -> bool {
        self.count != 0
    }
}

/// When the latest events of one client, user or address happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window(VecDeque<Millis>);

impl Window {
    /// Counts an event. Returns whether there are too many now; counting then restarts.
    pub(crate) fn note(&mut self, now: Millis, threshold: Threshold) -> bool {
        if !threshold.is_on() {
            return false;
        }
        while self.0.front().is_some_and(|at| now.since(*at) >= threshold.within_ms) {
            self.0.pop_front();
        }
        self.0.push_back(now);
        let reached = self.0.len() >= threshold.count.min(MAX_THRESHOLD) as usize;
        if reached {
            self.0.clear();
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THREE: Threshold = Threshold { count: 3, within_ms: 1000, ban_ms: 5000 };

    #[test]
    fn three_within_a_second_are_too_many_and_three_in_more_are_not() {
        let mut window = Window::default();
        assert_eq!([0, 500, 999].map(|at| window.note(Millis(at), THREE)), [false, false, true]);
        let mut window = Window::default();
        assert_eq!([0, 500, 1000, 1499].map(|at| window.note(Millis(at), THREE)), [false, false, false, true]);
    }

    #[test]
    fn nothing_is_counted_when_it_is_off() {
        let mut window = Window::default();
        assert!((0..100).all(|_| !window.note(Millis(0), Threshold::default())));
        assert_eq!(window.0.len(), 0);
    }

    proptest! {
        /// `note` reports too many exactly when `count` events since the last report are within the window.
        #[test]
        fn it_agrees_with_a_list_of_all_events(steps in prop::collection::vec(0_u64..700, 1..200), count in 1_u32..6) {
            let threshold = Threshold { count, ..THREE };
            let mut window = Window::default();
            let mut since: Vec<Millis> = Vec::new();
            let mut now = Millis(0);
            for step in steps {
                now = now.plus(step);
                since.push(now);
                let recent = since.iter().filter(|at| now.since(**at) < threshold.within_ms).count();
                let expected = recent >= count as usize;
                prop_assert_eq!(window.note(now, threshold), expected);
                prop_assert!(window.0.len() < count as usize);
                if expected {
                    since.clear();
                }
            }
        }
    }
}
