//! A QoS 2 message that was taken before: it is only answered again ([MQTT-4.3.3-10]).

use crate::connection::Answer;
use crate::flows::contexts::Deciding;
use crate::flows::contexts::answering;
use crate::publish::inbound::Inbound;
use crate::topics::stages::Step;
use tidegate_mqtt::ReasonCode;

impl Deciding<'_> {
    /// Answers it, unless its answer is pending. Observers get it again, because their confirmations to an earlier
    /// connection are not known. The publisher needs the right to publish the packet: it may hold another message than
    /// the first with its identifier.
    #[cold]
    pub(super) fn answer_repetition(&mut self, it: &Inbound<'_>) -> Step {
        let Some((session, id)) = it.session.zip(it.raw.packet_id) else { return Step::Continue };
        if self.state.connections.awaits_pub_rec(it) {
            return Step::Done;
        }
        let mut waits = 0;
        if !self.observers_of(it).is_empty() && self.check_rights(it) == Step::Continue {
            let room = self.check_observers(it);
            if room != Step::Continue {
                return room;
            }
            waits = self.tell_observers_of(it, Some(self.state.connections.next_ticket(it.key)));
        }
        // The first message may have been written only just now.
        let stored = self.state.sessions.is_stored(session);
        let answer = Answer::PubRec(Ok(ReasonCode::Success), self.digest_if_refusable(it));
        answering!(self).answer(it.now, it.key, id, answer, waits, stored);
        Step::Done
    }
}
