//! The limits of the agreement (BRK-43, BRK-44).

use super::{Change, HeldBack, Level, LevelObservation};

/// The least and the most resources of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    least: u32,
    most: u32,
}

/// An agreement that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlaError {
    /// A level without resources serves no client.
    #[error("a minimum of 0 resources serves no client: choose 1 or more")]
    NoMinimum,
    /// A maximum below the minimum.
    #[error("the maximum {most} is below the minimum {least}: raise it or lower the minimum")]
    MaximumBelowMinimum {
        /// The minimum.
        least: u32,
        /// The maximum.
        most: u32,
    },
    /// A maximum in all that does not even cover the minimums.
    #[error("the maximum in all {most} is below the minimums of the levels together, {least}: raise it or lower them")]
    MaximumInAll {
        /// The minimums together.
        least: u32,
        /// The maximum in all.
        most: u32,
    },
}

impl Bounds {
    /// At least `least` resources, 1 or more, and at most `most`.
    ///
    /// # Errors
    /// When the minimum is 0 or above the maximum.
    pub fn new(least: u32, most: u32) -> Result<Self, SlaError> {
        match (least, most) {
            (0, _) => Err(SlaError::NoMinimum),
            _ if most < least => Err(SlaError::MaximumBelowMinimum { least, most }),
            _ => Ok(Self { least, most }),
        }
    }

    /// The minimum.
    pub fn least(self) -> u32 {
        self.least
    }

    /// The maximum.
    pub fn most(self) -> u32 {
        self.most
    }
}

/// Limits per level and for all levels together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sla {
    brokers: Bounds,
    orchestrators: Bounds,
    most_in_all: Option<u32>,
}

impl Sla {
    /// Limits of both levels, and of both together if there is such a limit.
    ///
    /// # Errors
    /// When the maximum in all is below the sum of the minimums.
    pub fn new(brokers: Bounds, orchestrators: Bounds, most_in_all: Option<u32>) -> Result<Self, SlaError> {
        let least = brokers.least.saturating_add(orchestrators.least);
        match most_in_all {
            Some(most) if most < least => Err(SlaError::MaximumInAll { least, most }),
            _ => Ok(Self { brokers, orchestrators, most_in_all }),
        }
    }

    /// The limits of one level.
    pub fn bounds(&self, level: Level) -> Bounds {
        match level {
            Level::Broker => self.brokers,
            Level::Orchestrator => self.orchestrators,
        }
    }

    /// The largest number of members of a level while the other level has its minimum.
    pub fn most_of(&self, level: Level) -> u32 {
        let other = match level {
            Level::Broker => self.orchestrators,
            Level::Orchestrator => self.brokers,
        };
        let most = self.bounds(level).most;
        self.most_in_all.map_or(most, |all| most.min(all.saturating_sub(other.least)))
    }

    /// The allowed part of a change, with the limit that reduced it. Leaving resources count towards maximums, since
    /// they cost money until they are gone.
    pub(super) fn allow(&self, seen: &LevelObservation<'_>, change: Change) -> (Change, Option<HeldBack>) {
        match change {
            Change::Hold => (Change::Hold, None),
            Change::Grow(wanted) => self.allow_growth(seen, wanted),
            Change::Shrink(wanted) => {
                let least = self.bounds(seen.level).least;
                let spare = seen.serving.saturating_sub(least);
                let count = wanted.min(spare);
                let held = (count < wanted).then_some(HeldBack::SlaMinimum { least });
                (if count == 0 { Change::Hold } else { Change::Shrink(count) }, held)
            }
        }
    }

    fn allow_growth(&self, seen: &LevelObservation<'_>, wanted: u32) -> (Change, Option<HeldBack>) {
        let most = self.bounds(seen.level).most;
        let mut room = most.saturating_sub(seen.allocated());
        let mut limit = HeldBack::SlaMaximum { most };
        if let Some(most) = self.most_in_all {
            let in_all = most.saturating_sub(seen.allocated().saturating_add(seen.elsewhere));
            if in_all < room {
                room = in_all;
                limit = HeldBack::SlaMaximumInAll { most };
            }
        }
        let count = wanted.min(room);
        let held = (count < wanted).then_some(limit);
        (if count == 0 { Change::Hold } else { Change::Grow(count) }, held)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn seen(serving: u32, pending: u32, leaving: u32, elsewhere: u32) -> LevelObservation<'static> {
        let (time, level) = (Duration::ZERO, Level::Broker);
        LevelObservation { time, level, serving, pending, leaving, elsewhere, lead_time: None, samples: &[] }
    }

    fn sla(least: u32, most: u32, in_all: Option<u32>) -> Sla {
        Sla::new(Bounds::new(least, most).unwrap(), Bounds::new(1, 5).unwrap(), in_all).unwrap()
    }

    #[test]
    fn growth_ends_at_the_maximum_of_the_level_or_of_all() {
        let grow = Change::Grow(5);
        assert_eq!(sla(1, 10, None).allow(&seen(4, 0, 0, 1), grow), (grow, None));
        let (change, held) = sla(1, 6, None).allow(&seen(3, 1, 0, 1), grow);
        assert_eq!((change, held), (Change::Grow(2), Some(HeldBack::SlaMaximum { most: 6 })));
        let (change, held) = sla(1, 6, Some(7)).allow(&seen(4, 0, 1, 1), grow);
        assert_eq!((change, held), (Change::Grow(1), Some(HeldBack::SlaMaximum { most: 6 })));
        let (change, held) = sla(1, 6, Some(6)).allow(&seen(4, 0, 1, 1), grow);
        assert_eq!((change, held), (Change::Hold, Some(HeldBack::SlaMaximumInAll { most: 6 })));
    }

    #[test]
    fn shrinking_ends_at_the_minimum() {
        let (change, held) = sla(2, 6, None).allow(&seen(4, 0, 0, 1), Change::Shrink(3));
        assert_eq!((change, held), (Change::Shrink(2), Some(HeldBack::SlaMinimum { least: 2 })));
        assert_eq!(sla(2, 6, None).allow(&seen(2, 0, 0, 1), Change::Shrink(1)).0, Change::Hold);
    }

    #[test]
    fn agreements_that_make_no_sense_are_refused() {
        assert_eq!(Bounds::new(0, 3), Err(SlaError::NoMinimum));
        assert_eq!(Bounds::new(4, 3), Err(SlaError::MaximumBelowMinimum { least: 4, most: 3 }));
        let bounds = Bounds::new(2, 3).unwrap();
        assert_eq!(Sla::new(bounds, bounds, Some(3)), Err(SlaError::MaximumInAll { least: 4, most: 3 }));
    }
}
