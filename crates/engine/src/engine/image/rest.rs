//! The rest of a partition that has moved between processes is delivered.

use crate::cluster::transfer::error::ImageError;
use crate::engine::facets::MoveCalls;
use crate::flows::image::leaving::moving;
use crate::ids::Partitions;
use crate::image::noted::{AHEAD_MAX, each_noted, put_noted};
use crate::image::rest::REST_MAX_BYTES;
use crate::image::{begin, seal};
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::uplink::id::MessageId;
use std::collections::BTreeSet;

/// The messages for the sessions that have arrived.
struct Sift {
    out: Vec<u8>,
    /// The ids of these messages.
    known: BTreeSet<(u64, u64)>,
    /// Of these, what no broker has brought here yet.
    ahead: BTreeSet<(u64, u64)>,
}

impl Sift {
    fn put(&mut self, now: Now, id: Option<&MessageId>, message: &MessageRef) {
        if let Some(id) = id {
            self.known.insert((id.origin, id.number));
        }
        put_noted(&mut self.out, now, id, message);
    }
}

impl MoveCalls<'_> {
    /// Ends the collection and returns the collected messages; `None` if they were too many, or none were to be collected.
    pub fn take_rest(&mut self) -> Option<Vec<u8>> {
        self.engine.handover.rest.take().filter(|rest| !rest.full).map(|rest| seal(rest.bytes))
    }

    /// The messages for the sessions that have arrived, for [`MoveCalls::deliver_rest`](crate::MoveCalls::deliver_rest): a rest, and the messages collected here that are not in
    /// it. On the shard of the uplinks.
    ///
    /// # Errors
    /// When the bytes are no rest, or too much was to be noted here.
    pub fn sift_rest(&mut self, now: Now, partitions: Partitions, rest: &[u8]) -> Result<Vec<u8>, ImageError> {
        let mut sift = Sift { out: begin(), known: BTreeSet::new(), ahead: BTreeSet::new() };
        // With several shards nothing was noted here: what came since has been delivered, and is told by what had come
        // before.
        let before = self.engine.handover.arrived.take().filter(|_| self.engine.place.shards > 1);
        each_noted(now, rest, |id, message| {
            let here = id.is_some_and(|id| self.engine.uplinks.settlement.has_seen(id));
            if let (Some(id), Some(before), true) = (id, &before, here)
                && !before.contains(id)
            {
                return;
            }
            if let Some(id) = id.filter(|_| !here && self.engine.place.shards == 1 && sift.ahead.len() < AHEAD_MAX) {
                sift.ahead.insert((id.origin, id.number));
            }
            sift.put(now, id, message);
        })?;
        if let Some(own) = self.engine.handover.rest.take().filter(|own| own.coming) {
            if own.full {
                return Err(ImageError::TooLarge { bytes: own.bytes.len() as u64, max_bytes: REST_MAX_BYTES as u64 });
            }
            each_noted(now, &seal(own.bytes), |id, message| {
                if id.is_none_or(|id| !sift.known.contains(&(id.origin, id.number))) {
                    sift.put(now, id, message);
                }
            })?;
        }
        self.engine.handover.ahead.add(sift.ahead.into_iter().map(|id| (id, partitions)));
        Ok(seal(sift.out))
    }

    /// Delivers what was sifted to the sessions of these partitions that are at home on this shard; says how many
    /// messages there were.
    ///
    /// # Errors
    /// When the bytes are no rest.
    pub fn deliver_rest(&mut self, now: Now, partitions: Partitions, sifted: &[u8]) -> Result<u64, ImageError> {
        self.engine.state.journal.now = now;
        let mut messages = 0;
        each_noted(now, sifted, |_, message| {
            moving!(self.engine)
                .deliver_only(now, message, |session| session.is_some_and(|session| session.is_of(partitions)));
            messages += 1;
        })?;
        self.engine.after_frame(now);
        Ok(messages)
    }
}
