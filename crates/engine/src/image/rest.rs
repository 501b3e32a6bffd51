//! What arrives for a partition while it moves: noted at the old place from the image on, and at the new one from its
//! arrival on. In the end the new place delivers the old one's messages, then its own that were not among those, so
//! that each comes once and in its order.

use super::begin;
use crate::ids::{Partitions, Place};
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::uplink::id::{MessageId, SeenIds};
use crate::records::image::put_message;
use crate::state::ShardState;
use crate::topics::Route;
use crate::wire::WireWrite;
use std::collections::BTreeSet;

/// Bytes noted for one move, beyond which it is given up.
pub(crate) const REST_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Partitions that move to another process, or have come from one.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// What arrives for partitions that move away.
    pub(crate) rest: Option<Box<Rest>>,
    /// Which messages had come when partitions arrived here.
    pub(crate) arrived: Option<Box<SeenIds>>,
    /// Messages that those have got before their broker has brought them.
    pub(crate) ahead: Ahead,
    /// Whether a partition is being moved out: the sessions of its connections go on elsewhere.
    pub(crate) exporting: bool,
}

impl Handover {
    /// Whether a message may be for a partition that moves.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.rest.is_some() || !self.ahead.is_empty()
    }
}

/// What arrived since images were taken, or taken in.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) partitions: Partitions,
    /// Whether the partitions come; then they get nothing before what is left of them has come.
    pub(crate) coming: bool,
    /// Messages with their ids.
    pub(crate) bytes: Vec<u8>,
    pub(crate) full: bool,
}

/// Messages that were delivered to these partitions before their broker has brought them.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    pub(crate) partitions: Partitions,
    pub(crate) ids: BTreeSet<(u64, u64)>,
}

pub(crate) fn put_noted(out: &mut Vec<u8>, now: Now, id: Option<&MessageId>, message: &MessageRef) {
    out.put_u64(id.map_or(0, |id| id.origin));
    out.put_u64(id.map_or(0, |id| id.number));
    put_message(out, now, message);
}

impl Ahead {
    /// Whether no message is ahead of its broker.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Who has got a message already.
    pub(crate) fn take(&mut self, id: &MessageId) -> Option<Partitions> {
        self.ids.remove(&(id.origin, id.number)).then_some(self.partitions)
    }
}

impl Handover {
    /// Begins to note what arrives for partitions that leave, or come.
    pub(crate) fn begin_rest(&mut self, partitions: Partitions, coming: bool) {
        self.rest = Some(Box::new(Rest { partitions, coming, bytes: begin(), full: false }));
    }
}

impl Handover {
    pub(crate) fn note_rest(&mut self, now: Now, id: Option<&MessageId>, message: &MessageRef) {
        let Some(rest) = &mut self.rest else { return };
        if rest.bytes.len() > REST_MAX_BYTES {
            rest.full = true;
            return;
        }
        put_noted(&mut rest.bytes, now, id, message);
    }

    /// Whether a message with this route is for somebody who moves.
    pub(crate) fn concerns_rest(&self, place: Place, state: &ShardState, route: &Route) -> bool {
        let Some(rest) = &self.rest else { return false };
        let elsewhere = rest.partitions.iter().any(|partition| {
            let shard = place.home_of(partition);
            shard != place.shard && route.remote_bits() >> shard.0 & 1 != 0
        });
        elsewhere
            || route.targets().iter().any(|target| {
                let session = state.sessions.get(target.session.0);
                session.is_some_and(|session| session.is_of(rest.partitions))
            })
    }
}
