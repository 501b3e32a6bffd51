//! A packet is answered when all that it promises is confirmed.

use crate::connection::{Answer, Outcome, PendingAck, SubAckAnswer, UnsubAckAnswer};
use crate::events::reason::Reason;
use crate::flows::contexts::Answering;
use crate::flows::contexts::fetching;
use crate::ids::{ConnectionKey, PRINCIPAL_LISTENER, ShardId};
use crate::link::envelope::OUTGOING_INDEX;
use crate::link::envelope::Ticket;
use crate::link::promised::Promised;
use crate::link::record::Record;
use crate::now::Now;
use crate::retained::strays::STRAY_INDEX;
use crate::session::Membership;
use crate::session::refused::RefusedMessage;
use crate::state::pub_acks::Gathered;
use std::rc::Rc;
use tidegate_mqtt::{PacketId, PacketType, PubAck, PubRec, ReasonCode, SubAck, UnsubAck, Version};

/// A PUBACK of success, which nearly all are.
#[inline]
fn put_plain_pub_ack(packet_id: PacketId, out: &mut Vec<u8>) -> bool {
    let id = packet_id.get().to_be_bytes();
    out.extend_from_slice(&[0x40, 2, id[0], id[1]]);
    true
}

impl Answering<'_> {
    /// Answers a packet when `waits` confirmations have come. The answer leaves at once if `waits` is 0 and no earlier
    /// answer is pending. `promises` is true if the answer promises a change that was written into the journal.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        now: Now,
        key: ConnectionKey,
        packet_id: PacketId,
        answer: Answer,
        waits: u32,
        promises: bool,
    ) {
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        let is_first = connection.extra.as_ref().is_none_or(|extra| extra.acks.is_empty());
        if waits == 0 && is_first {
            let is_plain = matches!(answer, Answer::PubAck(Ok(ReasonCode::Success)));
            let is_plain = is_plain && connection.listener != PRINCIPAL_LISTENER && !self.broker_links.is_confirming();
            if !is_plain || !self.state.pub_acks.gather(key, packet_id, promises) {
                self.send_answer(now, key, PendingAck { waits, packet_id, answer, promises });
            }
            return;
        }
        let ack = PendingAck { waits, packet_id, answer, promises };
        connection.extra_mut().acks.push(ack);
        if waits > 0 {
            self.state.journal.note_crossing();
        }
    }

    /// Counts one confirmation for a ticket of this shard. `promises` is true if the confirming shard has written a
    /// change into its journal; its batch is before the batch that this shard gathers.
    pub(crate) fn confirm(&mut self, now: Now, ticket: Ticket, refused: Option<Reason>, promises: bool) {
        let key = ticket.connection;
        if key.index == OUTGOING_INDEX {
            return self.peers.outgoing.confirm_outgoing(self.state, ticket);
        }
        if key.index == STRAY_INDEX {
            return self.retaining.store.confirm_stray(self.state, self.links, ticket);
        }
        self.state.journal.note_confirmed(promises);
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        let Some(extra) = connection.extra.as_mut() else { return };
        extra.acks.confirm(ticket.sequence, refused, promises);
        while let Some(ack) = self.state.connections.pop_ready_answer(key) {
            let rare = matches!(ack.answer, Answer::SubAck(_) | Answer::UnsubAck(_));
            self.send_answer(now, key, ack);
            if rare && let Some(connection) = self.state.connections.get_mut(key) {
                connection.settle();
            }
        }
    }

    /// Confirms a ticket to the shard that holds it.
    pub(crate) fn confirm_to(
        &mut self,
        now: Now,
        shard: ShardId,
        ticket: Ticket,
        refused: Option<Reason>,
        promises: bool,
    ) {
        if shard == self.links.place.shard {
            self.confirm(now, ticket, refused, promises);
        } else {
            if promises && self.links.is_foreign(shard) {
                let batch = self.state.journal.promised_batch();
                return self.links.answer(shard, Promised::Confirm { ticket, refused }, batch);
            }
            self.links.send_now(shard, Record::Confirm { ticket, refused, promises });
        }
    }

    #[inline]
    fn send_answer(&mut self, now: Now, key: ConnectionKey, ack: PendingAck) {
        let PendingAck { packet_id, answer, promises, .. } = ack;
        // Acknowledgements have the order of the messages.
        Gathered(self.state).write();
        if self.broker_links.is_confirming() {
            self.broker_links.settlement.note_confirmed(
                self.state,
                self.layouts,
                &mut self.broker_links.brokers,
                key,
                packet_id,
            );
        }
        match answer {
            Answer::PubAck(outcome) => self.send_pub_ack(key, packet_id, outcome, promises),
            Answer::PubRec(outcome, digest) => {
                if let Err(reason) = outcome {
                    let refused = digest.map(|digest| RefusedMessage { digest, reason });
                    self.forget_received(key, packet_id, refused);
                } else if let Some(session) = self.state.connections.session_of(key) {
                    self.state.sessions.note_exchange_answered(&self.state.transfers, session, packet_id);
                }
                self.send_pub_rec(key, packet_id, outcome, promises);
            }
            Answer::SubAck(answer) => {
                self.confirm_memberships(key, &answer.joined);
                if self.send_sub_ack(key, packet_id, &answer, promises) {
                    fetching!(self).start_fetches(now, key, answer.fetches);
                }
            }
            Answer::UnsubAck(answer) => {
                self.send_unsub_ack(key, packet_id, &answer, promises);
            }
        }
    }

    /// The homes of groups have confirmed memberships. Only orchestrators ask later whether they have.
    fn confirm_memberships(&mut self, key: ConnectionKey, joined: &[Rc<Membership>]) {
        let session = self.state.connections.session_of(key).filter(|_| self.links.roster.is_of_orchestrators());
        let Some(session) = session else { return };
        for membership in joined {
            membership.confirm(&mut self.state.sessions, &mut self.state.journal, session);
        }
    }

    #[inline]
    fn send_pub_ack(&mut self, key: ConnectionKey, packet_id: PacketId, outcome: Outcome, promises: bool) {
        let Some(connection) = self.state.connections.get(key) else { return };
        if connection.listener == PRINCIPAL_LISTENER {
            return self.answer_principal(key, outcome, promises);
        }
        let (version, max) = (connection.version, connection.max_packet_out);
        // MQTT 3 has no code for it, and PUBACK would say that the message is kept. The client sends it again.
        if outcome == Err(Reason::BlockedTooLong) && !version.is_v5() {
            return self.state.to_close.push((key, Reason::BlockedTooLong, None));
        }
        let explains = version.is_v5() && connection.problem_information;
        let explained = self.explained(key, packet_id, outcome);
        self.state.send_promise(key, PacketType::PubAck, promises, |out| match outcome {
            Ok(ReasonCode::Success) => put_plain_pub_ack(packet_id, out),
            Ok(code) => PubAck::new(packet_id, code).encode(version, out).is_ok(),
            Err(reason) => {
                let text = Some(explained.as_deref().unwrap_or(reason.text())).filter(|_| explains);
                let ack = PubAck { reason_string: text, ..PubAck::new(packet_id, reason.code()) };
                // A limit that not even the code fits into is no reason to leave the packet identifier taken.
                ack.encode_within(version, max, out).is_ok()
                    || PubAck::new(packet_id, reason.code()).encode(version, out).is_ok()
            }
        });
    }

    #[inline]
    fn send_pub_rec(&mut self, key: ConnectionKey, packet_id: PacketId, outcome: Outcome, promises: bool) {
        let Some(connection) = self.state.connections.get(key) else { return };
        if connection.listener == PRINCIPAL_LISTENER {
            return self.answer_principal(key, outcome, promises);
        }
        let (version, max) = (connection.version, connection.max_packet_out);
        let explains = version.is_v5() && connection.problem_information;
        let explained = self.explained(key, packet_id, outcome);
        self.state.send_promise(key, PacketType::PubRec, promises, |out| match outcome {
            Ok(ReasonCode::Success) => {
                let id = packet_id.get().to_be_bytes();
                out.extend_from_slice(&[0x50, 2, id[0], id[1]]);
                true
            }
            Ok(code) => PubRec::new(packet_id, code).encode(version, out).is_ok(),
            Err(reason) => {
                let text = Some(explained.as_deref().unwrap_or(reason.text())).filter(|_| explains);
                let ack = PubRec { reason_string: text, ..PubRec::new(packet_id, reason.code()) };
                // A limit that not even the code fits into is no reason to leave the packet identifier taken.
                ack.encode_within(version, max, out).is_ok()
                    || PubRec::new(packet_id, reason.code()).encode(version, out).is_ok()
            }
        });
    }

    /// Why a payload is refused, if a pipeline says more than the reason.
    #[inline]
    fn explained(&mut self, key: ConnectionKey, packet_id: PacketId, outcome: Outcome) -> Option<String> {
        if outcome != Err(Reason::PayloadRefused) {
            return None;
        }
        let connection = self.state.connections.get_mut(key)?;
        let text = connection.extra.as_mut()?.acks.explained.take(packet_id);
        connection.settle();
        text
    }

    fn send_sub_ack(&mut self, key: ConnectionKey, packet_id: PacketId, answer: &SubAckAnswer, promises: bool) -> bool {
        let ack = SubAck { reason_string: answer.refusals.text(), ..SubAck::new(packet_id, &answer.codes) };
        self.send_codes(key, PacketType::SubAck, promises, |version, max, out| {
            ack.encode_within(version, max, out).is_ok()
        })
    }

    fn send_unsub_ack(
        &mut self,
        key: ConnectionKey,
        packet_id: PacketId,
        answer: &UnsubAckAnswer,
        promises: bool,
    ) -> bool {
        let ack = UnsubAck { reason_string: answer.refusals.text(), ..UnsubAck::new(packet_id, &answer.codes) };
        self.send_codes(key, PacketType::UnsubAck, promises, |version, max, out| {
            ack.encode_within(version, max, out).is_ok()
        })
    }

    /// Sends an answer of as many codes as the client asked for. If that is more than it takes in one packet, it cannot
    /// be answered at all, and would wait for ever ([MQTT-3.1.2-24]).
    fn send_codes(
        &mut self,
        key: ConnectionKey,
        packet_type: PacketType,
        promises: bool,
        encode: impl FnOnce(Version, u32, &mut Vec<u8>) -> bool,
    ) -> bool {
        let Some(connection) = self.state.connections.get(key) else { return false };
        let (version, max) = (connection.version, connection.max_packet_out);
        let mut fits = false;
        self.state.send_promise(key, packet_type, promises, |out| {
            fits = encode(version, max, out);
            fits
        });
        if !fits {
            let detail = format!("{packet_type} would be larger than the client's maximum packet size");
            self.state.to_close.push((key, Reason::PacketTooLarge, Some(detail)));
        }
        fits
    }
}
