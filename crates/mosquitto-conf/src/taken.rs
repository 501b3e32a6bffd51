//! The outcome for a line.

use std::fmt::Display;

use tidegate_conversion::Outcome;

/// The outcome for a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) outcome: Outcome,
    pub(crate) why: String,
    /// Mosquitto does not start with it.
    pub(crate) invalid: bool,
}

impl Taken {
    /// It is in the result.
    pub(crate) const CARRIED: Self = Self { outcome: Outcome::Carried, why: String::new(), invalid: false };

    /// With a reason.
    pub(crate) fn new(outcome: Outcome, why: &str) -> Self {
        Self { outcome, why: why.to_owned(), invalid: false }
    }

    pub(crate) fn changed(why: &str) -> Self {
        Self::new(Outcome::Changed, why)
    }

    pub(crate) fn refused(why: &str) -> Self {
        Self::new(Outcome::Refused, why)
    }

    /// Mosquitto does not start with it and serves no clients, so neither does the result.
    pub(crate) fn invalid(why: impl Display) -> Self {
        Self { outcome: Outcome::Refused, why: format!("Mosquitto does not start with it: {why}"), invalid: true }
    }
}

/// The object that a line belongs to. Where it is left out, the line is not in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineOwner {
    /// The broker, which is always there.
    Broker,
    /// All listeners together.
    Listeners,
    /// The listener that this line opens.
    Listener(usize),
    /// The bridge that this line opens.
    Bridge(usize),
}
