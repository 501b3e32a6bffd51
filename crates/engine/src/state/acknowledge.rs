//! Acknowledgements of messages by receivers, and retransmission.

use crate::events::outcome::DeliveryOutcome;
use crate::events::reason::Reason;
use crate::ids::SessionKey;
use crate::now::Millis;
use crate::publish::layouts::{Layouts, Shape};
use crate::session::acknowledge::{Answered, WrongType, put_ack};
use crate::session::packet_ids::State;
use crate::session::{Delivery, InFlight};
use crate::state::{ShardState, open_output};
use std::rc::Rc;
use tidegate_mqtt::{PacketId, PacketType, QoS, ReasonCode, Version};

/// The packet to send for one message in flight after a session was resumed.
enum Again {
    Publish(Delivery, QoS),
    PubRel,
}

impl ShardState {
    /// A receiver has a QoS 2 message; returns the bytes that need not be kept any more, `None` if no message is in
    /// flight under this packet identifier. A PUBREC that is repeated gets its PUBREL again.
    ///
    /// # Errors
    ///
    /// When the message in flight has QoS 1 and its receiver is no broker of a fleet.
    #[inline]
    pub(crate) fn note_received(&mut self, by: SessionKey, id: PacketId) -> Result<Option<u64>, WrongType> {
        let Some(session) = self.sessions.get_mut(by.0) else { return Ok(None) };
        let (stored, of_broker_link) = (session.stored, session.is_broker_link());
        let Some(flow) = session.flow.as_mut() else { return Ok(None) };
        let order = flow.number();
        let Some(entry) = flow.inflight.get_mut(id) else { return Ok(None) };
        if entry.state == State::AwaitPubAck {
            // A broker that mixes up packets is borne: to lose its connection would cost others their messages.
            return if of_broker_link { Ok(None) } else { Err(WrongType { awaited: entry.state }) };
        }
        let news = entry.state != State::AwaitPubComp;
        entry.state = State::AwaitPubComp;
        // The remaining packets need no message any more. A broker's message is kept until it has returned.
        let dropped = if of_broker_link { None } else { entry.item.delivery.take() };
        let kept = dropped.as_ref().map_or(0, Delivery::cost);
        if let Some(stored) = stored.filter(|_| news && entry.item.numbers.entry != 0) {
            entry.item.numbers.separate = true;
            self.journal.put_sent(stored, entry.item.numbers.entry, id, State::AwaitPubComp, order);
        }
        flow.inflight_bytes -= kept;
        self.memory.held -= kept;
        if let Some(delivery) = dropped {
            self.reports().report_outcome_of(by, &delivery.message, DeliveryOutcome::Delivered);
        }
        Ok(Some(kept))
    }

    /// Ends a message that its receiver has answered: deletes it from the store and reports its outcome.
    #[inline]
    pub(crate) fn conclude(&mut self, by: SessionKey, code: ReasonCode, answered: Answered) {
        let Answered { stored, in_flight: InFlight { delivery, numbers }, .. } = answered;
        if let Some(stored) = stored {
            self.journal.delete_entry(stored, numbers);
        }
        if let Some(delivery) = delivery.as_ref().filter(|_| self.has_addresses && !code.is_error()) {
            self.reports().report_outcome_of(by, &delivery.message, DeliveryOutcome::Delivered);
        }
        if code.is_error() {
            match &delivery {
                Some(delivery) => self.reports().discard_for(Reason::RefusedByReceiver, by, &delivery.message),
                None => self.counters.drop_message(Reason::RefusedByReceiver),
            }
        }
        if let Some(delivery) = delivery {
            self.memory.reuse(delivery.message);
        }
    }

    /// A client is back: a refill sends the messages in flight again, in their order, and then the queued ones.
    pub(crate) fn begin_resending(&mut self, now: Millis, to: SessionKey) {
        if let Some(flow) = self.sessions.get_mut(to.0).and_then(|session| session.flow.as_mut()) {
            flow.begin_resending(now);
        }
    }

