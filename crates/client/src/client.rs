//! The client: the protocol without any I/O.

mod authentication;
mod connecting;
mod ending;
mod publishing;
mod receiving;
mod requests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use tidegate_mqtt::{EncodeError, Packet, PacketId, PacketType, PingReq, split_frame};

use crate::aliases::{InboundAliases, OutboundAliases};
use crate::incoming::Incoming;
use crate::inherited::Inherited;
use crate::keep_alive::{Due, KeepAlive};
use crate::message::ConnectionNumber;
use crate::outgoing::Outgoing;
use crate::output::Output;
use crate::packet_ids::PacketIds;
use crate::releases::Releases;
use crate::trace;
use crate::{Direction, Disconnected, Event, Options, ProtocolError, ServerLimits, Trace};
use requests::Request;

/// How far the present connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no transport.
    Closed,
    /// The CONNECT packet was sent; the CONNACK must arrive by the deadline.
    Connecting { deadline: Instant },
    /// The server has accepted the connection.
    Connected,
    /// The connection is over; the rest of the output is still written, input is ignored.
    Ending,
}

/// An MQTT client without a transport and without a clock.
///
/// Its owner opens a transport and calls [`Client::open`]. It passes the bytes read to [`Client::handle_input`], writes
/// those of [`Client::output`], and reports the number written with [`Client::advance_output`]. At
/// [`Client::next_deadline`] it calls [`Client::handle_deadline`]. After each call [`Client::poll_event`] may return
/// events. When [`Client::wants_close`] is true and the output is written, or the transport ends, the owner closes the
/// transport and calls [`Client::handle_closed`]; it may then open another one.
///
/// Messages of QoS 1 and 2 and the state of their delivery outlive connections. `now` must never go back.
#[derive(Debug)]
pub struct Client {
    options: Options,
    /// The Client Identifier; the server may assign it.
    id: String,
    phase: Phase,
    connection: ConnectionNumber,
    /// The server's limits, by the CONNACK of the present connection.
    server: ServerLimits,
    keep_alive: KeepAlive,
    inbound_aliases: InboundAliases,
    outbound_aliases: OutboundAliases,
    packet_ids: PacketIds,
    /// Set while the server's session is older than this client.
    inherited: Option<Inherited>,
    /// Whether a connection was accepted, so that the session is this client's own.
    has_session: bool,
    outgoing: Outgoing,
    incoming: Incoming,
    requests: BTreeMap<PacketId, Request>,
    releases: Releases,
    /// The beginning of a packet that has not arrived in full.
    input: Vec<u8>,
    output: Output,
    events: VecDeque<Event>,
    next_token: u64,
}

impl Client {
    /// A client that has no connection and no session. `now` is the time.
    pub fn new(options: Options, now: Instant) -> Self {
        Self {
            id: options.client_id.clone(),
            phase: Phase::Closed,
            connection: ConnectionNumber::default(),
            server: ServerLimits::NONE,
            keep_alive: KeepAlive::new(0, now),
            inbound_aliases: InboundAliases::new(0),
            outbound_aliases: OutboundAliases::default(),
            packet_ids: PacketIds::new(options.last_packet_id()),
            inherited: None,
            has_session: false,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            requests: BTreeMap::new(),
            releases: Releases::default(),
            input: Vec::new(),
            output: Output::default(),
            events: VecDeque::new(),
            next_token: 0,
            options,
        }
    }

    /// The client's options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The Client Identifier: the client's own, or the one that the server has assigned.
    pub fn client_id(&self) -> &str {
        &self.id
    }

    /// Whether the server has accepted the connection and it is not over.
    pub fn is_connected(&self) -> bool {
        self.phase == Phase::Connected
    }

    /// The next event, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The bytes that the transport is to write next.
    pub fn output(&self) -> &[u8] {
        self.output.pending()
    }

    /// The transport has written the first `count` bytes of [`Client::output`].
    pub fn advance_output(&mut self, now: Instant, count: usize) {
        self.output.advance(count);
        while let Some(token) = self.output.pop_written() {
            self.published(token);
        }
        self.releases.written(now, self.output.written(), self.options.release_timeout);
        self.send_waiting(now);
    }

    /// Whether the transport is to be closed, once the output is written.
    pub fn wants_close(&self) -> bool {
        self.phase == Phase::Ending
    }

