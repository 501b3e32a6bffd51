//! The bridges that have carried a message, so that none carries it twice the same way.
//!
//! Each end of a bridge adds a User Property to the messages that it takes from its broker. A message with its own mark
//! has returned in a loop. The two ends have different marks: a response may have the properties of its request.
//! Brokers forward User Properties as they are ([MQTT-3.3.2-17]), so the marks pass any broker of MQTT 5.0.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

/// The name of the User Property; the value names an end of a bridge.
const MARK: &str = "tidegate-bridge";

/// Bridges that a message may pass. One more does not carry it: this bounds loops of bridges whose marks change, and the
/// size of the property.
pub(crate) const MAX_HOPS: usize = 16;

/// The name that an end of a bridge has in its marks: another one in each process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HopName(String);

/// Why a message is not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looped {
    /// This end has taken it before.
    Again,
    /// It has passed [`MAX_HOPS`] bridges.
    TooFar,
}

impl HopName {
    /// A name that no other end has.
    pub(crate) fn random() -> Self {
        Self::of(RandomState::new().build_hasher().finish())
    }

    pub(crate) fn of(number: u64) -> Self {
        Self(format!("{number:016x}"))
    }

    /// Marks a message as taken by this end.
    ///
    /// # Errors
    /// When it is not to be carried.
    pub(crate) fn mark(&self, properties: &mut Vec<(String, String)>) -> Result<(), Looped> {
        let mut hops = 0;
        for (_, bridge) in properties.iter().filter(|(name, _)| name == MARK) {
            if *bridge == self.0 {
                return Err(Looped::Again);
            }
            hops += 1;
        }
        if hops >= MAX_HOPS {
            return Err(Looped::TooFar);
        }
        properties.push((MARK.to_owned(), self.0.clone()));
        Ok(())
    }
}

impl fmt::Display for Looped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again => f.write_str("this bridge has carried it before"),
            Self::TooFar => write!(f, "it has passed {MAX_HOPS} bridges"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_marks_a_message_once() {
        let mut properties = vec![("a".to_owned(), "b".to_owned())];
        assert_eq!(HopName::of(1).mark(&mut properties), Ok(()));
        assert_eq!(HopName::of(2).mark(&mut properties), Ok(()));
        assert_eq!(HopName::of(1).mark(&mut properties), Err(Looped::Again));
        assert_eq!(properties.len(), 3);
    }

    #[test]
    fn a_message_passes_a_bounded_number_of_bridges() {
        let mut properties = Vec::new();
        for number in 0..MAX_HOPS as u64 {
            assert_eq!(HopName::of(number).mark(&mut properties), Ok(()));
        }
        assert_eq!(HopName::of(99).mark(&mut properties), Err(Looped::TooFar));
    }
}
