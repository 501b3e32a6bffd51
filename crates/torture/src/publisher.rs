//! A publisher: keeps unacknowledged messages and sends them again, with their packet ids, on the next connection
//! (section 4.4).

use std::collections::VecDeque;

use tidegate_mqtt::{Packet, PacketId, PubAck, PubRel, Publish, PublishProperties, QoS, ReasonCode, TopicName};

use crate::application::Asks;
use crate::failure::Failure;
use crate::ledger::{Expectation, Ledger, Outgoing, RetainedOperation};
use crate::rng::Rng;
use crate::session::Session;
use crate::wire::{Delivery, Incoming};
use crate::workload::MessageId;
use crate::workload::{self, Kind};

/// Unacknowledged messages at once.
const WINDOW: usize = 20;
/// Operations on one retained topic that may be under way at once.
const RETAINED_WINDOW: usize = 3;
/// How many of 100 messages are retained.
const RETAINED_PERCENT: u64 = 10;
/// How many of 100 retained messages remove the value.
const REMOVE_PERCENT: u64 = 15;
/// How many of 100 other messages are for subscriptions that come and go.
const CHURNING_PERCENT: u64 = 30;

/// How many of 100 messages that are neither are for a group, where there is one.
const SHARED_PERCENT: u64 = 25;

/// A message under way.
#[derive(Debug)]
struct Flight {
    id: PacketId,
    message: MessageId,
    topic: String,
    payload: Vec<u8>,
    qos: QoS,
    retain: bool,
    asks: Option<Asks>,
    /// PUBREC has come, so PUBREL is repeated.
    received: bool,
}

/// A client that publishes.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) session: Session,
    index: u16,
    next_id: PacketId,
    next_number: u32,
    /// In the order in which they were sent first.
    flights: VecDeque<Flight>,
    /// Publishes for a group, too.
    has_group: bool,
    /// Publishes to mobile nodes alone.
    pub(crate) is_application: bool,
    rng: Rng,
}

/// The next message to publish.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) topic: String,
    retained: Option<(usize, RetainedOperation)>,
    /// Set for a message to a mobile node.
    pub(crate) asks: Option<Asks>,
}

impl Publisher {
    /// A publisher without anything under way.
    pub(crate) fn new(session: Session, index: u16, has_group: bool, rng: Rng) -> Self {
        let (next_id, flights) = (PacketId::MIN, VecDeque::new());
        Self { session, index, next_id, next_number: 0, flights, has_group, is_application: false, rng }
    }

    /// Messages that have not been acknowledged to the end.
    pub(crate) fn under_way(&self) -> usize {
        self.flights.len()
    }

    /// The messages that the broker has not acknowledged on a live connection.
    pub(crate) fn unanswered(&self) -> Option<String> {
        if !self.session.is_open() {
            return Some("no CONNACK".to_owned());
        }
        let oldest = self.flights.front()?;
        let due = if oldest.received { "PUBCOMP" } else { "PUBACK or PUBREC" };
        let count = self.flights.len();
        Some(format!("no {due} for packet id {} on {}, {count} messages wait", oldest.id, oldest.topic))
    }

    /// The next publication; `None` when nothing may be sent now.
    pub(crate) fn plan(&mut self, ledger: &Ledger) -> Option<Plan> {
        let window = WINDOW.min(usize::from(self.session.receive_maximum));
        if !self.session.is_open() || self.flights.len() >= window {
            return None;
        }
        if self.is_application {
            let (topic, asks) = Asks::draw(&mut self.rng);
            return Some(Plan { topic, retained: None, asks: Some(asks) });
        }
        let number = self.rng.index(workload::TOPICS);
        let retained = workload::retained_index(self.index, number);
        if self.rng.chance(RETAINED_PERCENT) && ledger.unconfirmed(retained) < RETAINED_WINDOW {
            let remove = self.rng.chance(REMOVE_PERCENT);
            let operation = if remove { RetainedOperation::Remove } else { RetainedOperation::Set };
            let topic = workload::topic(Kind::Retained, self.index, number);
            return Some(Plan { topic, retained: Some((retained, operation)), asks: None });
        }
        let kind = if self.rng.chance(CHURNING_PERCENT) {
            Kind::Churning
        } else if self.has_group && self.rng.chance(SHARED_PERCENT) {
            Kind::Shared
        } else {
            Kind::Lasting
        };
        Some(Plan { topic: workload::topic(kind, self.index, number), retained: None, asks: None })
    }

