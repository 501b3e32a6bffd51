//! A broker of a fleet, as small as it can be: it speaks MQTT 5 and 3.1.1, keeps sessions, and behaves as a test tells
//! it to. It is a referee too: it panics when the orchestrator breaks a rule that a broker can see.

mod routing;
mod session;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU16, NonZeroU32};

use tidegate_mqtt::{
    ConnAck, Connect, Disconnect, MAX_PACKET_SIZE, Packet, PacketId, PacketType, PingResp, PubAck, PubComp, PubRec,
    Publish, QoS, ReasonCode, SubAck, Subscribe, SubscriptionOptions, UnsubAck, Unsubscribe, Version, split_frame,
};

use super::Arrival;
use super::net::SocketId;
pub(crate) use routing::Carried;
use session::Session;
pub(crate) use ways::{NoV5, Ways};

/// A connection to the broker.
#[derive(Debug, Default)]
struct Line {
    input: Vec<u8>,
    /// The client and its version, once CONNECT has come.
    client: Option<(String, Version)>,
    /// Packet ids of messages that came on this connection and were not answered to the end.
    unanswered: BTreeSet<PacketId>,
}

/// A broker.
#[derive(Debug)]
pub(crate) struct FakeBroker {
    pub ways: Ways,
    sessions: BTreeMap<String, Session>,
    /// Sessions as they were when they were saved last.
    saved: BTreeMap<String, Session>,
    /// It has lost a part of its state, so that packet ids may have another meaning.
    pub has_rolled_back: bool,
    retained: BTreeMap<String, Carried>,
    lines: BTreeMap<SocketId, Line>,
    withheld: Vec<(SocketId, Option<PacketId>, Vec<u8>)>,
    withheld_sub_acks: Vec<(SocketId, Vec<u8>)>,
    /// Packets to be sent, in order.
    pub outbox: Vec<(SocketId, Vec<u8>)>,
    /// Bytes that wait for the client that is held up.
    held_up: Vec<(SocketId, Vec<u8>)>,
    /// Messages that it has taken, for reading a trace.
    pub log: Vec<String>,
    /// Packet identifiers of its messages that a PUBACK or PUBREC named.
    pub acknowledged: Vec<u16>,
    /// Connections that it has closed.
    pub closed: Vec<SocketId>,
    /// PUBLISH packets, whether it has taken the message or not.
    pub offered: u32,
    /// Messages that it has taken over, in order.
    pub taken: Vec<Carried>,
    /// Filters that it was asked for, in order.
    pub asked: Vec<String>,
    /// Filters that it was to forget, in order.
    pub forgotten: Vec<String>,
    /// Connections that it has accepted.
    pub accepted: u32,
    /// CONNECT packets, whatever came of them.
    pub tried: Vec<Version>,
    /// DISCONNECT packets.
    pub goodbyes: u32,
}

impl FakeBroker {
    pub(crate) fn new(ways: Ways) -> Self {
        Self {
            ways,
            sessions: BTreeMap::new(),
            saved: BTreeMap::new(),
            has_rolled_back: false,
            retained: BTreeMap::new(),
            lines: BTreeMap::new(),
            withheld: Vec::new(),
            withheld_sub_acks: Vec::new(),
            outbox: Vec::new(),
            held_up: Vec::new(),
            log: Vec::new(),
            acknowledged: Vec::new(),
            closed: Vec::new(),
            offered: 0,
            taken: Vec::new(),
            asked: Vec::new(),
            forgotten: Vec::new(),
            accepted: 0,
            tried: Vec::new(),
            goodbyes: 0,
        }
    }

    // ---- connections -----------------------------------------------------------------------------------------------

    /// A connection begins.
    pub(crate) fn accept(&mut self, line: SocketId) {
        self.lines.insert(line, Line::default());
    }

    /// A connection is gone.
    pub(crate) fn lose(&mut self, line: SocketId) {
        let Some(Line { client: Some((client, _)), .. }) = self.lines.remove(&line) else { return };
        self.withheld.retain(|(on, _, _)| *on != line);
        self.withheld_sub_acks.retain(|(on, _)| *on != line);
        let Some(session) = self.sessions.get_mut(&client).filter(|session| session.line == Some(line)) else { return };
        session.line = None;
        if !session.lasting {
            self.sessions.remove(&client);
        }
    }

