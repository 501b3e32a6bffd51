//! The answer to a PUBLISH that was rejected.

use crate::connection::Outcome;
use crate::events::reason::Reason;
use crate::flows::contexts::Answering;
use crate::link::envelope::Ticket;
use crate::publish::inbound::Inbound;
use tidegate_mqtt::{QoS, ReasonCode};

impl Answering<'_> {
    /// The ticket under which the answer waits, where there is an answer. The packet identifier of a QoS 2 message is
    /// taken from now on.
    #[inline]
    pub(crate) fn begin_answer(&mut self, it: &Inbound<'_>) -> Option<Ticket> {
        let id = it.raw.packet_id?;
        if let Some(session) = it.session.filter(|_| it.raw.qos == QoS::ExactlyOnce) {
            self.state.sessions.take_packet_id(&mut self.state.journal, session, id);
        }
        Some(self.state.connections.next_ticket(it.key))
    }

    /// The publisher's answer to a routed message. Other subscribers have a QoS 2 message by now: a queue that gave up since
    /// it was asked changes nothing, since a repetition would come to them twice.
    #[inline]
    pub(crate) fn outcome_of(&self, qos: QoS, refused: Option<Reason>, reached: bool) -> Outcome {
        let gave_up = self.state.gave_up && qos == QoS::AtLeastOnce;
        let taken = if reached { ReasonCode::Success } else { ReasonCode::NoMatchingSubscribers };
        refused.or(gave_up.then_some(Reason::BlockedTooLong)).map_or(Ok(taken), Err)
    }
}
