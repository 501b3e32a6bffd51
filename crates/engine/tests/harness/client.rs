//! A client as a test describes it.

use std::fmt::Debug;

use tidegate_engine::{LeftConnection, NotContinued, Reason};
use tidegate_mqtt::{
    ConnAck, Disconnect, Packet, PacketId, PacketType, PingReq, PubAck, PubComp, PubRec, PubRel, QoS, ReasonCode,
    Subscribe, SubscriptionOptions, Subscriptions, TopicFilter, TopicFilters, Unsubscribe, UserProperties, Version,
};

use super::net::SocketId;
use super::net::continuing::Loose;
use super::world::World;
use super::{Arrival, Connecting, Delivered, Message};

/// The packet id of a number.
pub(crate) fn id(number: u16) -> PacketId {
    PacketId::new(number).expect("a packet id is not 0")
}

/// One connection of a client. The test's own packets leave at once; what happens then happens in [`World::run`], which
/// each method that expects something calls first.
#[derive(Clone)]
pub(crate) struct Client {
    world: World,
    socket: SocketId,
    connecting: Connecting,
    connack: Option<Arrival>,
}

impl Client {
    pub(crate) fn new(world: World, socket: SocketId, connecting: Connecting) -> Self {
        Self { world, socket, connecting, connack: None }
    }

    pub(crate) fn id(&self) -> &str {
        &self.connecting.client_id
    }

    /// The connection leaves its home, if it may now; the client's end stays.
    pub(crate) fn leave(&self) -> Option<(LeftConnection, Loose)> {
        self.world.0.borrow_mut().leave(self.socket)
    }

    /// The connection continues at the home of the client in another world.
    pub(crate) fn continue_at(
        &self,
        there: &World,
        (left, loose): (LeftConnection, Loose),
    ) -> Result<Self, NotContinued> {
        let shard = usize::from(there.home_of_partition(left.image.partition().0));
        let socket = there.0.borrow_mut().tie(loose, &left, shard)?;
        Ok(Self { world: there.clone(), socket, connecting: self.connecting.clone(), connack: None })
    }

    /// Whether the client asked for its session in a version that does not tell whether there is one.
    pub(crate) fn believes_in_session(&self) -> bool {
        self.version() == Version::V31 && !self.connecting.clean_start
    }

    pub(crate) fn is_v5(&self) -> bool {
        self.version().is_v5()
    }

    fn version(&self) -> Version {
        self.connecting.version
    }

    #[track_caller]
    fn fail(&self, expected: &str, instead: &dyn Debug) -> ! {
        panic!("{}: expected {expected}, got {instead:?}", self.id())
    }

    // ---- sending ---------------------------------------------------------------------------------------------------

    pub(crate) fn send_bytes(&self, bytes: &[u8]) {
        self.world.0.borrow_mut().send(self.socket, bytes);
    }

    pub(crate) fn send(&self, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.encode(self.version(), &mut bytes).expect("a packet that can be encoded");
        self.world.0.borrow_mut().sockets[self.socket].side.finish(packet);
        self.send_bytes(&bytes);
    }

    pub(crate) fn next_id(&self) -> PacketId {
        self.world.0.borrow_mut().sockets[self.socket].side.next_id()
    }

    /// Sends PUBLISH and does not wait; returns the packet id.
    pub(crate) fn send_publish(&self, message: Message) -> Option<PacketId> {
        let mut message = message;
        if message.qos != QoS::AtMostOnce && message.id.is_none() {
            message.id = Some(self.next_id());
        }
        self.send_bytes(&message.encode(self.version()));
        message.id
    }

    /// Publishes and waits for the end of the exchange; returns the code of PUBACK or PUBREC.
    #[track_caller]
    pub(crate) fn publish(&self, message: Message) -> ReasonCode {
        let qos = message.qos;
        let id = self.send_publish(message);
        self.world.run();
        let Some(id) = id else { return ReasonCode::Success };
        let kind = if qos == QoS::ExactlyOnce { PacketType::PubRec } else { PacketType::PubAck };
        let code = self.expect_answer(kind, id);
        if qos == QoS::ExactlyOnce && !code.is_error() {
            self.expect_answer(PacketType::PubComp, id);
        }
        code
    }

    /// Publishes and runs the world, whenever the exchange ends.
    pub(crate) fn publish_later(&self, message: Message) {
        self.send_publish(message);
        self.world.run();
    }

    /// The next answer to a publication of the client.
    #[track_caller]
    pub(crate) fn expect_answer(&self, kind: PacketType, id: PacketId) -> ReasonCode {
        self.world.run();
        let answered = self.world.0.borrow_mut().sockets[self.socket].side.answered.pop_front();
        match answered {
            Some((found, to, code)) if found == kind && to == id => code,
            other => self.fail(&format!("{kind} for {id}"), &(other, self.peek())),
        }
    }

