//! When the messages of a publisher are due, as a function of the plan and nothing else.

use super::chance::Chance;
use super::plan::{Arrival, Pace};

/// The times of a publisher's messages in nanoseconds since the run's zero, one after the other.
#[derive(Clone, Debug)]
pub(crate) enum Schedule {
    /// At equal distances.
    Uniform { begin_ns: u64, distance_ns: f64, message: u64 },
    /// Independent of each other.
    Poisson { next_ns: f64, mean_ns: f64, chance: Chance },
}

#[expect(clippy::cast_precision_loss, reason = "72 hours in nanoseconds are below the exact integers of a float")]
#[expect(clippy::cast_sign_loss, reason = "times since zero are positive")]
impl Schedule {
    /// The schedule of a client of a group; `None` for a closed loop, where the broker decides.
    pub(crate) fn of(pace: Pace, client: u32, clients: u32, begin_ns: u64, mut chance: Chance) -> Option<Self> {
        let Pace::Open { rate, arrival } = pace else { return None };
        let distance_ns = 1e9 / rate.of_one(clients);
        Some(match arrival {
            // The clients of a group take turns, so that their sum is even, too.
            Arrival::Uniform => {
                let offset = distance_ns * f64::from(client) / f64::from(clients.max(1));
                Self::Uniform { begin_ns: begin_ns + offset as u64, distance_ns, message: 0 }
            }
            Arrival::Poisson => {
                let next_ns = begin_ns as f64 + chance.exponential(distance_ns);
                Self::Poisson { next_ns, mean_ns: distance_ns, chance }
            }
        })
    }

    /// When the next message is due.
    pub(crate) fn next_ns(&self) -> u64 {
        match self {
            Self::Uniform { begin_ns, distance_ns, message } => begin_ns + (*message as f64 * distance_ns) as u64,
            Self::Poisson { next_ns, .. } => *next_ns as u64,
        }
    }

    /// Continues with the next message.
    pub(crate) fn step(&mut self) {
        match self {
            Self::Uniform { message, .. } => *message += 1,
            Self::Poisson { next_ns, mean_ns, chance } => *next_ns += chance.exponential(*mean_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::Rate;

    fn times(mut schedule: Schedule, until_ns: u64) -> Vec<u64> {
        let mut times = Vec::new();
        while schedule.next_ns() < until_ns {
            times.push(schedule.next_ns());
            schedule.step();
        }
        times
    }

    #[test]
    fn clients_of_a_group_take_turns() {
        let pace = Pace::Open { rate: Rate::Total(4.0), arrival: Arrival::Uniform };
        let of = |client| times(Schedule::of(pace, client, 2, 100, Chance::new(1)).unwrap(), 1_000_000_100);
        assert_eq!(of(0), [100, 500_000_100]);
        assert_eq!(of(1), [250_000_100, 750_000_100]);
    }

    #[test]
    fn a_rate_is_kept_to_the_message_over_an_hour() {
        let pace = Pace::Open { rate: Rate::PerClient(333.0), arrival: Arrival::Uniform };
        let schedule = Schedule::of(pace, 0, 1, 0, Chance::new(1)).unwrap();
        assert_eq!(times(schedule, 3_600_000_000_000).len(), 333 * 3600);
    }

    #[test]
    fn independent_arrivals_have_their_rate_and_spread() {
        let pace = Pace::Open { rate: Rate::PerClient(1000.0), arrival: Arrival::Poisson };
        let times = times(Schedule::of(pace, 0, 1, 0, Chance::new(3)).unwrap(), 100_000_000_000);
        assert!(times.len().abs_diff(100_000) < 1500, "{}", times.len());
        let short = times.windows(2).filter(|pair| pair[1] - pair[0] < 693_147).count();
        assert!(short.abs_diff(50_000) < 1000, "half the distances are below ln 2 of the mean: {short}");
    }
}
