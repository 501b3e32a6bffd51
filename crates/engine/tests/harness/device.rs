//! An honest client with its own session: it sends unfinished messages again, and takes a message that it receives
//! twice only once.

use std::borrow::BorrowMut;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_engine::Reason;
use tidegate_mqtt::{Packet, PacketId, PubAck, PubComp, PubRec, PubRel, QoS, ReasonCode, SubscriptionOptions};

use super::{Arrival, Client, Connecting, Delivered, Message, World, seconds};

/// How a device behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Habits {
    /// It does not acknowledge received messages for the time being.
    pub holds_acknowledgements: bool,
}

/// A message as the device's application got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub message: Delivered,
    /// How many connections the device had had by then.
    pub connection: u32,
}

/// A message that the device has sent and the server has not finished.
#[derive(Clone, Debug)]
struct Outgoing {
    message: Message,
    id: PacketId,
    /// PUBREC has come.
    received: bool,
    /// It was sent on this connection.
    sent: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub(crate) struct Device {
    pub name: String,
    pub habits: Habits,
    world: World,
    client: Option<Client>,
    /// Connections that were left open for the server to take over.
    abandoned: Vec<Client>,
    /// CONNACK has accepted the present connection.
    pub online: bool,
    /// The test lets it leave for good.
    pub is_leaving: bool,
    connections: u32,
    /// Whether the session of the last connection did not outlive it, as both sides know.
    ends_with_connection: bool,
    /// Session Present of the last CONNACK.
    pub session_present: bool,
    /// How often a session of the device began without one before it.
    pub begun: u32,
    /// Codes of refused connections.
    pub refused: Vec<ReasonCode>,
    outgoing: VecDeque<Outgoing>,
    /// Messages that wait for the server's receive maximum.
    waiting: VecDeque<Message>,
    server_maximum: usize,
    next_id: PacketId,
    /// QoS 2 messages that the device has taken and the server has not released.
    incoming: BTreeSet<PacketId>,
    /// Acknowledgements that the device owes.
    owed: Vec<PacketId>,
    owed_receipts: Vec<PacketId>,
    /// Messages that the application received.
    pub inbox: Vec<Received>,
    /// Codes of PUBACK and PUBREC by the payload that they are for.
    pub answers: BTreeMap<Vec<u8>, ReasonCode>,
    asked: BTreeMap<PacketId, (String, bool)>,
    /// Filters whose SUBACK has come, and [`Device::mark`] at that moment.
    pub subscribed: BTreeMap<String, u64>,
    /// A number of the test's own that says how far it is.
    pub mark: u64,
    /// Payloads of QoS 1 messages that were sent again, which the server cannot tell from new ones.
    pub resent: BTreeSet<Vec<u8>>,
    /// Payloads of QoS 2 messages that were sent again. The server may have refused one before, and the answer was lost.
    pub resent_exactly: BTreeSet<Vec<u8>>,
}

impl Device {
    pub(crate) fn new(world: &World, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            habits: Habits::default(),
            world: world.clone(),
            client: None,
            abandoned: Vec::new(),
            online: false,
            is_leaving: false,
            connections: 0,
            ends_with_connection: false,
            session_present: false,
            begun: 0,
            refused: Vec::new(),
            outgoing: VecDeque::new(),
            waiting: VecDeque::new(),
            server_maximum: usize::from(u16::MAX),
            next_id: PacketId::MIN,
            incoming: BTreeSet::new(),
            owed: Vec::new(),
            owed_receipts: Vec::new(),
            inbox: Vec::new(),
            answers: BTreeMap::new(),
            asked: BTreeMap::new(),
            subscribed: BTreeMap::new(),
            mark: 0,
            resent: BTreeSet::new(),
            resent_exactly: BTreeSet::new(),
        }
    }

    /// Its session lives elsewhere from now on, where it has to connect again.
    pub(crate) fn move_to(&mut self, world: &World) {
        self.client = None;
        self.abandoned.clear();
        self.go_offline();
        self.world = world.clone();
    }

    /// The present connection, if the device has not given it up.
    pub(crate) fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// Connects again, and lets an earlier connection be taken over.
    pub(crate) fn connect(&mut self, connecting: Connecting) {
        self.go_offline();
        let connecting = Connecting { client_id: self.name.clone(), automatic: false, ..connecting };
        // A clean session before MQTT 5, and one of MQTT 5 without an expiry, end with the connection. An MQTT 3.1 CONNACK does
        // not say whether there was one.
        if connecting.clean_start || self.ends_with_connection {
            self.forget();
        }
        let is_v5 = connecting.version.is_v5();
        self.ends_with_connection =
            if is_v5 { connecting.expiry.unwrap_or_default() == 0 } else { connecting.clean_start };
        let client = self.world.open(&connecting);
        client.send_bytes(&connecting.encode());
        self.abandoned.extend(self.client.replace(client));
        self.connections += 1;
        self.online = false;
        self.asked.clear();
    }

