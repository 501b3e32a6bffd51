//! What arrives for a partition while it moves: noted at the old place from the image on, and at the new one from its
//! arrival on. In the end the new place delivers the old one's messages, then its own that were not among those, so
//! that each comes once and in its order.

use super::forwarding::Forwarding;
use super::{begin, open};
use crate::cluster::transfer::error::ImageError;
use crate::ids::{Partitions, Place, TenantId};
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::uplink::id::{MessageId, SeenIds};
use crate::records::image::{put_message, read_message};
use crate::state::ShardState;
use crate::topics::Route;
use crate::wire::WireWrite;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes noted for one move, beyond which it is given up.
pub(crate) const REST_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Ids remembered that may still come from brokers after they were delivered here.
pub(crate) const AHEAD_MAX: usize = 1 << 16;

/// Partitions that move to another process, or have come from one.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    /// What arrives for partitions that move away.
    pub(crate) rest: Option<Box<Rest>>,
    /// Which messages had come when partitions arrived here.
    pub(crate) arrived: Option<Box<SeenIds>>,
    /// Messages that those have got before their broker has brought them.
    pub(crate) ahead: Ahead,
    /// Partitions that have moved between members of a cluster, and of which brokers still bring messages to the old
    /// home.
    pub(crate) forwarding: Forwarding,
    /// Whether a partition is being moved out: the sessions of its connections go on elsewhere.
    pub(crate) exporting: bool,
}

impl Handover {
    /// Whether a message may be for a partition that moves, or has got to one that has moved already.
    #[inline]
    pub(crate) fn concerns(&self, id: Option<&MessageId>) -> bool {
        self.rest.is_some() || !self.forwarding.is_empty() || id.is_some_and(|id| self.ahead.has(id))
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

/// Messages that were delivered to some partitions before their broker has brought them, and to which.
#[derive(Debug, Default)]
pub(crate) struct Ahead(BTreeMap<(u64, u64), Partitions>);

pub(crate) fn put_noted(out: &mut Vec<u8>, now: Now, id: Option<&MessageId>, message: &MessageRef) {
    out.put_u64(id.map_or(0, |id| id.origin));
    out.put_u64(id.map_or(0, |id| id.number));
    put_message(out, now, message);
}

/// Reads what was noted.
pub(crate) fn each_noted(
    now: Now,
    bytes: &[u8],
    mut take: impl FnMut(Option<&MessageId>, &MessageRef),
) -> Result<(), ImageError> {
    let mut reader = open(bytes)?;
    while !reader.is_empty() {
        let (origin, number) = (reader.u64("an origin")?, reader.u64("a number of an origin")?);
        let message = read_message(&mut reader, now, TenantId::DEFAULT)?;
        let id = MessageId { origin, number, entered: 0, publisher: 0, retain: false };
        // Numbers begin with 1; a message of a broker that brings no ids has none.
        take(Some(&id).filter(|_| number != 0), &message);
    }
    Ok(())
}

impl Ahead {
    /// Whether a message is ahead of its broker.
    #[inline]
    fn has(&self, id: &MessageId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&(id.origin, id.number))
    }

    /// These partitions have got these messages.
    pub(crate) fn add(&mut self, partitions: Partitions, ids: BTreeSet<(u64, u64)>) {
        for id in ids {
            let known = self.0.entry(id).or_default();
            *known = known.with(partitions);
        }
        // Better twice than memory without a bound.
        while self.0.len() > AHEAD_MAX {
            self.0.pop_first();
        }
    }

    /// Who has got a message already.
    pub(crate) fn take(&mut self, id: &MessageId) -> Option<Partitions> {
        self.0.remove(&(id.origin, id.number))
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
        self.rest.as_ref().is_some_and(|rest| concerns(rest.partitions, place, state, route))
    }
}

/// Whether a message with this route is for a session of these partitions.
pub(crate) fn concerns(partitions: Partitions, place: Place, state: &ShardState, route: &Route) -> bool {
    let elsewhere = partitions.iter().any(|partition| {
        let shard = place.home_of(partition);
        shard != place.shard && route.remote_bits() >> shard.0 & 1 != 0
    });
    elsewhere
        || route.targets().iter().any(|target| {
            let session = state.sessions.get(target.session.0);
            session.is_some_and(|session| session.is_of(partitions))
        })
}