    /// Answers to publishes that have come.
    pub(crate) fn answers(&self) -> Vec<(PacketType, u16, ReasonCode)> {
        self.world.run();
        let answered = std::mem::take(&mut self.world.0.borrow_mut().sockets[self.socket].side.answered);
        answered.into_iter().map(|(kind, id, code)| (kind, id.get(), code)).collect()
    }

    pub(crate) fn puback(&self, id: PacketId) {
        self.send(&Packet::PubAck(PubAck::new(id, ReasonCode::Success)));
    }

    pub(crate) fn pubrec(&self, id: PacketId) {
        self.send(&Packet::PubRec(PubRec::new(id, ReasonCode::Success)));
    }

    pub(crate) fn pubrel(&self, id: PacketId) {
        self.send(&Packet::PubRel(PubRel::new(id, ReasonCode::Success)));
    }

    /// Publishes at QoS 2 and waits for PUBREC; the exchange stays open.
    #[track_caller]
    pub(crate) fn open_exchange(&self, message: Message) {
        self.send_publish(message);
        self.expect(PacketType::PubRec);
    }

    /// Ends an exchange at QoS 2: sends PUBREL and waits for PUBCOMP.
    #[track_caller]
    pub(crate) fn end_exchange(&self, id: PacketId) {
        self.pubrel(id);
        self.expect(PacketType::PubComp);
    }

    pub(crate) fn pubcomp(&self, id: PacketId) {
        self.send(&Packet::PubComp(PubComp::new(id, ReasonCode::Success)));
    }

    // ---- subscribing -----------------------------------------------------------------------------------------------

    /// Sends SUBSCRIBE and does not wait.
    pub(crate) fn send_subscribe(&self, filters: &[(&str, SubscriptionOptions)], identifier: Option<u32>) -> PacketId {
        let filters: Vec<_> =
            filters.iter().map(|(text, options)| (TopicFilter::new(text).expect("a filter"), *options)).collect();
        let packet_id = self.next_id();
        self.send(&Packet::Subscribe(Subscribe {
            packet_id,
            subscription_identifier: identifier,
            user_properties: UserProperties::EMPTY,
            subscriptions: Subscriptions::new(&filters),
        }));
        packet_id
    }

    /// Subscribes; the server has to grant the QoS that was asked for.
    #[track_caller]
    pub(crate) fn subscribe(&self, filter: &str, qos: QoS) {
        self.subscribe_with(filter, SubscriptionOptions::new(qos), None);
    }

    #[track_caller]
    pub(crate) fn subscribe_with(&self, filter: &str, options: SubscriptionOptions, identifier: Option<u32>) {
        let id = self.send_subscribe(&[(filter, options)], identifier);
        let codes = self.expect_sub_ack(id);
        assert_eq!(codes, [ReasonCode::granted(options.qos)], "{}: subscription to {filter}", self.id());
    }

    /// Subscribes and returns the code of the SUBACK, which has to be the next packet.
    #[track_caller]
    pub(crate) fn subscribe_code(&self, filter: &str, qos: QoS) -> Option<ReasonCode> {
        let id = self.send_subscribe(&[(filter, SubscriptionOptions::new(qos))], None);
        self.expect_sub_ack(id).first().copied()
    }

    /// The codes of a SUBACK, which has to be the next packet.
    #[track_caller]
    pub(crate) fn expect_sub_ack(&self, id: PacketId) -> Vec<ReasonCode> {
        let arrival = self.next_arrival("SUBACK");
        match arrival.packet() {
            Packet::SubAck(ack) if ack.packet_id == id => ack.reason_codes.iter().collect(),
            other => self.fail("SUBACK", &other),
        }
    }

    /// Subscribes at QoS 1 and does not wait.
    pub(crate) fn subscribe_later(&self, filter: &str) {
        self.send_subscribe(&[(filter, SubscriptionOptions::new(QoS::AtLeastOnce))], None);
        self.world.run();
    }

    /// Unsubscribes and forgets whatever came until then.
    pub(crate) fn unsubscribe_whatever_comes(&self, filter: &str) {
        self.world.run();
        while self.take_arrival().is_some() {}
        self.unsubscribe(filter);
    }

    /// Sends UNSUBSCRIBE and does not wait.
    pub(crate) fn send_unsubscribe(&self, filter: &str) -> PacketId {
        let packet_id = self.next_id();
        self.send(&Packet::Unsubscribe(Unsubscribe {
            packet_id,
            user_properties: UserProperties::EMPTY,
            topic_filters: TopicFilters::new(&[TopicFilter::new(filter).expect("a filter")]),
        }));
        packet_id
    }

