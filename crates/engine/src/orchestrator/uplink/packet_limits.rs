//! How long a packet each broker takes. A message that is longer goes to another broker, or is refused.

use crate::now::Millis;

/// How long a limit is remembered that a broker has shown by a refusal, milliseconds. Then it is tried again.
const LEARNED_MS: u64 = 600_000;

/// The longest packet that a broker takes, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketLimit {
    /// As the broker's last CONNACK says.
    pub(crate) announced: u32,
    /// As it has shown by refusing a packet of one byte more.
    learned: u32,
    learned_until: Millis,
}

impl Default for PacketLimit {
    fn default() -> Self {
        Self { announced: u32::MAX, learned: u32::MAX, learned_until: Millis::NEVER }
    }
}

impl PacketLimit {
    pub(crate) fn bytes(self) -> u32 {
        self.announced.min(self.learned)
    }

    /// The broker has refused a packet of this length.
    pub(crate) fn learn(&mut self, now: Millis, refused: usize) {
        self.learned = u32::try_from(refused.saturating_sub(1)).unwrap_or(u32::MAX).min(self.learned);
        self.learned_until = now.plus(LEARNED_MS);
    }

    /// Forgets a limit that was learned long ago.
    pub(super) fn forget_old(&mut self, now: Millis) {
        if self.learned_until <= now {
            (self.learned, self.learned_until) = (u32::MAX, Millis::NEVER);
        }
    }
}
