//! The Packet Identifier.

use std::num::NonZeroU16;

/// A Packet Identifier, which is never zero ([MQTT-2.2.1-3], [MQTT-2.2.1-4]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketId(NonZeroU16);

impl PacketId {
    /// The smallest identifier, 1.
    pub const MIN: Self = Self(NonZeroU16::MIN);
    /// The largest identifier, 65,535.
    pub const MAX: Self = Self(NonZeroU16::MAX);

    /// The identifier with this number; `None` for zero.
    #[inline]
    pub const fn new(number: u16) -> Option<Self> {
        match NonZeroU16::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number, 1 to 65,535.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0.get()
    }

    /// The identifier after this one; 1 follows 65,535.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        match self.0.checked_add(1) {
            Some(number) => Self(number),
            None => Self::MIN,
        }
    }
}

impl std::fmt::Display for PacketId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
