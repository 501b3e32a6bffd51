//! Averages of `$SYS` per minute.

use crate::now::Millis;
use crate::sys::values::{NUMBERS, SysValues};

const MINUTES: [f64; 3] = [1.0, 5.0, 15.0];

/// An average per minute over 1, 5 and 15 minutes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Load {
    averages: [f64; MINUTES.len()],
}

/// The averages of a node, or their sums over nodes.
#[derive(Debug)]
pub(crate) struct Loads {
    /// By the places of [`NUMBERS`]; a number without a load has 0.
    loads: [Load; NUMBERS.len()],
    /// The time and the counts of the last round.
    last: Option<(Millis, [u64; NUMBERS.len()])>,
}

impl Default for Loads {
    fn default() -> Self {
        Self { loads: [Load::default(); NUMBERS.len()], last: None }
    }
}

impl Loads {
    /// Moves the averages on by the counts since the last round, or since the node has started, `uptime_ms` ago.
    #[expect(clippy::cast_precision_loss, reason = "averages are shown with two places")]
    pub(crate) fn take(&mut self, now: Millis, uptime_ms: u64, values: &SysValues) {
        let (elapsed_ms, before) = match &self.last {
            Some((then, counts)) => (now.since(*then), *counts),
            None => (uptime_ms, [0; NUMBERS.len()]),
        };
        let minutes = elapsed_ms as f64 / 60_000.0;
        for (load, (now, then)) in self.loads.iter_mut().zip(values.numbers.iter().zip(before)) {
            // The counters of a node that was started again are smaller.
            let counted = now.saturating_sub(then) as f64;
            for (average, window) in load.averages.iter_mut().zip(MINUTES) {
                if minutes > 0.0 {
                    let (per_minute, weight) = (counted / minutes, (-minutes / window).exp());
                    *average = per_minute + (*average - per_minute) * weight;
                }
            }
        }
        self.last = Some((now, values.numbers));
    }

    /// Whether a round was taken.
    pub(crate) fn is_begun(&self) -> bool {
        self.last.is_some()
    }

    /// Adds the averages of another node.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.loads.iter_mut().zip(&other.loads) {
            for (mine, theirs) in mine.averages.iter_mut().zip(theirs.averages) {
                *mine += theirs;
            }
        }
    }

    /// Topics below `load/`, with their values.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let loads = NUMBERS.iter().zip(&self.loads).filter_map(|(number, load)| Some((number.load?, load)));
        loads.flat_map(|(topic, load)| {
            let windows = load.averages.iter().zip(MINUTES);
            windows.map(move |(average, window)| (format!("load/{topic}/{window}min"), format!("{average:.2}")))
        })
    }
}
