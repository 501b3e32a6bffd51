//! A broker that has no room (reason code 0x97) is given nothing for a while: its messages go to others, or wait.

use crate::now::Millis;

/// A pause in which a broker gets no messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    /// Its end, or [`Millis::NEVER`].
    pub(crate) until: Millis,
    /// How long the last one was; 0 when the broker has taken a message since.
    pub(crate) length_ms: u64,
}

impl Default for Pause {
    fn default() -> Self {
        Self { until: Millis::NEVER, length_ms: 0 }
    }
}

impl Pause {
    /// Whether the broker is paused.
    pub(crate) fn is_on(&self) -> bool {
        self.until != Millis::NEVER
    }

    /// The broker has taken a message.
    pub(crate) fn note_room(&mut self) {
        if !self.is_on() {
            self.length_ms = 0;
        }
    }

    /// The connection has ended, and with it the answers of the broker.
    pub(crate) fn forget(&mut self) {
        self.until = Millis::NEVER;
    }
}
