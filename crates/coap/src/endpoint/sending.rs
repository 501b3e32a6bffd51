//! Answers and confirmable messages on their way to clients [RFC 7252, 4].

use super::peer::Progress;
use super::wire::Wire;
use super::{Endpoint, JobId, PeerId, Timer};
use crate::answer::Answer;
use crate::limits::{ACKNOWLEDGE_AFTER, MAX_RETRANSMIT};
use crate::message::{Kind, Message};

impl Endpoint {
    /// Acknowledges a request whose answer takes long.
    pub(super) fn acknowledge(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.reply.acknowledged = true;
        let (peer, message) = (job.peer, job.reply.id);
        if let Some(known) = self.wire.peers.get_mut(&peer) {
            known.remember(self.wire.now, message, Progress::Acknowledged);
        }
        self.wire.send(peer, Message::empty(Kind::Acknowledgement, message).encode());
    }

    /// Answers a request, which is over with it.
    pub(super) fn answer(&mut self, id: JobId, answer: &Answer) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.wire.timers.remove(&(job.begun + ACKNOWLEDGE_AFTER, Timer::Acknowledge(id)));
        if let Some(session) = self.sessions.get_mut(&job.session) {
            session.jobs -= 1;
            session.used = self.wire.now;
        }
        if let Some(known) = self.wire.peers.get_mut(&job.peer) {
            known.jobs -= 1;
        }
        self.wire.reply(job.peer, job.reply, answer);
    }

    /// A client has acknowledged a message.
    pub(super) fn acknowledged(&mut self, peer: PeerId, id: u16) {
        if let Some(sent) = self.wire.take_sent(peer, id) {
            self.notified(peer, &sent);
        }
    }
}

impl Wire {
    /// Sends a confirmable message again that was not acknowledged in time. Returns whether the last repetition of a
    /// notification was not acknowledged: the observer is lost.
    pub(super) fn send_again(&mut self, peer: PeerId, id: u16) -> bool {
        let now = self.now;
        let Some(known) = self.peers.get_mut(&peer) else { return false };
        let Some(sending) = known.sending.get_mut(&id).filter(|sending| sending.due <= now) else { return false };
        if sending.again == MAX_RETRANSMIT {
            let notifies = sending.notifies.is_some();
            known.sending.remove(&id);
            self.counters.unacknowledged += 1;
            return notifies;
        }
        sending.again += 1;
        sending.wait *= 2;
        sending.due = now + sending.wait;
        let (due, datagram) = (sending.due, sending.datagram.clone());
        self.timers.insert((due, Timer::Resend(peer, id)));
        self.counters.repeated += 1;
        self.send(peer, datagram);
        false
    }
}
