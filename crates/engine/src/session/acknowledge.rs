//! Acknowledgements of subscribers, and packets that are sent again on a resumed session.

use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::journal::keys::StoredSession;
use crate::memory::MemoryUse;
use crate::now::Millis;
use crate::session::packet_ids::State;
use crate::session::{Delivery, Flow, InFlight, Session};
use tidegate_mqtt::{PacketId, ReasonCode, Version};

/// An acknowledgement is of another type than the message in flight under its packet identifier awaits.
pub(crate) struct WrongType {
    pub(crate) awaited: State,
}

impl WrongType {
    /// The fault that ends the connection: the receiver answers with the packet that the message's QoS asks for
    /// ([MQTT-4.3.2-4], [MQTT-4.3.3-8], [MQTT-4.3.3-11]).
    #[cold]
    pub(crate) fn refuse(self, packet: &str, id: PacketId) -> Refused {
        let awaited = match self.awaited {
            State::AwaitPubAck => "PUBACK",
            State::AwaitPubRec => "PUBREC",
            State::AwaitPubComp => "PUBCOMP",
        };
        let detail = format!("{packet} for packet identifier {id}, whose message awaits {awaited}");
        Refused::new(Reason::ProtocolError, detail)
    }
}

/// A message with the answer of its receiver.
pub(crate) struct Answered {
    pub(crate) stored: Option<StoredSession>,
    pub(crate) of_broker_link: bool,
    pub(crate) in_flight: InFlight,
}

impl InFlight {
    /// Its exchange is finished: another message may use its memory.
    #[inline]
    pub(crate) fn leave_memory(self, memory: &mut MemoryUse) {
        if let Some(delivery) = self.delivery {
            memory.reuse(delivery.message);
        }
    }
}

/// PUBREL or PUBCOMP: two bytes where all is well or the version knows no codes.
pub(crate) fn put_ack(out: &mut Vec<u8>, first_byte: u8, id: PacketId, code: ReasonCode, version: Version) -> bool {
    let id = id.get().to_be_bytes();
    if code == ReasonCode::Success || !version.is_v5() {
        out.extend_from_slice(&[first_byte, 2, id[0], id[1]]);
    } else {
        out.extend_from_slice(&[first_byte, 3, id[0], id[1], code.byte()]);
    }
    true
}

impl Flow {
    /// Ends the flight of a message that is not kept, as in a session that ends with its connection; returns
    /// whether it was one. Most acknowledgements are for such messages.
    #[inline]
    fn end_unkept(&mut self, now: Millis, id: PacketId, state: State) -> bool {
        let is_unkept = |(at, awaited): &(usize, State)| {
            *awaited == state && self.inflight.at(*at).is_some_and(|sent| sent.delivery.is_none())
        };
        let Some((at, _)) = self.inflight.place_of(id).filter(is_unkept) else { return false };
        self.inflight.finish_at(at);
        self.waiting_since = now;
        true
    }
}

impl Session {
    /// Ends the flight of a message that is neither kept nor stored, if it is one and was sent on this connection.
    #[inline]
    pub(crate) fn end_unkept(&mut self, now: Millis, id: PacketId, state: State) -> bool {
        let may_be = self.stored.is_none() && !self.is_broker_link();
        let flow = self.flow.as_mut().filter(|flow| may_be && flow.to_resend == 0);
        flow.is_some_and(|flow| flow.end_unkept(now, id, state))
    }
}

impl Session {
    /// Ends the flight of a message that its receiver has answered and returns it. `None` for a packet identifier that is
    /// not in flight: a client may have answered twice around a reconnect.
    ///
    /// # Errors
    ///
    /// When the message in flight awaits another packet and its receiver is no broker of a fleet.
    #[inline]
    pub(crate) fn take_answered(
        &mut self,
        memory: &mut MemoryUse,
        now: Millis,
        id: PacketId,
        state: State,
    ) -> Result<Option<Answered>, WrongType> {
        let (stored, of_broker_link) = (self.stored, self.is_broker_link());
        let Some(flow) = self.flow.as_mut() else { return Ok(None) };
        // A broker that does not know QoS 2 may answer it as QoS 1: then it has the message.
        let downgraded = |sent: State| of_broker_link && state == State::AwaitPubAck && sent == State::AwaitPubRec;
        let Some((at, awaited)) = flow.inflight.place_of(id) else { return Ok(None) };
        if awaited != state && !downgraded(awaited) {
            return if of_broker_link { Ok(None) } else { Err(WrongType { awaited }) };
        }
        if at >= flow.inflight.len() - flow.to_resend {
            // The client remembers it from before: it need not be sent again.
            flow.to_resend -= 1;
        }
        let Some(in_flight) = flow.inflight.finish_at(at) else { return Ok(None) };
        let kept = in_flight.delivery.as_ref().map_or(0, Delivery::cost);
        flow.inflight_bytes -= kept;
        memory.held -= kept;
        flow.waiting_since = now;
        Ok(Some(Answered { stored, of_broker_link, in_flight }))
    }
}
