//! Raises a load until a service level breaks: first in large steps, then between the last rate that held and the first
//! that did not.

mod drive;
mod search;
mod votes;

pub use drive::{Knee, SweepError, sweep};
pub use search::Search;
pub use votes::Votes;

use std::time::Duration;

use crate::results::{Measure, Run};

/// The level that a rate has to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The latency that 99 % of deliveries may have at most.
    pub p99: Duration,
    /// The least share of due messages that has to arrive, in percent.
    pub delivered: f64,
}

/// Whether a run kept a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It did.
    Yes,
    /// It did not, and why.
    No(String),
    /// The generator could not offer so much, so that nothing is known of the broker.
    Unknown(String),
}

impl Level {
    /// Judges a run.
    pub fn judge(&self, run: &Run) -> Kept {
        let limit = self.p99.as_secs_f64() * 1e3;
        let p99 = Measure::LatencyP99.of(run);
        let delivered = Measure::Delivered.of(run);
        // A rate that held counts, also with a busy generator.
        match (p99, delivered) {
            (Some(p99), Some(delivered))
                if p99 <= limit && delivered >= self.delivered && run.load.losses.unsent == 0 =>
            {
                return Kept::Yes;
            }
            _ => {}
        }
        if let Some(why) = &run.invalid {
            return Kept::Unknown(why.clone());
        }
        match (p99, delivered) {
            (_, Some(delivered)) if delivered < self.delivered => {
                Kept::No(format!("{delivered:.2} % were delivered, not {} %", self.delivered))
            }
            (Some(p99), _) if p99 > limit => Kept::No(format!("p99 was {p99:.1} ms, above {limit} ms")),
            (Some(_), Some(_)) => Kept::No(format!("{} messages could not be sent", run.load.losses.unsent)),
            _ => Kept::No("nothing was delivered".to_owned()),
        }
    }
}