    #[track_caller]
    pub(crate) fn unsubscribe(&self, filter: &str) -> Vec<ReasonCode> {
        let packet_id = self.send_unsubscribe(filter);
        let arrival = self.next_arrival("UNSUBACK");
        match arrival.packet() {
            Packet::UnsubAck(ack) if ack.packet_id == packet_id => ack.reason_codes.iter().collect(),
            other => self.fail("UNSUBACK", &other),
        }
    }

    // ---- receiving -------------------------------------------------------------------------------------------------

    fn peek(&self) -> Vec<Arrival> {
        self.world.0.borrow().sockets[self.socket].side.arrivals.iter().cloned().collect()
    }

    /// Whether a packet of this type has come and is not taken yet.
    pub(crate) fn has_arrived(&self, kind: PacketType) -> bool {
        self.peek().iter().any(|arrival| arrival.packet_type() == kind)
    }

    /// Takes the next packet, if there is one.
    pub(crate) fn take_arrival(&self) -> Option<Arrival> {
        self.world.0.borrow_mut().sockets[self.socket].side.arrivals.pop_front()
    }

    #[track_caller]
    pub(crate) fn next_arrival(&self, expected: &str) -> Arrival {
        self.world.run();
        self.take_arrival().unwrap_or_else(|| self.fail(expected, &("nothing", self.closed())))
    }

    /// The next packet has to be of this type.
    #[track_caller]
    pub(crate) fn expect(&self, kind: PacketType) -> Arrival {
        let arrival = self.next_arrival(kind.name());
        if arrival.packet_type() != kind {
            self.fail(kind.name(), &arrival);
        }
        arrival
    }

    /// The next packet has to be this message.
    #[track_caller]
    pub(crate) fn expect_publish(&self, topic: &str, payload: impl AsRef<[u8]>) -> Delivered {
        let delivered = self.expect_message();
        let wanted = String::from_utf8_lossy(payload.as_ref()).into_owned();
        assert_eq!((delivered.topic.as_str(), delivered.text()), (topic, wanted), "{}", self.id());
        delivered
    }

    /// The next packet has to be a message.
    #[track_caller]
    pub(crate) fn expect_message(&self) -> Delivered {
        let arrival = self.next_arrival("PUBLISH");
        arrival.delivered().unwrap_or_else(|| self.fail("PUBLISH", &arrival))
    }

    /// All messages that have come, and nothing else may have.
    #[track_caller]
    pub(crate) fn messages(&self) -> Vec<Delivered> {
        self.world.run();
        let arrivals: Vec<Arrival> = std::iter::from_fn(|| self.take_arrival()).collect();
        arrivals.iter().map(|arrival| arrival.delivered().unwrap_or_else(|| self.fail("PUBLISH", arrival))).collect()
    }

    /// All messages that have come, and whatever else has come is forgotten.
    pub(crate) fn messages_among_others(&self) -> Vec<Delivered> {
        self.world.run();
        let arrivals = std::iter::from_fn(|| self.take_arrival());
        arrivals.filter_map(|arrival| arrival.delivered()).collect()
    }

    /// Payloads of all messages that have come.
    #[track_caller]
    pub(crate) fn payloads(&self) -> Vec<String> {
        self.messages().iter().map(Delivered::text).collect()
    }

    /// Acknowledges everything until nothing more comes; returns the payloads.
    pub(crate) fn drain(&self) -> Vec<String> {
        let mut payloads = Vec::new();
        loop {
            self.world.run();
            let Some(arrival) = self.take_arrival() else { return payloads };
            if let Some(got) = arrival.delivered() {
                payloads.push(got.text());
                match got.id {
                    Some(id) if got.qos == QoS::ExactlyOnce => self.pubrec(id),
                    Some(id) => self.puback(id),
                    None => {}
                }
            } else if arrival.packet_type() == PacketType::PubRel
                && let Packet::PubRel(release) = arrival.packet()
            {
                self.pubcomp(release.packet_id);
            }
        }
    }

    #[track_caller]
    pub(crate) fn expect_nothing(&self) {
        self.world.run();
        let arrivals = self.peek();
        if !arrivals.is_empty() {
            self.fail("nothing", &arrivals);
        }
    }

    #[track_caller]
    pub(crate) fn ping(&self) {
        self.send_bytes(&PingReq::BYTES);
        self.expect(PacketType::PingResp);
    }

    // ---- the connection --------------------------------------------------------------------------------------------

    #[track_caller]
    pub(crate) fn expect_accepted(&mut self) {
        let arrival = self.expect(PacketType::ConnAck);
        if let Packet::ConnAck(ack) = arrival.packet()
            && ack.reason_code != ReasonCode::Success
        {
            self.fail("an accepted connection", &ack);
        }
        self.connack = Some(arrival);
    }