    /// Sends the next message in flight again, if any is left and window and output have room; returns whether it did.
    pub(crate) fn resend_next(&mut self, now: Millis, layouts: &mut Layouts, to: SessionKey) -> bool {
        let Some(session) = self.sessions.get_mut(to.0) else { return false };
        let window = usize::from(session.receive_maximum);
        let Some(key) = session.connection else { return false };
        let Some(connection) = self.connections.get(key) else { return false };
        let room = connection.output_len() <= self.high_water / 2;
        // An outcome since the connection began, such as the receipt by another broker, may be on its way to the store.
        let promises = session.is_broker_link() && session.stored.is_some();
        let Some(flow) = session.flow.as_mut() else { return false };
        let sent = flow.inflight.len() - flow.to_resend;
        if flow.to_resend == 0 || sent >= window || !room {
            return false;
        }
        flow.to_resend -= 1;
        let Some((id, again)) = flow.inflight.iter().nth(sent).map(|entry| {
            let again = match (&entry.item.delivery, entry.state) {
                // A broker may have been given less than the message's own QoS.
                (Some(delivery), State::AwaitPubAck) => Again::Publish(delivery.clone(), QoS::AtLeastOnce),
                (Some(delivery), State::AwaitPubRec) => Again::Publish(delivery.clone(), QoS::ExactlyOnce),
                _ => Again::PubRel,
            };
            (entry.id(), again)
        }) else {
            return false;
        };
        match again {
            Again::PubRel => {
                let put = |out: &mut Vec<u8>| put_ack(out, 0x62, id, ReasonCode::Success, Version::V311);
                self.send_promise(key, PacketType::PubRel, promises, put);
            }
            Again::Publish(delivery, qos) => self.resend(now, layouts, to, id, (&delivery, qos), promises),
        }
        self.counters.redelivered += 1;
        true
    }

    fn resend(
        &mut self,
        now: Millis,
        layouts: &mut Layouts,
        to: SessionKey,
        id: PacketId,
        (delivery, qos): (&Delivery, QoS),
        promises: bool,
    ) {
        let Some(key) = self.sessions.get(to.0).and_then(|session| session.connection) else { return };
        let Some(connection) = self.connections.get_mut(key) else { return };
        let message = Rc::clone(&delivery.message);
        let mut publication = message.publication();
        layouts.begin(1);
        let shape = Shape {
            version: connection.version,
            qos,
            retain: delivery.retain && connection.takes_retain(),
            dup: true,
            packet_id: Some(id),
            subscription_ids: delivery.ids.as_slice(),
            alias: None,
            is_for_hub: connection.is_of_hub(),
        };
        if layouts.packet_len(&mut publication, &shape, now) > connection.max_packet_out as usize {
            // The client returned with a smaller limit: the message counts as sent ([MQTT-3.1.2-25]).
            self.reports().discard_for(Reason::SubscriberPacketLimit, to, &message);
            let Some(session) = self.sessions.get_mut(to.0) else { return };
            let stored = session.stored;
            if let Some(flow) = session.flow.as_mut() {
                let finished = flow.inflight.finish(id).unwrap_or_default();
                let kept = finished.delivery.map_or(0, |delivery| delivery.cost());
                flow.inflight_bytes -= kept;
                self.memory.held -= kept;
                if let Some(stored) = stored {
                    self.journal.delete_entry(stored, finished.numbers);
                }
            }
            return;
        }
        let payer = connection.payer;
        let output = open_output(connection, key, &mut self.to_write, &mut self.pool);
        let at = output.buffer().len();
        layouts.append(&mut publication, &shape, now, output);
        if promises
            && qos == QoS::ExactlyOnce
            && let Some(batch) = self.journal.hold(key)
        {
            output.hold(at, batch);
        }
        self.counters.packets_out[PacketType::Publish as usize] += 1;
        self.counters.messages_out[qos as usize] += 1;
        self.counters.payload_bytes_out += publication.payload.len() as u64;
        self.meters.of(payer).messages_out += 1;
    }
}