    /// Forgets the session. Messages that were never answered are sent as new ones.
    fn forget(&mut self) {
        self.incoming.clear();
        let unanswered = std::mem::take(&mut self.outgoing).into_iter().filter(|outgoing| !outgoing.received);
        for outgoing in unanswered.collect::<Vec<_>>().into_iter().rev() {
            self.waiting.push_front(Message { dup: false, id: None, ..outgoing.message });
        }
    }

    /// Gives the connection up without a goodbye, after `survives` more bytes have arrived.
    pub(crate) fn cut(&mut self, survives: usize) {
        if let Some(client) = self.client.take() {
            client.cut(survives);
        }
        self.go_offline();
    }

    /// Lets connections end that were left open.
    pub(crate) fn cut_abandoned(&mut self) {
        for client in self.abandoned.drain(..) {
            client.cut(0);
        }
    }

    /// Says goodbye.
    pub(crate) fn disconnect(&mut self, packet: &tidegate_mqtt::Disconnect<'_>) {
        if let Some(client) = self.client.take() {
            client.send(&Packet::Disconnect(*packet));
        }
        self.go_offline();
    }

    fn go_offline(&mut self) {
        self.online = false;
        self.owed.clear();
        self.owed_receipts.clear();
        for outgoing in &mut self.outgoing {
            outgoing.sent = false;
        }
    }

    /// Whether the server has closed the connection; then the device gives it up.
    pub(crate) fn notice_close(&mut self) -> Option<Reason> {
        let reason = self.client.as_ref()?.closed()?;
        self.client = None;
        self.go_offline();
        Some(reason)
    }

    // ---- publishing ------------------------------------------------------------------------------------------------

    /// Publishes as soon as the connection and the server's receive maximum allow it.
    pub(crate) fn publish(&mut self, message: Message) {
        self.waiting.push_back(message);
        self.send_waiting();
    }

    /// Sends the last QoS 2 message that waits for PUBREC once more; returns whether there is one.
    pub(crate) fn repeat_last(&mut self) -> bool {
        let Some(client) = self.client.as_ref().filter(|_| self.online) else { return false };
        let last = self
            .outgoing
            .iter()
            .rev()
            .find(|outgoing| outgoing.message.qos == QoS::ExactlyOnce && outgoing.sent && !outgoing.received);
        let Some(last) = last else { return false };
        let again = Message { id: Some(last.id), alias: None, ..last.message.clone() };
        client.send_publish(again.dup());
        true
    }

    fn send_waiting(&mut self) {
        let Some(client) = self.client.clone().filter(|_| self.online) else { return };
        while let Some(message) = self.waiting.front() {
            if message.qos != QoS::AtMostOnce && self.outgoing.len() >= self.server_maximum {
                return;
            }
            let Some(mut message) = self.waiting.pop_front() else { return };
            if message.qos != QoS::AtMostOnce {
                let id = self.free_id();
                message.id = Some(id);
                self.outgoing.push_back(Outgoing { message: message.clone(), id, received: false, sent: true });
            }
            self.world.note(format!("{} publishes {}", self.name, message.summary()));
            client.send_publish(message);
        }
    }

    fn free_id(&mut self) -> PacketId {
        loop {
            let id = self.next_id;
            self.next_id = id.next();
            if self.outgoing.iter().all(|outgoing| outgoing.id != id) {
                return id;
            }
        }
    }

    /// Sends unfinished messages again, in their order ([MQTT-4.4.0-1]).
    fn resume(&mut self) {
        let Some(client) = self.client.clone() else { return };
        for outgoing in &mut self.outgoing {
            outgoing.sent = true;
            if outgoing.message.qos == QoS::AtLeastOnce {
                self.resent.insert(outgoing.message.payload.clone());
            } else if !outgoing.received {
                self.resent_exactly.insert(outgoing.message.payload.clone());
            }
            if outgoing.received {
                client.pubrel(outgoing.id);
            } else {
                client.send_publish(Message { id: Some(outgoing.id), alias: None, ..outgoing.message.clone() }.dup());
            }
        }
    }

    /// Whether everything that was published is finished.
    pub(crate) fn is_done(&self) -> bool {
        self.outgoing.is_empty() && self.waiting.is_empty()
    }

    // ---- subscribing -----------------------------------------------------------------------------------------------

    /// A changing subscription counts for nothing until the last SUBACK has come.
    fn forget_filter(&mut self, filter: &str) {
        self.subscribed.remove(filter);
        self.asked.retain(|_, (asked, _)| asked != filter);
    }

    pub(crate) fn subscribe(&mut self, filter: &str, options: SubscriptionOptions, identifier: Option<u32>) {
        if let Some(client) = self.client.clone().filter(|_| self.online) {
            self.forget_filter(filter);
            let id = client.send_subscribe(&[(filter, options)], identifier);
            self.asked.insert(id, (filter.to_owned(), true));
        }
    }

    pub(crate) fn unsubscribe(&mut self, filter: &str) {
        if let Some(client) = self.client.clone().filter(|_| self.online) {
            self.forget_filter(filter);
            let id = client.send_unsubscribe(filter);
            self.asked.insert(id, (filter.to_owned(), false));
        }
    }

    // ---- receiving -------------------------------------------------------------------------------------------------

