//! Messages to many that reach their receivers in several turns.
//!
//! A message of QoS 0 to more receivers than a turn may deliver to, or to receivers many of which take no output, goes
//! to some of them in each turn. Its publisher waits meanwhile, so that all that it sends keeps its order. Receivers
//! are taken in the order of their sessions: whoever subscribes or unsubscribes in the meantime gets the message or
//! does not, and nobody gets it twice. A message of a higher QoS or one that is retained reaches everybody at once: its
//! acknowledgement and what is stored for it speak for all receivers.

use crate::connection::parking::Parking;
use crate::connection::to_write::ToWrite;
use crate::publish::publishing::publishing;
use std::collections::VecDeque;

use tidegate_mqtt::{QoS, RawPublish};

use crate::engine::Engine;
use crate::ids::{ConnectionKey, SessionKey};
use crate::message::{MessageRef, Publication};
use crate::now::Now;
use crate::publish::dispatch::{Source, reach};
use crate::publish::turn_share::Share;
use crate::telling::reason::Reason;
use crate::topics::Route;

/// Receivers that such a message reaches in one turn, and connections in line above which it reaches nobody for the
/// moment.
pub(crate) const FAN_OUT_STEP: usize = 256;

/// A message that some of its receivers have got.
#[derive(Debug)]
struct FanOut {
    message: MessageRef,
    source: Source,
    /// Sessions up to this one have got it.
    reached: SessionKey,
}

/// Messages that some of their receivers have got, one of a publisher at most.
#[derive(Debug, Default)]
pub(crate) struct FanOuts {
    under_way: VecDeque<FanOut>,
    /// What they hold, bytes.
    bytes: u64,
}

impl FanOuts {
    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// What they hold, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives memory back after a peak.
    pub(crate) fn shrink(&mut self) {
        self.under_way.shrink_to_fit();
    }

    /// Notes that the `first` receivers along a route have got a message, if there are more; returns what it costs to
    /// keep it.
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

impl Parking<'_> {
    /// How many of more than [`FAN_OUT_STEP`] receivers a message reaches at once. When they are not all, its publisher
    /// waits from now on.
    #[cold]
    pub(crate) fn first_receivers(
        &mut self,
        now: Now,
        key: ConnectionKey,
        raw: &RawPublish<'_>,
        receivers: usize,
    ) -> usize {
        let splits = raw.qos == QoS::AtMostOnce && !raw.retain;
        if !splits || receivers <= self.desk.wide_share(receivers) {
            return receivers;
        }
        self.wait_for_next_turn(now, key, Share::Wide);
        if self.turn_share.holds(key) { FAN_OUT_STEP } else { receivers }
    }
}

impl FanOuts {
    /// True if messages under way may reach more receivers now.
    pub(crate) fn can_go_on(&self, to_write: &ToWrite) -> bool {
        !self.is_empty() && to_write.in_line() < FAN_OUT_STEP
    }
}

impl Engine {
    /// Takes messages under way to more receivers, a bounded number of them.
    pub(crate) fn run_fan_outs(&mut self, now: Now) {
        let mut left = FAN_OUT_STEP;
        while left > 0 && self.fan_outs.can_go_on(&self.desk.to_write) {
            let Some(fan_out) = self.fan_outs.under_way.pop_front() else { return };
            left -= self.fan_out(now, fan_out, left);
            self.after_frame(now);
        }
    }

    /// A publisher goes on or goes away: what it has sent before reaches everybody first.
    #[cold]
    pub(crate) fn finish_fan_out(&mut self, now: Now, publisher: ConnectionKey) {
        let of_publisher = |fan_out: &FanOut| fan_out.source.connection == Some(publisher);
        if let Some(at) = self.fan_outs.under_way.iter().position(of_publisher)
            && let Some(fan_out) = self.fan_outs.under_way.remove(at)
        {
            self.fan_out(now, fan_out, usize::MAX);
        }
    }

    /// All messages under way reach everybody now.
    #[cold]
    pub(crate) fn finish_fan_outs(&mut self, now: Now) {
        while let Some(fan_out) = self.fan_outs.under_way.pop_front() {
            self.fan_out(now, fan_out, usize::MAX);
        }
    }

    /// Takes a message to at most so many more receivers; returns how many they were.
    fn fan_out(&mut self, now: Now, mut fan_out: FanOut, most: usize) -> usize {
        let message = MessageRef::clone(&fan_out.message);
        let mut publication = message.publication();
        let slot = publishing!(self).route_of(message.tenant, message.topic());
        let (_, route) = self.cache.get(slot);
        let rest = &route.targets()[route.targets().partition_point(|target| target.session <= fan_out.reached)..];
        let part = &rest[..rest.len().min(most)];
        if message.is_expired(now.monotonic) {
            for target in part {
                self.desk.reports().discard_for(Reason::MessageExpired, target.session, &message);
            }
        } else {
            reach!(self).deliver_to(now, route, part, &mut publication, &fan_out.source);
        }
        let reached = part.len();
        match part.last() {
            Some(last) if reached < rest.len() => {
                fan_out.reached = last.session;
                self.fan_outs.under_way.push_front(fan_out);
            }
            _ => {
                self.fan_outs.bytes -= message.cost();
                self.desk.memory.held -= message.cost();
            }
        }
        reached
    }
}
