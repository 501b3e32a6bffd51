//! Large SUBSCRIBE and UNSUBSCRIBE packets are worked off in steps.

use crate::connection::{Answer, UnsubAckAnswer};
use crate::events::reason::Reason;
use crate::flows::contexts::Parking;
use crate::flows::contexts::Subscribing;
use crate::ids::{ConnectionKey, SessionKey};
use crate::now::Now;
use crate::subscribe::steps::{Kind, Steps};
use crate::timers::Timer;
use tidegate_mqtt::{ReasonCode, TopicError, TopicFilter};

impl Parking<'_> {
    /// True if a connection waits beyond its timeout, for the next step of its packet. That wait always ends.
    pub(crate) fn waits_for_step(&mut self, now: Now, key: ConnectionKey) -> bool {
        let until = now.monotonic.plus(self.state.settings.limits.block_timeout_ms);
        let Some(extra) = self.state.connections.get_mut(key).and_then(|connection| connection.extra.as_mut()) else {
            return false;
        };
        let Some(parked) = extra.parked.as_mut().filter(|_| extra.packet_left.is_some()) else { return false };
        parked.waits = 1;
        parked.until = until;
        self.state.timers.set(until, Timer::Parked(key));
        true
    }

    /// Resumes the packet of a client that was suspended.
    pub(crate) fn go_on_with_steps(&mut self, key: ConnectionKey) {
        let connection = self.state.connections.get(key);
        let extra = connection.and_then(|connection| connection.extra.as_ref());
        if extra.is_some_and(|extra| extra.packet_left.is_some()) && !self.turn_share.holds(key) {
            self.turn_share.add_packet(key);
        }
    }
}

impl Subscribing<'_> {
    pub(crate) fn take_unsubscription(
        &mut self,
        now: Now,
        session: SessionKey,
        filter: Result<TopicFilter<'_>, TopicError>,
        answer: &mut UnsubAckAnswer,
    ) {
        answer.codes.push(match filter {
            Err(_) => {
                answer.refusals.add("", Reason::InvalidTopicFilter);
                Reason::InvalidTopicFilter.code()
            }
            Ok(filter) if self.unsubscribe(now, session, filter) => ReasonCode::Success,
            Ok(_) => ReasonCode::NoSubscriptionExisted,
        });
    }
}

impl Subscribing<'_> {
    /// All filters are processed; returns the confirmations to wait for beside the noted ones.
    pub(crate) fn end_steps(&mut self, steps: &mut Steps, answer: &Answer) -> u32 {
        if let (Kind::Subscribe(asked), Answer::SubAck(answer)) = (&mut steps.kind, answer)
            && asked.waits.known
            && !asked.waits.announced
        {
            let told = self.wait_for_interest(steps.ticket, !answer.fetches.is_empty());
            asked.waits.confirmations += u32::from(told);
        }
        steps.take_waits()
    }
}
