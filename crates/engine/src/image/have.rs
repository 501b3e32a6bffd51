//! Messages that sessions have from their last home. A broker may deliver one of them here when the sessions have
//! come: they do not get it again.

use std::collections::VecDeque;

use super::{begin, open, seal};
use crate::cluster::transfer::error::ImageError;
use crate::ids::Partitions;
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::id::{MessageId, SeenIds};
use crate::wire::{WireReader, WireWrite};

/// How long a broker may take longer for this process than for the last home, milliseconds.
const KNOWN_FOR_MS: u64 = 600_000;
/// Moves whose messages are known; beyond it the earliest are forgotten, and a late message may come twice.
const MOVES_MAX: usize = 64;

/// The messages that sessions have from their last homes.
#[derive(Debug, Default)]
pub(crate) struct Have(VecDeque<Known>);

#[derive(Debug)]
struct Known {
    partitions: Partitions,
    ids: SeenIds,
    until: Millis,
}

impl Have {
    /// Whether partitions have this message.
    #[inline]
    pub(crate) fn has(&self, id: &MessageId) -> bool {
        self.0.iter().any(|known| known.ids.contains(id))
    }

    /// The partitions that have it.
    pub(crate) fn of(&self, id: Option<&MessageId>) -> Partitions {
        let Some(id) = id else { return Partitions::NONE };
        let known = self.0.iter().filter(|known| known.ids.contains(id));
        known.fold(Partitions::NONE, |all, known| all.with(known.partitions))
    }

    /// Forgets messages that no broker delivers any more.
    #[inline]
    pub(crate) fn forget_old(&mut self, now: Now) {
        while self.0.front().is_some_and(|known| known.until <= now.monotonic) {
            self.0.pop_front();
        }
    }

    /// The messages that these partitions have: those that have come here, and those of their last homes.
    pub(crate) fn write(&self, seen: &SeenIds, partitions: Partitions) -> Vec<u8> {
        let known = self.0.iter().filter(|known| !known.partitions.among(partitions).is_empty());
        let all: Vec<&SeenIds> = known.map(|known| &known.ids).chain([seen]).collect();
        let mut out = begin();
        out.put_u16(all.len() as u16);
        all.iter().for_each(|ids| ids.write(&mut out));
        seal(out)
    }

    /// Partitions have come with the messages that were written.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub(crate) fn note(&mut self, now: Now, partitions: Partitions, written: &[u8]) -> Result<(), ImageError> {
        let mut reader: WireReader<'_> = open(written)?;
        let mut ids = SeenIds::default();
        for _ in 0..reader.u16("a number of lists")? {
            ids.read(&mut reader)?;
        }
        if self.0.len() >= MOVES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Known { partitions, ids, until: now.monotonic.plus(KNOWN_FOR_MS) });
        Ok(())
    }
}