    /// The broker dies: all connections break.
    pub(crate) fn die(&mut self) -> Vec<SocketId> {
        self.ways.reachable = false;
        let lines: Vec<SocketId> = self.lines.keys().copied().collect();
        for line in &lines {
            self.lose(*line);
        }
        self.outbox.clear();
        self.held_up.clear();
        lines
    }

    /// Writes its sessions to its disk.
    pub(crate) fn save(&mut self) {
        self.saved = self.sessions.clone();
    }

    /// Returns to the saved sessions.
    pub(crate) fn roll_back(&mut self) {
        self.sessions = self.saved.clone();
        self.sessions.values_mut().for_each(|session| session.line = None);
        self.has_rolled_back = true;
    }

    /// A client that is away has a session with a subscription.
    pub(crate) fn keep_session(&mut self, client: &str, filter: &str) {
        let session = self.sessions.entry(client.to_owned()).or_default();
        session.lasting = true;
        session.subscribe(
            filter,
            SubscriptionOptions { qos: QoS::ExactlyOnce, ..SubscriptionOptions::default() },
            None,
        );
    }

    /// It knows nothing any more of sessions.
    pub(crate) fn forget_sessions(&mut self) {
        self.sessions.clear();
    }

    /// The connections that are open.
    pub(crate) fn lines(&self) -> Vec<SocketId> {
        self.lines.keys().copied().collect()
    }

    fn close(&mut self, line: SocketId) {
        self.lose(line);
        self.closed.push(line);
    }

    /// Closes a connection over something that it was sent.
    fn deny(&mut self, line: SocketId) {
        let code = self.ways.closes_with.filter(|_| self.version(line).is_some_and(Version::is_v5));
        if let Some(code) = code {
            self.send(line, &Packet::Disconnect(Disconnect { reason_code: code, ..Disconnect::default() }));
        }
        self.close(line);
    }

    /// Refuses a PUBLISH that is longer than it takes; returns whether it is.
    fn refuses_length(&mut self, line: SocketId, publish: &Publish<'_>, len: usize) -> bool {
        let takes = |limit: Option<u32>, len: usize| limit.is_none_or(|limit| len <= limit as usize);
        if takes(self.ways.hidden_limit, len) && takes(self.ways.hidden_payload_limit, publish.payload.len()) {
            return false;
        }
        match publish.packet_id.filter(|_| self.ways.answers_too_large) {
            Some(id) => {
                let kind = if publish.qos == QoS::ExactlyOnce { 0x50 } else { 0x40 };
                let [high, low] = id.get().to_be_bytes();
                self.outbox.push((line, vec![kind, 3, high, low, ReasonCode::PacketTooLarge.byte()]));
            }
            None => self.deny(line),
        }
        true
    }

    fn version(&self, line: SocketId) -> Option<Version> {
        self.lines.get(&line)?.client.as_ref().map(|(_, version)| *version)
    }

    fn send(&mut self, line: SocketId, packet: &Packet<'_>) {
        let Some(version) = self.version(line) else { return };
        let mut bytes = Vec::new();
        packet.encode(version, &mut bytes).expect("a packet of a broker");
        if let Packet::Publish(publish) = packet {
            let id = publish.packet_id.map(PacketId::get);
            self.log.push(format!("sends {:?} {} id {id:?}", publish.qos, String::from_utf8_lossy(publish.payload)));
        }
        self.put_bytes(line, bytes);
    }

    /// Sends bytes, unless all output for this client waits.
    fn put_bytes(&mut self, line: SocketId, bytes: Vec<u8>) {
        let client = self.lines.get(&line).and_then(|line| line.client.as_ref());
        if client.is_some_and(|(client, _)| Some(client.as_str()) == self.ways.holds_up.as_deref()) {
            self.held_up.push((line, bytes));
        } else {
            self.outbox.push((line, bytes));
        }
    }

    /// An answer to a message; with the id that it frees.
    fn acknowledge(&mut self, line: SocketId, frees: Option<PacketId>, packet: &Packet<'_>) {
        let Some(version) = self.version(line) else { return };
        let mut bytes = Vec::new();
        packet.encode(version, &mut bytes).expect("a packet of a broker");
        if self.ways.withholds_acknowledgements {
            self.withheld.push((line, frees, bytes));
            return;
        }
        self.free(line, frees);
        self.put_bytes(line, bytes);
    }

