//! The outcomes of a message, by number of nodes.

use crate::events::outcome::DeliveryOutcome;
use crate::events::reason::Reason;
use crate::wire::{WireError, WireReader, WireWrite};

/// The outcomes of a message, by number of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub members: u32,
    pub delivered: u32,
    /// Number of receivers that were away when it came.
    pub stored: u32,
    pub expired: u32,
    pub dropped: u32,
}

impl Counts {
    pub(crate) fn note(&mut self, outcome: DeliveryOutcome) {
        let count = match outcome {
            DeliveryOutcome::Delivered => &mut self.delivered,
            DeliveryOutcome::Stored => &mut self.stored,
            DeliveryOutcome::Dropped(Reason::MessageExpired) => &mut self.expired,
            DeliveryOutcome::Dropped(_) => &mut self.dropped,
        };
        *count += 1;
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.members += other.members;
        self.delivered += other.delivered;
        self.stored += other.stored;
        self.expired += other.expired;
        self.dropped += other.dropped;
    }

    pub(crate) fn is_final(self) -> bool {
        self.delivered + self.expired + self.dropped >= self.members
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        for count in [self.members, self.delivered, self.stored, self.expired, self.dropped] {
            out.put_u32(count);
        }
    }

    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let mut next = || reader.u32("a count of nodes");
        Ok(Self { members: next()?, delivered: next()?, stored: next()?, expired: next()?, dropped: next()? })
    }
}
