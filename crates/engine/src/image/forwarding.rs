//! Messages of brokers for partitions that have moved from one orchestrator of a cluster to another.
//!
//! A broker sends its messages to a connection, and does not know partitions. So the old home still receives messages
//! for sessions that have left. It collects them from the image on, and forwards them in pieces, until every broker has
//! confirmed the filters of the new home and has delivered all earlier messages. The new home serves the sessions from
//! the image on. It keeps the messages of its own brokers for these sessions back until the last piece, so that each
//! topic keeps its order. Message ids identify messages that arrive both ways.

use std::collections::{BTreeMap, BTreeSet};

use super::noted::{AHEAD_MAX, put_noted};
use crate::ids::Partitions;
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::uplink::id::{MessageId, SeenIds};

/// Bytes that one move may have collected and not forwarded. Beyond it the connections to brokers end; the brokers keep
/// the unacknowledged messages.
const NOTED_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of the messages that the new home keeps back for one move. Beyond it they are delivered at once, before the
/// messages that the old home has still to forward.
pub(crate) const KEPT_BACK_MAX_BYTES: usize = 64 * 1024 * 1024;

pub(crate) type Id = (u64, u64);

pub(crate) fn number_of(id: &MessageId) -> Id {
    (id.origin, id.number)
}

/// Moves whose messages still come to the old home, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Forwarding {
    pub(crate) left: BTreeMap<u64, Departed>,
    /// The transfer for which the connection at hand brings messages, as that of a dead old home.
    pub(crate) former: Option<u64>,
    pub(crate) come: BTreeMap<u64, Come>,
}

/// The messages that follow a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// More pieces, before the messages that were kept back.
    Pieces,
    /// More pieces, after the messages that were kept back. These messages are delivered now.
    LatePieces,
    /// Nothing: it is the last one.
    Nothing,
}

/// Partitions that have left.
#[derive(Debug)]
pub(crate) struct Departed {
    pub(crate) partitions: Partitions,
    pub(crate) noted: Vec<u8>,
    /// Whether the sessions here get nothing any more, since they are served at the new home.
    pub(crate) is_over: bool,
}

/// Partitions that have come.
#[derive(Debug)]
pub(crate) struct Come {
    pub(crate) partitions: Partitions,
    /// Messages that had come here before the partitions.
    pub(crate) before: SeenIds,
    /// Messages of the own brokers that wait for the last piece; `None` where they are delivered at once.
    pub(crate) kept_back: Option<KeptBack>,
    /// Messages passed on that the own brokers have not brought yet.
    pub(crate) ahead: BTreeSet<Id>,
}

#[derive(Debug)]
pub(crate) struct KeptBack {
    pub(crate) noted: Vec<u8>,
    /// The ids among them that were not passed on.
    pub(crate) alone: BTreeSet<Id>,
    /// The ids among them that were passed on, and so delivered.
    pub(crate) delivered: BTreeSet<Id>,
}

impl Forwarding {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty() && self.come.values().all(|come| come.kept_back.is_none() && come.ahead.is_empty())
    }

    /// Whether so much waits to be passed on that brokers have to keep their messages.
    fn is_full(&self) -> bool {
        self.left.values().any(|left| left.noted.len() > NOTED_MAX_BYTES)
    }
}

impl super::Handover {
    /// The messages that come next are brought by a connection of the dead old home of this transfer, or of none.
    #[inline]
    pub(crate) fn note_former(&mut self, id: Option<u64>) {
        self.forwarding.former = id;
    }

    /// The partitions of a transfer whose sessions want a message that has come before, now that the connection of their
    /// dead old home brings it.
    pub(crate) fn wanting(&mut self, transfer: u64, id: &MessageId) -> Option<Partitions> {
        let come = self.forwarding.come.get_mut(&transfer)?;
        come.wants(Some(id), true, true).then_some(come.partitions)
    }

    /// The partitions of a transfer.
    pub(crate) fn partitions_of(&self, transfer: u64) -> Partitions {
        self.forwarding.come.get(&transfer).map_or(Partitions::NONE, |come| come.partitions)
    }

    /// Whether brokers have to keep their messages, since more waits to be passed on than is allowed.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.forwarding.is_full()
    }
}

impl Come {
    /// Says whether a message of a broker is not for these sessions now: they have got it, or get it later. `concerns`
    /// tells whether it is for one of them.
    pub(crate) fn keeps_back(
        &mut self,
        now: Now,
        id: Option<&MessageId>,
        message: &MessageRef,
        concerns: bool,
    ) -> bool {
        if id.is_some_and(|id| self.ahead.remove(&number_of(id))) {
            return true;
        }
        let Some(kept_back) = self.kept_back.as_mut().filter(|_| concerns) else { return false };
        put_noted(&mut kept_back.noted, now, id, message);
        kept_back.alone.extend(id.map(number_of));
        true
    }

    /// Whether a message that was passed on is for these sessions. `is_here` says whether a broker has brought it here.
    pub(crate) fn wants(&mut self, id: Option<&MessageId>, is_here: bool, place_is_whole: bool) -> bool {
        let Some(id) = id else { return true };
        if let Some(kept_back) = &mut self.kept_back
            && kept_back.alone.remove(&number_of(id))
        {
            kept_back.delivered.insert(number_of(id));
            return true;
        }
        if is_here {
            return self.before.contains(id);
        }
        if place_is_whole && self.ahead.len() < AHEAD_MAX {
            // A broker brings it again on the next connection of a dead home.
            return self.ahead.insert(number_of(id));
        }
        true
    }
}
