//! Messages that sessions have from their last home. A broker may deliver one of them here when the sessions have
//! come: they do not get it again.

use std::collections::VecDeque;

use super::forwarding::Id;
use super::{begin, open, seal};
use crate::cluster::transfer::error::ImageError;
use crate::ids::{PartitionId, Partitions};
use crate::now::{Millis, Now};
use crate::orchestrator::uplink::id::{MessageId, SeenIds};
use crate::wire::{WireReader, WireWrite};

/// How long a broker may take longer for this process than for the last home, milliseconds.
const KNOWN_FOR_MS: u64 = 600_000;
/// Lists of messages that are known; beyond it the earliest are forgotten, and a late message may come twice.
const LISTS_MAX: usize = 64;

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

    /// The messages that these partitions have: those that have come here, those of their last homes, and those that were
    /// passed on to them and that no broker has delivered here.
    pub(crate) fn write<'a>(
        &self,
        seen: &SeenIds,
        partitions: Partitions,
        passed_on: impl Iterator<Item = (&'a Id, &'a Partitions)>,
    ) -> Vec<u8> {
        let mut lists: Vec<(Partitions, SeenIds)> = vec![(partitions, seen.clone())];
        let known = self.0.iter().map(|known| (known.partitions.among(partitions), known.ids.clone()));
        lists.extend(known.filter(|(of, _)| !of.is_empty()));
        let earlier = lists.len();
        for ((origin, number), of) in passed_on {
            let of = of.among(partitions);
            let id = MessageId { origin: *origin, number: *number, entered: 0, publisher: 0, retain: false };
            match lists.iter_mut().skip(earlier).find(|(known, _)| *known == of) {
                _ if of.is_empty() => {}
                Some((_, ids)) => drop(ids.insert(&id)),
                None => {
                    let mut ids = SeenIds::default();
                    ids.insert(&id);
                    lists.push((of, ids));
                }
            }
        }
        let mut out = begin();
        out.put_u16(lists.len() as u16);
        for (of, ids) in lists {
            out.put_u16(of.iter().count() as u16);
            of.iter().for_each(|partition| out.put_u16(partition.0));
            ids.write(&mut out);
        }
        seal(out)
    }

    /// Partitions have come with the messages that were written.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub(crate) fn note(&mut self, now: Now, written: &[u8]) -> Result<(), ImageError> {
        let mut reader: WireReader<'_> = open(written)?;
        for _ in 0..reader.u16("a number of lists")? {
            let (mut partitions, mut ids) = (Partitions::NONE, SeenIds::default());
            for _ in 0..reader.u16("a number of partitions")? {
                partitions.add(PartitionId(reader.u16("a partition")?));
            }
            ids.read(&mut reader)?;
            if self.0.len() >= LISTS_MAX {
                self.0.pop_front();
            }
            self.0.push_back(Known { partitions, ids, until: now.monotonic.plus(KNOWN_FOR_MS) });
        }
        Ok(())
    }
}
