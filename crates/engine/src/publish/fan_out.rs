//! Messages to many that reach their receivers in several turns.
//!
//! A message of QoS 0 to more receivers than a turn may deliver to, or to many blocked receivers, reaches some of them
//! in each turn. Its publisher waits meanwhile, so its messages keep their order. Receivers are taken in the order of
//! their sessions: a client that subscribes or unsubscribes meanwhile may get the message or not, but no client gets it
//! twice. A retained message or one of a higher QoS reaches all receivers at once, because its acknowledgement and its
//! stored copies speak for all of them.

use crate::connection::to_write::ToWrite;
use crate::ids::SessionKey;
use crate::message::{MessageRef, Publication};
use crate::publish::dispatch::Source;
use crate::topics::Route;
use std::collections::VecDeque;

/// Receivers that such a message reaches in one turn, and connections in line above which it waits.
pub(crate) const FAN_OUT_STEP: usize = 256;

/// A message that some of its receivers have got.
#[derive(Debug)]
pub(crate) struct FanOut {
    pub(crate) message: MessageRef,
    pub(crate) source: Source,
    /// Sessions up to this one have got it.
    pub(crate) reached: SessionKey,
}

/// Messages that some of their receivers have got, one of a publisher at most.
#[derive(Debug, Default)]
pub(crate) struct FanOuts {
    pub(crate) under_way: VecDeque<FanOut>,
    /// Bytes held.
    pub(crate) bytes: u64,
}

impl FanOuts {
    /// True if no message is under way.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.under_way.shrink_to_fit();
    }

    /// Notes that the `first` receivers along a route have got a message, if there are more; returns the bytes needed
    /// to keep it.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        publication: &mut Publication<'_>,
        source: Source,
        route: &Route,
        first: usize,
    ) -> u64 {
        if first >= route.targets().len() {
            return 0;
        }
        let Some(reached) = route.targets()[..first].last().map(|target| target.session) else { return 0 };
        let message = publication.keep();
        let cost = message.cost();
        self.bytes += cost;
        self.under_way.push_back(FanOut { message, source, reached });
        cost
    }
}

impl FanOuts {
    /// True if messages under way may reach more receivers now.
    pub(crate) fn can_go_on(&self, to_write: &ToWrite) -> bool {
        !self.is_empty() && to_write.in_line() < FAN_OUT_STEP
    }
}
