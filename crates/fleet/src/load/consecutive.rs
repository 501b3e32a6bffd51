//! Violations that must follow each other before they count.

use serde::{Deserialize, Serialize};

use super::{LoadError, Side, observations};

/// Counts observations in a row on the same side of a band.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Consecutive {
    #[serde(skip)]
    needed: u32,
    side: Side,
    run: u32,
}

impl Consecutive {
    /// How many violations in a row count, 1 or more.
    ///
    /// # Errors
    /// When that is 0.
    pub fn new(needed: u32) -> Result<Self, LoadError> {
        Ok(Self { needed: observations("number of violations in a row", needed)?, side: Side::Within, run: 0 })
    }

    /// The same, with the observations of another one, such as that before a restart.
    #[must_use]
    pub fn recalling(&self, remembered: &Self) -> Self {
        Self { needed: self.needed, ..*remembered }
    }

    /// Takes the side of the next observation in; answers the side that counts now, which is [`Side::Within`] until
    /// there are enough in a row.
    pub fn observe(&mut self, side: Side) -> Side {
        self.run = if side == self.side { self.run.saturating_add(1) } else { 1 };
        self.side = side;
        if self.run >= self.needed { side } else { Side::Within }
    }

    /// How many in a row there are now.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// How many in a row count.
    pub fn needed(&self) -> u32 {
        self.needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unbroken_run_counts() {
        let mut consecutive = Consecutive::new(3).unwrap();
        let sides = [Side::Above, Side::Above, Side::Within, Side::Above, Side::Above, Side::Above, Side::Below];
        let counted: Vec<Side> = sides.into_iter().map(|side| consecutive.observe(side)).collect();
        assert_eq!(counted.iter().position(|side| *side == Side::Above), Some(5));
        assert_eq!(counted[6], Side::Within);
        assert!(Consecutive::new(0).is_err());
    }
}