    /// Looks at the CONNACK that accepted the connection.
    pub(crate) fn connack<T>(&self, look: impl FnOnce(&ConnAck<'_>) -> T) -> T {
        let arrival = self.connack.as_ref().expect("an accepted connection");
        match arrival.packet() {
            Packet::ConnAck(ack) => look(&ack),
            other => self.fail("CONNACK", &other),
        }
    }

    pub(crate) fn session_present(&self) -> bool {
        self.connack(|ack| ack.session_present)
    }

    /// The server has to refuse the connection with this code, and to close it.
    #[track_caller]
    pub(crate) fn expect_refused(&self, code: ReasonCode) {
        let arrival = self.expect(PacketType::ConnAck);
        if let Packet::ConnAck(ack) = arrival.packet() {
            assert_eq!(ack.reason_code, code, "{}", self.id());
        }
        self.expect_closed();
    }

    pub(crate) fn closed(&self) -> Option<Reason> {
        self.world.0.borrow().sockets[self.socket].closed
    }

    /// The server must have closed the connection and sent nothing more.
    #[track_caller]
    pub(crate) fn expect_closed(&self) -> Reason {
        self.world.run();
        let arrivals = self.peek();
        match self.closed() {
            Some(reason) if arrivals.is_empty() => reason,
            closed => self.fail("a closed connection", &(closed, arrivals)),
        }
    }

    #[track_caller]
    pub(crate) fn expect_open(&self) {
        self.world.run();
        if let Some(reason) = self.closed() {
            self.fail("an open connection", &reason);
        }
    }

    /// The server must have sent DISCONNECT with this code and closed the connection.
    #[track_caller]
    pub(crate) fn expect_disconnect(&self, code: ReasonCode) -> Arrival {
        let arrival = self.expect(PacketType::Disconnect);
        if let Packet::Disconnect(disconnect) = arrival.packet() {
            assert_eq!(disconnect.reason_code, code, "{}: {disconnect:?}", self.id());
        }
        self.expect_closed();
        arrival
    }

    /// Says goodbye.
    #[track_caller]
    pub(crate) fn disconnect(&self) {
        self.disconnect_with(&Disconnect::new(ReasonCode::Success));
    }

    #[track_caller]
    pub(crate) fn disconnect_with(&self, disconnect: &Disconnect<'_>) {
        self.send(&Packet::Disconnect(*disconnect));
        self.world.run();
        assert!(self.closed().is_some(), "{}: DISCONNECT did not close the connection", self.id());
    }

    /// The network breaks after everything that was sent has arrived.
    pub(crate) fn lose(&self) {
        self.world.run();
        self.world.0.borrow_mut().hang_up(self.socket);
        self.world.run();
        assert!(self.closed().is_some(), "{}: a lost connection was not closed", self.id());
    }

    /// Takes no more bytes from the server until [`Client::read`].
    pub(crate) fn stop_reading(&self) {
        self.world.run();
        self.world.0.borrow_mut().set_window(self.socket, 0);
    }

    /// Takes this number of further bytes.
    pub(crate) fn read_bytes(&self, bytes: usize) {
        self.world.0.borrow_mut().add_window(self.socket, bytes);
        self.world.run();
    }

    /// Takes everything again.
    pub(crate) fn read(&self) {
        self.world.0.borrow_mut().set_window(self.socket, usize::MAX);
        self.world.run();
    }

    /// Whether the server has stopped reading.
    pub(crate) fn is_paused(&self) -> bool {
        self.world.run();
        self.world.0.borrow().sockets[self.socket].paused
    }

    /// Bytes that wait in the engine for this client.
    pub(crate) fn output_len(&self) -> usize {
        self.world.0.borrow_mut().output_len(self.socket)
    }

    /// Bytes that the server has not read.
    pub(crate) fn unread_len(&self) -> usize {
        self.world.0.borrow().upstream_len(self.socket)
    }

    /// The shard that the connection is at.
    pub(crate) fn shard(&self) -> Option<u16> {
        self.world.run();
        self.world.0.borrow().shard_of(self.socket).map(|shard| shard as u16)
    }

    /// Breaks the connection after `survives` more bytes have arrived.
    pub(crate) fn cut(&self, survives: usize) {
        self.world.0.borrow_mut().cut(self.socket, survives);
    }

    pub(crate) fn add_window(&self, bytes: usize) {
        self.world.0.borrow_mut().add_window(self.socket, bytes);
    }

    pub(crate) fn set_window(&self, bytes: usize) {
        self.world.0.borrow_mut().set_window(self.socket, bytes);
    }
}
