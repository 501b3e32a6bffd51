//! Answers and confirmable messages on their way to clients [RFC 7252, 4].

use super::peer::{Progress, Sending};
use super::{Action, Endpoint, JobId, PeerId, Reply, Timer};
use crate::answer::Answer;
use crate::limits::{ACK_TIMEOUT, ACKNOWLEDGE_AFTER, MAX_RETRANSMIT};
use crate::message::{Code, Kind, Message};

impl Endpoint {
    /// Sends a datagram, if the client may get as many bytes.
    pub(super) fn send(&mut self, peer: PeerId, datagram: Vec<u8>) {
        if self.peers.get_mut(&peer).is_some_and(|known| known.spend(datagram.len())) {
            self.actions.push_back(Action::Send { peer, datagram });
        }
    }

    /// Says that a message was not expected.
    pub(super) fn reset(&mut self, peer: PeerId, id: u16) {
        self.send(peer, Message::empty(Kind::Reset, id).encode());
    }

    /// Acknowledges a request whose answer takes long.
    pub(super) fn acknowledge(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.reply.acknowledged = true;
        let (peer, message) = (job.peer, job.reply.id);
        if let Some(known) = self.peers.get_mut(&peer) {
            known.remember(self.now, message, Progress::Acknowledged);
        }
        self.send(peer, Message::empty(Kind::Acknowledgement, message).encode());
    }

    /// Answers a request, which is over with it.
    pub(super) fn answer(&mut self, id: JobId, answer: &Answer) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.timers.remove(&(job.begun + ACKNOWLEDGE_AFTER, Timer::Acknowledge(id)));
        if let Some(session) = self.sessions.get_mut(&job.session) {
            session.jobs -= 1;
            session.used = self.now;
        }
        if let Some(known) = self.peers.get_mut(&job.peer) {
            known.jobs -= 1;
        }
        self.reply(job.peer, job.reply, answer);
    }

    /// Sends the answer to a request.
    pub(super) fn reply(&mut self, peer: PeerId, reply: Reply, answer: &Answer) {
        let challenge = self.challenge(peer);
        let now = self.now;
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let (kind, id) = match (reply.kind, reply.acknowledged) {
            (Kind::Confirmable, false) => (Kind::Acknowledgement, reply.id),
            (Kind::Confirmable, true) => (Kind::Confirmable, known.take_id()),
            _ => (Kind::NonConfirmable, known.take_id()),
        };
        let room = known.room();
        let mut message = answer.clone().message(kind, id, reply.token);
        if answer.is_refusal() {
            // The text is cut to the bytes that a client without a proven address may get.
            let beyond = message.encode().len().saturating_sub(room);
            let mut left = message.payload.len().saturating_sub(beyond);
            while left > 0 && std::str::from_utf8(message.payload.get(..left).unwrap_or_default()).is_err() {
                left -= 1;
            }
            message.payload.truncate(left);
        } else if message.encode().len() > room && reply.method == Code::GET {
            message = challenge.message(kind, id, reply.token);
        }
        let datagram = message.encode();
        let state = match kind {
            Kind::Acknowledgement if reply.method == Code::GET => Progress::Repeatable,
            Kind::Acknowledgement => Progress::Answered(datagram.clone()),
            Kind::Confirmable => Progress::Acknowledged,
            _ => Progress::Silent,
        };
        known.remember(now, reply.id, state);
        if kind == Kind::Confirmable {
            self.send_confirmable(peer, id, datagram, None);
        } else {
            self.send(peer, datagram);
        }
    }

    /// Sends a message until it is acknowledged.
    pub(super) fn send_confirmable(
        &mut self,
        peer: PeerId,
        id: u16,
        datagram: Vec<u8>,
        notifies: Option<(super::observing::ObservationId, Option<u64>)>,
    ) {
        let wait = ACK_TIMEOUT + self.draw() % (ACK_TIMEOUT / 2);
        let due = self.now + wait;
        if let Some(known) = self.peers.get_mut(&peer) {
            known.sending.insert(id, Sending { datagram: datagram.clone(), due, wait, again: 0, notifies });
            self.timers.insert((due, Timer::Resend(peer, id)));
        }
        self.send(peer, datagram);
    }

    /// A confirmable message was not acknowledged in time.
    pub(super) fn send_again(&mut self, peer: PeerId, id: u16) {
        let now = self.now;
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let Some(sending) = known.sending.get_mut(&id).filter(|sending| sending.due <= now) else { return };
        if sending.again == MAX_RETRANSMIT {
            let notifies = sending.notifies.is_some();
            known.sending.remove(&id);
            if notifies {
                self.lose_observer(peer);
            }
            return;
        }
        sending.again += 1;
        sending.wait *= 2;
        sending.due = now + sending.wait;
        let (due, datagram) = (sending.due, sending.datagram.clone());
        self.timers.insert((due, Timer::Resend(peer, id)));
        self.send(peer, datagram);
    }

    /// A client has acknowledged a message.
    pub(super) fn acknowledged(&mut self, peer: PeerId, id: u16) {
        if let Some(sent) = self.take_sent(peer, id) {
            self.notified(peer, &sent);
        }
    }

    /// A client has refused a message.
    pub(super) fn refused(&mut self, peer: PeerId, id: u16) {
        self.stop_observing_by(peer, id);
        if let Some(sent) = self.take_sent(peer, id) {
            self.notified(peer, &sent);
        }
    }

    fn take_sent(&mut self, peer: PeerId, id: u16) -> Option<Sending> {
        let sent = self.peers.get_mut(&peer)?.sending.remove(&id)?;
        self.timers.remove(&(sent.due, Timer::Resend(peer, id)));
        Some(sent)
    }
}