    fn free(&mut self, line: SocketId, frees: Option<PacketId>) {
        if let (Some(line), Some(id)) = (self.lines.get_mut(&line), frees) {
            line.unanswered.remove(&id);
        }
    }

    // ---- input -----------------------------------------------------------------------------------------------------

    /// Takes bytes from the orchestrator.
    pub(crate) fn receive(&mut self, line: SocketId, bytes: &[u8]) {
        if let Some(line) = self.lines.get_mut(&line) {
            line.input.extend_from_slice(bytes);
        }
        self.work_off(line);
    }

    /// Takes the steps that its earlier ways have held back.
    pub(crate) fn go_on(&mut self) {
        if !self.ways.withholds_acknowledgements {
            for (line, frees, bytes) in std::mem::take(&mut self.withheld) {
                self.free(line, frees);
                self.outbox.push((line, bytes));
            }
        }
        if self.ways.holds_up.is_none() {
            self.outbox.append(&mut self.held_up);
        }
        if !self.ways.withholds_sub_acks {
            self.outbox.append(&mut self.withheld_sub_acks);
        }
        for line in self.lines() {
            self.work_off(line);
        }
        let clients: Vec<String> = self.sessions.keys().cloned().collect();
        for client in clients {
            self.pump(&client);
        }
    }

    fn work_off(&mut self, on: SocketId) {
        while !self.ways.hangs {
            let Some(line) = self.lines.get_mut(&on) else { return };
            let frame = split_frame(&line.input, MAX_PACKET_SIZE).expect("the orchestrator sent no frame");
            let Some(len) = frame.map(|frame| frame.total_len) else { return };
            let whole: Vec<u8> = line.input.drain(..len).collect();
            let max = self.ways.max_packet.map_or(usize::MAX, |max| max as usize);
            assert!(len <= max, "a packet of {len} bytes for a broker that takes {max}");
            self.take(on, &whole);
        }
    }

    fn take(&mut self, line: SocketId, whole: &[u8]) {
        let frame = split_frame(whole, MAX_PACKET_SIZE).expect("a frame").expect("a whole frame");
        let version = self.version(line);
        let packet = Packet::decode(version.unwrap_or(Version::V5), &frame)
            .unwrap_or_else(|error| panic!("the orchestrator sent a bad packet: {error}"));
        if let Packet::Connect(connect) = &packet {
            assert!(version.is_none(), "a second CONNECT");
            self.take_connect(line, connect);
            return;
        }
        assert!(version.is_some(), "before CONNECT: {packet:?}");
        let arrival = Arrival::new(whole.to_vec(), version.unwrap_or(Version::V5));
        self.log.push(format!("takes {}", arrival.summary()));
        match packet {
            Packet::Publish(publish) if self.refuses_length(line, &publish, whole.len()) => {}
            Packet::Publish(publish) => self.take_publish(line, &publish),
            Packet::PubAck(ack) => {
                self.acknowledged.push(ack.packet_id.get());
                self.finish(line, ack.packet_id);
            }
            Packet::PubRec(ack) => {
                self.acknowledged.push(ack.packet_id.get());
                self.take_pub_rec(line, ack.packet_id, ack.reason_code);
            }
            Packet::PubComp(ack) => self.finish(line, ack.packet_id),
            Packet::PubRel(release) => {
                let known = self.session_on(line).is_some_and(|session| session.received.remove(&release.packet_id));
                let v5 = version.is_some_and(Version::is_v5);
                let code = if known || !v5 { ReasonCode::Success } else { ReasonCode::PacketIdentifierNotFound };
                let answer = Packet::PubComp(PubComp::new(release.packet_id, code));
                self.acknowledge(line, Some(release.packet_id), &answer);
            }
            Packet::Subscribe(subscribe) => self.take_subscribe(line, &subscribe),
            Packet::Unsubscribe(unsubscribe) => self.take_unsubscribe(line, &unsubscribe),
            Packet::PingReq(_) => self.send(line, &Packet::PingResp(PingResp)),
            Packet::Disconnect(disconnect) => self.take_disconnect(line, &disconnect),
            other => panic!("the orchestrator sent {other:?}"),
        }
    }

