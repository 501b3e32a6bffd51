//! PUBACK, PUBREC, PUBREL and PUBCOMP of a receiver.

use crate::event::Event;
use crate::events::refused::Refused;
use crate::flows::contexts::Acknowledging;
use crate::ids::{ConnectionKey, SessionKey};
use crate::journal::keys::Key;
use crate::now::{Millis, Now};
use crate::session::Delivery;
use crate::session::acknowledge::{Answered, WrongType, put_ack};
use crate::session::packet_ids::State;
use crate::state::pub_acks::{ACK_LEN, Gathered};
use tidegate_mqtt::{Frame, PacketId, PacketType, PubAck, PubComp, PubRec, PubRel, ReasonCode, Version};

/// The packet identifier of an acknowledgement of two bytes, which nearly all are.
#[inline]
fn short_ack(frame: &Frame<'_>, first_byte: u8) -> Option<PacketId> {
    if frame.first_byte != first_byte {
        return None;
    }
    <[u8; 2]>::try_from(frame.body).ok().and_then(|id| PacketId::new(u16::from_be_bytes(id)))
}

/// The packet identifier of a whole PUBACK without a reason code.
#[inline]
fn packet_id_of_ack(ack: [u8; ACK_LEN]) -> Option<PacketId> {
    let [first_byte, len, high, low] = ack;
    let id = PacketId::new(u16::from_be_bytes([high, low]));
    id.filter(|_| first_byte == 0x40 && len == 2)
}