    /// When to call [`Client::handle_deadline`], if no other call comes before.
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Connecting { deadline } => Some(deadline),
            Phase::Connected => self.keep_alive.deadline().into_iter().chain(self.releases.deadline()).min(),
            Phase::Closed | Phase::Ending => None,
        }
    }

    /// Handles a deadline: pings, or gives the connection up. Calling it too early has no effect.
    pub fn handle_deadline(&mut self, now: Instant) {
        match self.phase {
            Phase::Connecting { deadline } if now >= deadline => {
                self.end(Disconnected::ConnectTimeout);
            }
            Phase::Connected => {
                match self.keep_alive.due(now) {
                    Due::Nothing => {}
                    Due::Ping => self.ping(now),
                    Due::Gone => return self.end(Disconnected::KeepAliveTimeout),
                }
                if let Some(packet_id) = self.releases.overdue(now) {
                    self.end(Disconnected::ReleaseTimeout { packet_id });
                }
            }
            Phase::Connecting { .. } | Phase::Closed | Phase::Ending => {}
        }
    }

    fn ping(&mut self, now: Instant) {
        // A PINGREQ always has an encoding.
        let _ = self.send(now, |out| {
            PingReq.encode(out);
            Ok::<(), EncodeError>(())
        });
        self.keep_alive.ping_sent(now);
    }

    /// The transport has read `bytes`, cut anywhere.
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) {
        if !self.reads() {
            return;
        }
        let mut input = std::mem::take(&mut self.input);
        if input.is_empty() {
            let consumed = self.read_packets(now, bytes);
            input.extend_from_slice(bytes.get(consumed..).unwrap_or(&[]));
        } else {
            input.extend_from_slice(bytes);
            let consumed = self.read_packets(now, &input);
            input.drain(..consumed);
        }
        if self.reads() && !input.is_empty() {
            self.input = input;
        }
    }

    fn reads(&self) -> bool {
        matches!(self.phase, Phase::Connecting { .. } | Phase::Connected)
    }

    /// Handles the packets that are complete, and returns how many bytes they have.
    fn read_packets(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut consumed = 0;
        while self.reads() {
            let rest = bytes.get(consumed..).unwrap_or(&[]);
            match self.read_packet(now, rest) {
                Ok(Some(len)) => consumed += len,
                Ok(None) => break,
                Err(error) => self.fail(now, error),
            }
        }
        consumed
    }

    /// Handles the packet at the front of `bytes`, and returns how many bytes it has; `None` when more are needed.
    fn read_packet(&mut self, now: Instant, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        if self.phase != Phase::Connected
            && let Some(speaks) = another_protocol(bytes)
        {
            return Err(ProtocolError::AnotherProtocol { speaks });
        }
        let Some(frame) = split_frame(bytes, self.options.max_packet_size())? else {
            return Ok(None);
        };
        let packet = Packet::decode(self.options.version, &frame)?;
        if self.options.trace {
            self.trace(Direction::Received, &packet);
        }
        self.handle_packet(now, &packet)?;
        Ok(Some(frame.total_len))
    }

    fn handle_packet(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), ProtocolError> {
        let unexpected = ProtocolError::UnexpectedPacket { packet: packet.packet_type() };
        if self.phase != Phase::Connected {
            return match packet {
                Packet::ConnAck(packet) => self.handle_connack(now, packet),
                Packet::Auth(packet) => self.handle_auth(packet),
                // A server may close the connection before it accepts it, after an AUTH exchange for example.
                Packet::Disconnect(packet) => self.handle_disconnect(packet),
                _ => Err(unexpected),
            };
        }
        match packet {
            Packet::Publish(packet) => self.handle_publish(now, packet),
            Packet::PubAck(packet) => self.handle_puback(now, packet),
            Packet::PubRec(packet) => self.handle_pubrec(now, packet),
            Packet::PubRel(packet) => {
                self.handle_pubrel(now, packet);
                Ok(())
            }
            Packet::PubComp(packet) => self.handle_pubcomp(now, packet),
            Packet::SubAck(packet) => self.handle_suback(packet),
            Packet::UnsubAck(packet) => self.handle_unsuback(packet),
            Packet::PingResp(_) => {
                self.keep_alive.answered();
                Ok(())
            }
            Packet::Disconnect(packet) => self.handle_disconnect(packet),
            Packet::Auth(packet) => self.handle_auth(packet),
            Packet::Connect(_)
            | Packet::ConnAck(_)
            | Packet::Subscribe(_)
            | Packet::Unsubscribe(_)
            | Packet::PingReq(_) => Err(unexpected),
        }
    }

    /// Appends a packet to the output.
    fn send<E>(&mut self, now: Instant, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let len = self.output.buffer().len();
        encode(self.output.buffer())?;
        self.keep_alive.sent(now);
        if self.options.trace {
            let sent = self.output.since(len);
            if let Some((packet, detail)) = trace::describe_bytes(self.options.version, sent) {
                let packet = packet.packet_type();
                self.push_trace(Direction::Sent, packet, detail);
            }
        }
        Ok(())
    }

    fn trace(&mut self, direction: Direction, packet: &Packet<'_>) {
        self.push_trace(direction, packet.packet_type(), trace::describe(packet));
    }

    fn push_trace(&mut self, direction: Direction, packet: PacketType, detail: String) {
        self.events.push_back(Event::Trace(Box::new(Trace { direction, packet, detail })));
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }
}

/// User Properties of a packet, to be kept.
fn owned_pairs(pairs: &tidegate_mqtt::UserProperties<'_>) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The protocol of a server that is not an MQTT server, as far as its first bytes show: a TLS alert, or a line of HTTP.
/// No packet of an MQTT server begins like either.
fn another_protocol(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x15, 0x03, ..] => Some("TLS"),
        [b'H', b'T', b'T', b'P', ..] => Some("HTTP"),
        _ => None,
    }
}