    /// Takes the received packets and answers them; returns whether there were any.
    pub(crate) fn process(&mut self) -> bool {
        let Some(client) = self.client.clone() else { return false };
        let mut any = false;
        while let Some(arrival) = client.take_arrival() {
            any = true;
            self.take(&client, &arrival);
        }
        any
    }

    fn take(&mut self, client: &Client, arrival: &Arrival) {
        self.world.note(format!("{} takes {}", self.name, arrival.summary()));
        match arrival.packet() {
            Packet::ConnAck(ack) if ack.reason_code == ReasonCode::Success => {
                self.online = true;
                // MQTT 3.1 does not tell; there a client has to believe that the server has the session if it has it itself.
                self.session_present = ack.session_present || client.believes_in_session();
                self.server_maximum =
                    ack.properties.receive_maximum.map_or(usize::from(u16::MAX), |max| usize::from(max.get()));
                self.begun += u32::from(!self.session_present);
                if self.session_present {
                    self.resume();
                } else {
                    self.subscribed.clear();
                    self.forget();
                }
                self.send_waiting();
            }
            Packet::ConnAck(ack) => self.refused.push(ack.reason_code),
            Packet::Publish(_) => self.take_publish(client, arrival),
            Packet::PubRel(release) => {
                self.incoming.remove(&release.packet_id);
                client.send(&Packet::PubComp(PubComp::new(release.packet_id, ReasonCode::Success)));
            }
            Packet::PubAck(ack) => self.finish(ack.packet_id, Some(ack.reason_code)),
            Packet::PubRec(ack) if ack.reason_code.is_error() => self.finish(ack.packet_id, Some(ack.reason_code)),
            Packet::PubRec(ack) => {
                if let Some(outgoing) = self.outgoing.iter_mut().find(|outgoing| outgoing.id == ack.packet_id) {
                    outgoing.received = true;
                    self.answers.insert(outgoing.message.payload.clone(), ack.reason_code);
                }
                client.send(&Packet::PubRel(PubRel::new(ack.packet_id, ReasonCode::Success)));
            }
            Packet::PubComp(ack) => self.finish(ack.packet_id, None),
            Packet::SubAck(ack) => {
                let granted = ack.reason_codes.iter().all(|code| !code.is_error());
                if let Some((filter, true)) = self.asked.remove(&ack.packet_id)
                    && granted
                {
                    self.subscribed.insert(filter, self.mark);
                }
            }
            _ => {}
        }
    }

    fn take_publish(&mut self, client: &Client, arrival: &Arrival) {
        let message = arrival.delivered().expect("a PUBLISH");
        match (message.qos, message.id) {
            (QoS::ExactlyOnce, Some(id)) => {
                let new = self.incoming.insert(id);
                if new {
                    self.inbox.push(Received { message, connection: self.connections });
                }
                if self.habits.holds_acknowledgements {
                    self.owed_receipts.push(id);
                } else {
                    client.send(&Packet::PubRec(PubRec::new(id, ReasonCode::Success)));
                }
            }
            (qos, id) => {
                self.inbox.push(Received { message, connection: self.connections });
                let Some(id) = id.filter(|_| qos == QoS::AtLeastOnce) else { return };
                if self.habits.holds_acknowledgements {
                    self.owed.push(id);
                } else {
                    client.send(&Packet::PubAck(PubAck::new(id, ReasonCode::Success)));
                }
            }
        }
    }

    fn finish(&mut self, id: PacketId, code: Option<ReasonCode>) {
        let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.id == id) else { return };
        if let Some(outgoing) = self.outgoing.remove(at)
            && let Some(code) = code
        {
            self.answers.insert(outgoing.message.payload, code);
        }
        self.send_waiting();
    }

    /// Acknowledges everything that was held back, and holds nothing back any more.
    pub(crate) fn release(&mut self) {
        self.habits.holds_acknowledgements = false;
        let Some(client) = self.client.clone().filter(|_| self.online) else { return };
        for id in std::mem::take(&mut self.owed) {
            client.puback(id);
        }
        for id in std::mem::take(&mut self.owed_receipts) {
            client.pubrec(id);
        }
    }
}

/// Lets everything that is under way arrive at these devices and be answered.
pub(crate) fn settle<D: BorrowMut<Device>>(world: &World, devices: &mut [D]) {
    loop {
        world.run();
        let mut busy = false;
        for device in devices.iter_mut().map(BorrowMut::borrow_mut) {
            busy |= device.process();
            device.notice_close();
        }
        if !busy {
            return;
        }
    }
}

/// The same, and a second passes: parked publishers and delayed wills have waited for it.
pub(crate) fn settle_a_second(world: &World, devices: &mut [Device]) {
    settle(world, devices);
    world.advance(seconds(1));
    settle(world, devices);
}

/// True if these devices are online and done, and the broker owes no message.
pub(crate) fn nothing_is_owed(world: &World, devices: &[Device]) -> bool {
    let gauges = world.gauges();
    let owed = gauges.queued_messages + gauges.inflight_messages + gauges.input_bytes + gauges.kept_deals;
    owed == 0 && devices.iter().all(|device| device.is_done() && device.online)
}
