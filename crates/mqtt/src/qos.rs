//! Quality of Service.

/// The Quality of Service of a message or of a subscription, ordered from weakest to strongest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// QoS 0: the message arrives at most once.
    #[default]
    AtMostOnce = 0,
    /// QoS 1: the message arrives at least once.
    AtLeastOnce = 1,
    /// QoS 2: the message arrives exactly once.
    ExactlyOnce = 2,
}

impl QoS {
    /// The QoS of a number on the wire; `None` for 3 (which is malformed, [MQTT-3.3.1-4]) and above.
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }

    /// The number on the wire: 0, 1 or 2.
    #[inline]
    pub const fn bits(self) -> u8 {
        self as u8
    }
}