    fn take_connect(&mut self, line: SocketId, connect: &Connect<'_>) {
        self.tried.push(connect.version);
        let name = connect.client_id.to_owned();
        if let Some(state) = self.lines.get_mut(&line) {
            state.client = Some((name.clone(), connect.version));
        }
        if let Some(no_v5) = self.ways.no_v5.filter(|_| connect.version.is_v5()) {
            match no_v5 {
                NoV5::OldConnAck => self.outbox.push((line, vec![0x20, 2, 0, 1])),
                NoV5::NewConnAck => {
                    self.send(line, &Packet::ConnAck(ConnAck::refused(ReasonCode::UnsupportedProtocolVersion)));
                }
                NoV5::Silence => {}
            }
            return self.close(line);
        }
        if let Some(code) = self.ways.refuses {
            self.send(line, &Packet::ConnAck(ConnAck::refused(code)));
            return self.close(line);
        }
        self.accepted += 1;
        if let Some(before) = self.sessions.get(&name).and_then(|session| session.line) {
            self.close(before);
        }
        if connect.clean_start {
            self.sessions.remove(&name);
        }
        let known = self.sessions.contains_key(&name);
        self.log.push(format!("accepts {name}, whose session is there: {known}"));
        let session = self.sessions.entry(name.clone()).or_default();
        session.line = Some(line);
        session.lasting = if connect.version.is_v5() {
            connect.properties.session_expiry_interval.is_some_and(|seconds| seconds > 0)
        } else {
            !connect.clean_start
        };
        session.window = connect.properties.receive_maximum.map_or(usize::from(u16::MAX), |max| usize::from(max.get()));
        let mut ack = ConnAck { session_present: known, ..ConnAck::default() };
        if connect.version.is_v5() {
            ack.properties.receive_maximum = self.ways.receive_maximum.and_then(NonZeroU16::new);
            ack.properties.maximum_qos = self.ways.maximum_qos;
            ack.properties.retain_available = (!self.ways.retains).then_some(false);
            ack.properties.maximum_packet_size = self.ways.max_packet.and_then(NonZeroU32::new);
            ack.properties.subscription_identifier_available = (!self.ways.identifies).then_some(false);
        }
        self.send(line, &Packet::ConnAck(ack));
        self.resend(&name);
        self.pump(&name);
    }

    fn take_publish(&mut self, line: SocketId, publish: &Publish<'_>) {
        self.offered += 1;
        let carried = Carried::of(publish);
        if self.closes_on(&carried.topic) {
            return self.deny(line);
        }
        let v5 = self.version(line).is_some_and(Version::is_v5);
        let no_ids = publish.properties.subscription_identifiers.is_empty();
        assert!(publish.properties.topic_alias.is_none() && no_ids, "{publish:?}");
        let best = self.ways.maximum_qos.unwrap_or(QoS::ExactlyOnce);
        assert!(publish.qos <= best || !v5, "QoS above what the broker takes [MQTT-3.2.2-11]: {publish:?}");
        assert!(self.ways.retains || !publish.retain || !v5, "RETAIN that the broker does not take: {publish:?}");
        let Some(id) = publish.packet_id else {
            self.taken.push(carried.clone());
            return self.hand_on(&carried);
        };
        let window = if v5 { self.ways.receive_maximum } else { None }.map_or(usize::MAX, usize::from);
        let Some(state) = self.lines.get_mut(&line) else { return };
        let new = state.unanswered.insert(id);
        assert!(new, "packet id {id} is in use [MQTT-2.2.1-4]: {carried:?}");
        assert!(state.unanswered.len() <= window, "more than {window} messages under way [MQTT-3.3.4-9]");
        let (exactly_once, rolled_back) = (publish.qos == QoS::ExactlyOnce, self.has_rolled_back);
        let Some(session) = self.session_on(line) else { return };
        if exactly_once && session.received.contains(&id) {
            assert!(publish.dup || rolled_back, "the broker holds packet id {id} already: {carried:?}");
            return self.acknowledge(line, None, &Packet::PubRec(PubRec::new(id, ReasonCode::Success)));
        }
        let code = self.ways.answers;
        if exactly_once && !code.is_error() {
            let Some(session) = self.session_on(line) else { return };
            session.received.insert(id);
        }
        let taken = !code.is_error();
        if taken {
            self.taken.push(carried.clone());
            if self.ways.delivers_first {
                self.hand_on(&carried);
            }
        }
        if exactly_once {
            self.acknowledge(line, code.is_error().then_some(id), &Packet::PubRec(PubRec::new(id, code)));
        } else if code.allowed_in(PacketType::PubAck) {
            self.acknowledge(line, Some(id), &Packet::PubAck(PubAck::new(id, code)));
        } else {
            let [high, low] = id.get().to_be_bytes();
            self.free(line, Some(id));
            self.put_bytes(line, vec![0x40, 3, high, low, code.byte()]);
        }
        if taken && !self.ways.delivers_first {
            self.hand_on(&carried);
        }
    }

