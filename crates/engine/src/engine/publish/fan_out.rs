//! A message with many receivers is delivered in several turns.

use crate::engine::facets::PublishPipeline;
use crate::events::reason::Reason;
use crate::flows::contexts::publishing;
use crate::flows::publish::dispatch::reach;
use crate::ids::ConnectionKey;
use crate::message::MessageRef;
use crate::now::Now;
use crate::publish::fan_out::{FAN_OUT_STEP, FanOut};

impl PublishPipeline<'_> {
    /// Takes messages under way to more receivers, a bounded number of them.
    pub(crate) fn run_fan_outs(&mut self, now: Now) {
        let mut left = FAN_OUT_STEP;
        while left > 0 && self.engine.fan_outs.can_go_on(&self.engine.state.to_write) {
            let Some(fan_out) = self.engine.fan_outs.under_way.pop_front() else { return };
            left -= self.fan_out(now, fan_out, left);
            self.engine.after_frame(now);
        }
    }

    /// A publisher continues or leaves: its earlier message reaches all receivers first.
    #[cold]
    pub(crate) fn finish_fan_out(&mut self, now: Now, publisher: ConnectionKey) {
        let of_publisher = |fan_out: &FanOut| fan_out.source.connection == Some(publisher);
        if let Some(at) = self.engine.fan_outs.under_way.iter().position(of_publisher)
            && let Some(fan_out) = self.engine.fan_outs.under_way.remove(at)
        {
            self.fan_out(now, fan_out, usize::MAX);
        }
    }

    /// All messages in progress are delivered to their remaining receivers now.
    #[cold]
    pub(crate) fn finish_fan_outs(&mut self, now: Now) {
        while let Some(fan_out) = self.engine.fan_outs.under_way.pop_front() {
            self.fan_out(now, fan_out, usize::MAX);
        }
    }

    /// Takes a message to at most `most` further receivers; returns their number.
    fn fan_out(&mut self, now: Now, mut fan_out: FanOut, most: usize) -> usize {
        let message = MessageRef::clone(&fan_out.message);
        let mut publication = message.publication();
        let slot = publishing!(self.engine).route_of(message.tenant, message.topic());
        let (_, route) = self.engine.router.cache.get(slot);
        let rest = &route.targets()[route.targets().partition_point(|target| target.session <= fan_out.reached)..];
        let part = &rest[..rest.len().min(most)];
        if message.is_expired(now.monotonic) {
            for target in part {
                self.engine.state.reports().discard_for(Reason::MessageExpired, target.session, &message);
            }
        } else {
            reach!(self.engine).deliver_to(now, route, part, &mut publication, &fan_out.source);
        }
        let reached = part.len();
        match part.last() {
            Some(last) if reached < rest.len() => {
                fan_out.reached = last.session;
                self.engine.fan_outs.under_way.push_front(fan_out);
            }
            _ => {
                self.engine.fan_outs.bytes -= message.cost();
                self.engine.state.memory.held -= message.cost();
            }
        }
        reached
    }
}