impl Acknowledging<'_> {
    /// Takes a PUBACK, and further ones without a reason code directly behind it in the input; returns the number of
    /// these. Each costs a fraction of the first one, and the queue of the session is looked at once for all of them.
    #[inline]
    pub(crate) fn handle_pub_acks(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
        behind: &[u8],
    ) -> Result<usize, Refused> {
        let (id, code) = if let Some(id) = short_ack(frame, 0x40) {
            (id, ReasonCode::Success)
        } else {
            let decode = if self.is_of_broker(key) { PubAck::decode_of_server } else { PubAck::decode };
            let ack = decode(version, frame.first_byte, frame.body)?;
            (ack.packet_id, ack.reason_code)
        };
        let Some(session) = self.state.connections.session_of(key) else { return Ok(0) };
        self.take_pub_ack(now.monotonic, session, id, code)?;
        let mut further = self.settle_brought_run(now.monotonic, session, behind.as_chunks().0);
        for ack in behind.as_chunks().0.iter().skip(further) {
            // Messages that a broker has answered may take space in its window: they are settled before the next answer.
            let id = packet_id_of_ack(*ack).filter(|_| !self.broker_links.settlement.has_undecided());
            let Some(id) = id else { break };
            self.state.counters.packets_in[PacketType::PubAck as usize] += 1;
            self.take_pub_ack(now.monotonic, session, id, ReasonCode::Success)?;
            further += 1;
        }
        self.state.refill(now.monotonic, self.layouts, session);
        Ok(further)
    }

    #[inline]
    fn take_pub_ack(
        &mut self,
        now: Millis,
        session: SessionKey,
        id: PacketId,
        code: ReasonCode,
    ) -> Result<(), Refused> {
        let finished = self.finish(now, session, id, State::AwaitPubAck, code);
        finished.map_err(|wrong| wrong.refuse("PUBACK", id))?;
        if !self.pings.is_empty() {
            self.note_pong(session, id.get());
        }
        Ok(())
    }

    /// Whether a connection is one to a broker. Brokers send codes that the standard has for other packets: Mosquitto
    /// PUBACK with 0x95, mochi PUBACK with 0x01.
    fn is_of_broker(&self, key: ConnectionKey) -> bool {
        self.broker_links.brokers.of_connection(key).is_some()
    }

    /// A receiver has answered a message. An answer of a broker of a fleet is decided behind the packet.
    #[inline]
    fn finish(
        &mut self,
        now: Millis,
        by: SessionKey,
        id: PacketId,
        state: State,
        code: ReasonCode,
    ) -> Result<(), WrongType> {
        let Some(session) = self.state.sessions.get_mut(by.0) else { return Ok(()) };
        if !code.is_error() && session.end_unkept(now, id, state) {
            return Ok(());
        }
        let Some(mut answered) = session.take_answered(&mut self.state.memory, now, id, state)? else {
            return Ok(());
        };
        if !answered.of_broker_link {
            self.state.conclude(by, code, answered);
        } else if !code.is_error() && self.settle_brought(by, &answered) {
            answered.in_flight.leave_memory(&mut self.state.memory);
        } else if !self.broker_links.note_answered(by, code, &mut answered.in_flight) {
            self.state.conclude(by, code, answered);
        }
        Ok(())
    }

    /// Settles a message that a broker has acknowledged and brought back, if nothing else depends on it.
    #[inline]
    fn settle_brought(&mut self, by: SessionKey, answered: &Answered) -> bool {
        let Some(mut settler) = self.broker_links.settler(by) else { return false };
        if !settler.has_brought(&answered.in_flight) {
            return false;
        }
        settler.note_settled(1);
        if let Some(stored) = answered.stored {
            self.state.journal.delete_entry(stored, answered.in_flight.numbers);
        }
        true
    }

    /// The same for the messages of the first of these PUBACKs, in fewer steps; returns how many of them are taken.
    #[inline]
    fn settle_brought_run(&mut self, now: Millis, by: SessionKey, acks: &[[u8; ACK_LEN]]) -> usize {
        let session = self.state.sessions.get_mut(by.0).filter(|session| session.is_broker_link());
        let Some(session) = session.filter(|_| self.pings.is_empty() && !acks.is_empty()) else { return 0 };
        if self.broker_links.settlement.has_undecided() {
            return 0;
        }
        let (stored, Some(flow)) = (session.stored, session.flow.as_mut()) else { return 0 };
        let Some(mut settler) = self.broker_links.settler(by) else { return 0 };
        let (mut count, mut bytes) = (0, 0);
        for ack in acks {
            let Some(id) = packet_id_of_ack(*ack) else { break };
            let Some((at, State::AwaitPubAck)) = flow.inflight.place_of(id) else { break };
            let is_sent = at < flow.inflight.len() - flow.to_resend;
            if !is_sent || !flow.inflight.at(at).is_some_and(|in_flight| settler.has_brought(in_flight)) {
                break;
            }
            let Some(in_flight) = flow.inflight.finish_at(at) else { break };
            bytes += in_flight.delivery.as_ref().map_or(0, Delivery::cost);
            if let Some(stored) = stored {
                self.state.journal.delete_entry(stored, in_flight.numbers);
            }
            in_flight.leave_memory(&mut self.state.memory);
            count += 1;
        }
        if count > 0 {
            settler.note_settled(count as u64);
            flow.inflight_bytes -= bytes;
            self.state.memory.held -= bytes;
            flow.waiting_since = now;
            self.state.counters.packets_in[PacketType::PubAck as usize] += count as u64;
        }
        count
    }

    #[inline]
    pub(crate) fn handle_pub_rec(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let (id, code) = if let Some(id) = short_ack(frame, 0x50) {
            (id, ReasonCode::Success)
        } else {
            let decode = if self.is_of_broker(key) { PubRec::decode_of_server } else { PubRec::decode };
            let ack = decode(version, frame.first_byte, frame.body)?;
            (ack.packet_id, ack.reason_code)
        };
        let Some(session) = self.state.connections.session_of(key) else { return Ok(()) };
        if code.is_error() {
            let finished = self.finish(now.monotonic, session, id, State::AwaitPubRec, code);
            finished.map_err(|wrong| wrong.refuse("PUBREC that refuses", id))?;
            self.state.refill(now.monotonic, self.layouts, session);
            return Ok(());
        }
        let mark = self.state.journal.mark();
        let freed = self.state.note_received(session, id).map_err(|wrong| wrong.refuse("PUBREC", id))?;
        let known = freed.is_some();
        let code = if known { ReasonCode::Success } else { ReasonCode::PacketIdentifierNotFound };
        let promises = self.state.journal.has_written_since(mark);
        // Behind a promise, PUBACKs without one would wait for its commit.
        Gathered(self.state).write();
        self.state.send_promise(key, PacketType::PubRel, promises, |out| put_ack(out, 0x62, id, code, version));
        if freed.is_some_and(|bytes| bytes > 0) {
            self.state.refill(now.monotonic, self.layouts, session);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn handle_pub_comp(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let id = if let Some(id) = short_ack(frame, 0x70) {
            id
        } else {
            let decode = if self.is_of_broker(key) { PubComp::decode_of_server } else { PubComp::decode };
            decode(version, frame.first_byte, frame.body)?.packet_id
        };
        let Some(session) = self.state.connections.session_of(key) else { return Ok(()) };
        let finished = self.finish(now.monotonic, session, id, State::AwaitPubComp, ReasonCode::Success);
        finished.map_err(|wrong| wrong.refuse("PUBCOMP", id))?;
        self.state.refill(now.monotonic, self.layouts, session);
        Ok(())
    }

    /// PUBREL from a publisher: the packet identifier is free again.
    #[inline]
    pub(crate) fn handle_pub_rel(
        &mut self,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let id = match short_ack(frame, 0x62) {
            Some(id) => id,
            None => PubRel::decode(version, frame.first_byte, frame.body)?.packet_id,
        };
        let Some(session) = self.state.connections.session_of(key) else { return Ok(()) };
        self.state.sessions.end_exchange(&mut self.state.exchanges, session, id);
        let Some(session) = self.state.sessions.get_mut(session.0) else { return Ok(()) };
        let known = session.flow.as_mut().is_some_and(|flow| {
            let known = flow.received.remove(id);
            flow.received_before = flow.received_before.min(flow.received.len());
            known
        });
        let code = if known { ReasonCode::Success } else { ReasonCode::PacketIdentifierNotFound };
        let stored = session.stored.filter(|_| known);
        if let Some(stored) = stored {
            self.state.journal.delete(Key::Received(stored, id));
        }
        // Behind a promise, PUBACKs without one would wait for its commit.
        Gathered(self.state).write();
        // Were the packet id still taken after a restart, the next message under it would be lost.
        self.state
            .send_promise(key, PacketType::PubComp, stored.is_some(), |out| put_ack(out, 0x70, id, code, version));
        Ok(())
    }
}

impl Acknowledging<'_> {
    /// A packet id was acknowledged; perhaps it was that of a ping.
    #[cold]
    pub(crate) fn note_pong(&mut self, session: SessionKey, packet_id: u16) {
        if self.pings.remove(&(session.0, packet_id)) == Some(true)
            && let Some(session) = self.state.sessions.get(session.0)
        {
            let (tenant, client_id) = (session.tenant, session.client_id.to_string());
            self.state.events.push_back(Event::Pong { tenant, client_id });
        }
    }
}