    fn closes_on(&self, name: &str) -> bool {
        self.ways.closes_on.is_some_and(|part| name.contains(part))
    }

    fn hand_on(&mut self, carried: &Carried) {
        if !self.ways.loses {
            self.route(carried);
        }
    }

    fn take_subscribe(&mut self, line: SocketId, subscribe: &Subscribe<'_>) {
        let mut codes = Vec::new();
        let mut fetched = Vec::new();
        let identifier = subscribe.subscription_identifier;
        assert!(self.ways.identifies || identifier.is_none(), "the broker knows no subscription identifiers");
        let id = subscribe.packet_id;
        let Some(state) = self.lines.get(&line) else { return };
        assert!(!state.unanswered.contains(&id), "packet id {id} is in use [MQTT-2.2.1-3]: {subscribe:?}");
        for item in subscribe.filters() {
            let (filter, options) = item;
            let filter = filter.expect("a filter").as_str().to_owned();
            self.asked.push(filter.clone());
            if self.closes_on(&filter) {
                return self.close(line);
            }
            if self.ways.refuses_filter.as_ref() == Some(&filter) {
                codes.push(ReasonCode::NotAuthorized);
                continue;
            }
            codes.push(ReasonCode::granted(options.qos));
            let Some(session) = self.session_on(line) else { return };
            let new = session.subscribe(&filter, options, identifier);
            fetched.push((filter, options, new));
        }
        if !self.version(line).is_some_and(Version::is_v5) {
            codes.iter_mut().filter(|code| code.is_error()).for_each(|code| *code = ReasonCode::UnspecifiedError);
        }
        self.answer_subscription(line, &Packet::SubAck(SubAck::new(subscribe.packet_id, &codes)));
        for (filter, options, new) in fetched {
            self.send_retained(line, &filter, options, identifier, new);
        }
    }

    fn take_unsubscribe(&mut self, line: SocketId, unsubscribe: &Unsubscribe<'_>) {
        let mut codes = Vec::new();
        for filter in unsubscribe.filters() {
            let filter = filter.expect("a filter").as_str().to_owned();
            let Some(session) = self.session_on(line) else { return };
            let known = session.subscriptions.remove(&filter).is_some();
            if self.closes_on(&filter) {
                return self.close(line);
            }
            codes.push(if known { ReasonCode::Success } else { ReasonCode::NoSubscriptionExisted });
            self.forgotten.push(filter);
        }
        self.answer_subscription(line, &Packet::UnsubAck(UnsubAck::new(unsubscribe.packet_id, &codes)));
    }

    fn answer_subscription(&mut self, line: SocketId, packet: &Packet<'_>) {
        let Some(version) = self.version(line) else { return };
        let mut bytes = Vec::new();
        packet.encode(version, &mut bytes).expect("a packet of a broker");
        if self.ways.withholds_sub_acks {
            self.withheld_sub_acks.push((line, bytes));
        } else {
            self.put_bytes(line, bytes);
        }
    }

    fn session_on(&mut self, line: SocketId) -> Option<&mut Session> {
        let (client, _) = self.lines.get(&line)?.client.as_ref()?;
        self.sessions.get_mut(client)
    }

    /// The filters that it holds for any client, each as often as it is held.
    pub(crate) fn held(&self) -> Vec<String> {
        self.sessions.values().flat_map(|session| session.subscriptions.keys().cloned()).collect()
    }
}