    /// Publishes as planned.
    pub(crate) fn publish(
        &mut self,
        plan: Plan,
        expected: Vec<Expectation>,
        ledger: &mut Ledger,
    ) -> Result<(), Failure> {
        let message = MessageId { publisher: self.index, number: self.next_number };
        self.next_number += 1;
        let qos = workload::qos_of(&plan.topic);
        let payload = match plan.retained {
            Some((_, RetainedOperation::Remove)) => Vec::new(),
            _ => workload::payload(message, &mut self.rng),
        };
        let retain = plan.retained.is_some();
        ledger.sent(Outgoing { id: message, topic: &plan.topic, qos, retained: plan.retained, expected });
        if let Some(asks) = &plan.asks {
            asks.note(message, &plan.topic, ledger);
        }
        let id = self.free_id();
        let Plan { topic, asks, .. } = plan;
        let flight = Flight { id, message, topic, payload, qos, retain, asks, received: false };
        flight.send(&mut self.session, false)?;
        self.flights.push_back(flight);
        Ok(())
    }

    fn free_id(&mut self) -> PacketId {
        while self.flights.iter().any(|flight| flight.id == self.next_id) {
            self.next_id = self.next_id.next();
        }
        let id = self.next_id;
        self.next_id = id.next();
        id
    }

    /// The connection is open: open messages are sent again, in their first order ([MQTT-4.4.0-1], [MQTT-4.6.0-1]).
    pub(crate) fn opened(&mut self, present: bool, ledger: &mut Ledger) -> Result<(), Failure> {
        if !present {
            for flight in self.flights.drain(..) {
                ledger.abandoned(flight.message);
            }
        }
        for flight in &self.flights {
            ledger.sent_again(flight.message);
            flight.send(&mut self.session, true)?;
        }
        Ok(())
    }

    /// Handles an acknowledgement or a receipt. False when the packet is neither, or belongs to no open message.
    pub(crate) fn handle(&mut self, packet: &Incoming, ledger: &mut Ledger) -> Result<bool, Failure> {
        Ok(match packet {
            Incoming::PubAck { id, code } => self.finish(*id, *code, false, ledger),
            Incoming::PubRec { id, code } => self.received(*id, *code, ledger)?,
            Incoming::PubComp { id } => self.finish(*id, ReasonCode::Success, true, ledger),
            Incoming::Publish(delivery) => self.take_receipt(delivery, ledger)?,
            _ => false,
        })
    }

    /// A receipt at the application's own topic, which is acknowledged at once.
    fn take_receipt(&mut self, delivery: &Delivery, ledger: &mut Ledger) -> Result<bool, Failure> {
        ledger.receipt(delivery.receipt(&self.session.name));
        if let Some(id) = delivery.id {
            self.session.send(&Packet::PubAck(PubAck::new(id, ReasonCode::Success)))?;
        }
        Ok(true)
    }

    fn received(&mut self, id: PacketId, code: ReasonCode, ledger: &mut Ledger) -> Result<bool, Failure> {
        if code.is_error() {
            return Ok(self.finish(id, code, false, ledger));
        }
        let Some(flight) = self.flights.iter_mut().find(|flight| flight.id == id && flight.qos == QoS::ExactlyOnce)
        else {
            return Ok(false);
        };
        flight.received = true;
        ledger.acknowledged(flight.message);
        flight.send(&mut self.session, false)?;
        Ok(true)
    }

    fn finish(&mut self, id: PacketId, code: ReasonCode, received: bool, ledger: &mut Ledger) -> bool {
        let fits = |flight: &Flight| flight.id == id && flight.received == received;
        let Some(flight) = self.flights.iter().position(fits).and_then(|place| self.flights.remove(place)) else {
            return false;
        };
        if code.is_error() {
            ledger.refused(flight.message);
        } else {
            ledger.completed(flight.message);
        }
        true
    }
}

impl Flight {
    /// Sends the due packet: PUBREL once PUBREC has come, PUBLISH before.
    fn send(&self, session: &mut Session, dup: bool) -> Result<(), Failure> {
        if self.received {
            return session.send(&Packet::PubRel(PubRel::new(self.id, ReasonCode::Success)));
        }
        let publish = Publish {
            dup,
            qos: self.qos,
            retain: self.retain,
            topic: Some(TopicName::new(&self.topic)?),
            packet_id: Some(self.id),
            properties: PublishProperties::default(),
            payload: &self.payload,
        };
        match &self.asks {
            Some(asks) => asks.with(self.message, publish, |publish| session.send(&Packet::Publish(publish))),
            None => session.send(&Packet::Publish(publish)),
        }
    }
}
