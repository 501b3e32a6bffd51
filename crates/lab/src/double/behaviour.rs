//! The faults of a double.

use crate::load::chance::Chance;

/// The faults of a double. Probabilities are from 0 to 1; a delivery is dropped, duplicated or reordered, but not more
/// than one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behaviour {
    /// How long a delivery takes.
    pub delay: Delay,
    /// The probability that a delivery is dropped.
    pub drop: f64,
    /// The probability that it comes twice.
    pub duplicate: f64,
    /// The probability that the next one of the same topic to the same client overtakes it.
    pub reorder: f64,
    /// The probability that a message is refused (QoS 1 and 2 of MQTT 5).
    pub refuse: f64,
    /// The probability that a client is refused.
    pub refuse_client: f64,
    /// The probability that a subscription is refused.
    pub refuse_subscription: f64,
    /// Pauses without any work.
    pub stalls: Vec<Stall>,
    /// The seed of chance.
    pub seed: u64,
}

/// A pause without any work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When it begins, in nanoseconds on the double's clock.
    pub at_ns: u64,
    /// How long it takes, in nanoseconds.
    pub for_ns: u64,
}

/// How long deliveries take, in nanoseconds. Deliveries to a client keep their order, so one behind a long one takes as
/// long as that needs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Delay {
    /// No time.
    #[default]
    None,
    /// Always the same.
    Fixed(u64),
    /// Each time of a range equally often.
    Uniform {
        /// The shortest.
        min_ns: u64,
        /// The longest.
        max_ns: u64,
    },
    /// Usually one, sometimes another.
    Mixed {
        /// The usual one.
        usual_ns: u64,
        /// The other one.
        rare_ns: u64,
        /// The probability of the other one.
        share: f64,
    },
}

impl Delay {
    /// The delay of a delivery.
    pub fn take(self, chance: &mut Chance) -> u64 {
        match self {
            Self::None => 0,
            Self::Fixed(ns) => ns,
            Self::Uniform { min_ns, max_ns } => min_ns + chance.below(max_ns.saturating_sub(min_ns) + 1),
            Self::Mixed { usual_ns, rare_ns, share } => {
                if chance.happens(share) {
                    rare_ns
                } else {
                    usual_ns
                }
            }
        }
    }
}

/// The fault of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    Delivered,
    Dropped,
    Doubled,
    Overtaken,
}

impl Behaviour {
    /// Chooses the fault of a delivery.
    pub(super) fn outcome(&self, chance: &mut Chance) -> DeliveryOutcome {
        let roll = chance.fraction();
        if roll < self.drop {
            DeliveryOutcome::Dropped
        } else if roll < self.drop + self.duplicate {
            DeliveryOutcome::Doubled
        } else if roll < self.drop + self.duplicate + self.reorder {
            DeliveryOutcome::Overtaken
        } else {
            DeliveryOutcome::Delivered
        }
    }

    /// The time at which input of a given time is processed.
    pub(super) fn worked_on(&self, now_ns: u64) -> u64 {
        let stalled = self.stalls.iter().find(|stall| (stall.at_ns..stall.at_ns + stall.for_ns).contains(&now_ns));
        stalled.map_or(now_ns, |stall| stall.at_ns + stall.for_ns)
    }
}
