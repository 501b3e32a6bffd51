//! The client: the protocol without any I/O.

mod authentication;
mod connecting;
mod ending;
mod publishing;
mod receiving;
mod requests;
mod wire;

use std::time::Instant;

use tidegate_mqtt::{DecodeError, Packet, PacketType, Publish, RawPublish, split_frame};

use self::publishing::Sending;
use self::receiving::{ReceivedPairs, Receiving};
use self::requests::Requests;
use self::wire::Wire;
use crate::keep_alive::Due;
use crate::packet_ids::PacketIds;
use crate::{Direction, Disconnected, Event, Options, ProtocolError};

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
/// the bytes of [`Client::output`], and reports the number written with [`Client::advance_output`]. At
/// [`Client::next_deadline`] it calls [`Client::handle_deadline`]. After each call [`Client::poll_event`] may return
/// events. When [`Client::wants_close`] is true and the output is written, or the transport ends, the owner closes the
/// transport and calls [`Client::handle_closed`]; it may then open another one.
///
/// Messages of QoS 1 and 2 and the state of their delivery outlive connections. `now` must never go back.
#[derive(Debug)]
pub struct Client {
    /// The Client Identifier; the server may assign it.
    id: String,
    wire: Wire,
    packet_ids: PacketIds,
    sending: Sending,
    receiving: Receiving,
    requests: Requests,
    /// Whether a connection was accepted, so that the session is this client's own.
    has_session: bool,
    /// The beginning of a packet that has not arrived in full.
    input: Vec<u8>,
    tokens: Tokens,
}

/// Numbers of messages and requests, which their events name.
#[derive(Debug, Default)]
struct Tokens(u64);

impl Tokens {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

impl Client {
    /// A client that has no connection and no session. `now` is the time.
    pub fn new(options: Options, now: Instant) -> Self {
        Self {
            id: options.client_id.clone(),
            packet_ids: PacketIds::new(options.last_packet_id()),
            wire: Wire::new(options, now),
            sending: Sending::default(),
            receiving: Receiving::default(),
            requests: Requests::default(),
            has_session: false,
            input: Vec::new(),
            tokens: Tokens::default(),
        }
    }

    /// The client's options.
    pub fn options(&self) -> &Options {
        &self.wire.options
    }

    /// The Client Identifier: the client's own, or the server's.
    pub fn client_id(&self) -> &str {
        &self.id
    }

    /// Whether the server has accepted the connection and it is not over.
    pub fn is_connected(&self) -> bool {
        self.wire.is_connected()
    }

    /// The next event, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.wire.events.pop_front()
    }

    /// The bytes that the transport is to write next.
    pub fn output(&self) -> &[u8] {
        self.wire.output.pending()
    }

    /// The transport has written the first `count` bytes of [`Client::output`].
    pub fn advance_output(&mut self, now: Instant, count: usize) {
        self.wire.output.advance(count);
        self.sending.written(now, &mut self.wire);
        self.send_waiting(now);
    }

    /// Whether the transport is to be closed, once the output is written.
    pub fn wants_close(&self) -> bool {
        self.wire.phase == Phase::Ending
    }

    /// When to call [`Client::handle_deadline`], if no other call comes before.
    pub fn next_deadline(&self) -> Option<Instant> {
        match self.wire.phase {
            Phase::Connecting { deadline } => Some(deadline),
            Phase::Connected => self.wire.keep_alive.deadline().into_iter().chain(self.sending.deadline()).min(),
            Phase::Closed | Phase::Ending => None,
        }
    }

    /// Handles a deadline: pings, or gives the connection up. Calling it too early has no effect.
    pub fn handle_deadline(&mut self, now: Instant) {
        match self.wire.phase {
            Phase::Connecting { deadline } if now >= deadline => {
                self.end(Disconnected::ConnectTimeout);
            }
            Phase::Connected => {
                match self.wire.keep_alive.due(now) {
                    Due::Nothing => {}
                    Due::Ping => self.wire.ping(now),
                    Due::Gone => return self.end(Disconnected::KeepAliveTimeout),
                }
                if let Some(packet_id) = self.sending.overdue(now) {
                    self.end(Disconnected::ReleaseTimeout { packet_id });
                }
            }
            Phase::Connecting { .. } | Phase::Closed | Phase::Ending => {}
        }
    }

    /// The transport has read `bytes`, cut anywhere.
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) {
        if !self.wire.reads() {
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
        if self.wire.reads() && !input.is_empty() {
            self.input = input;
        }
    }

    /// Handles the packets that are complete, and returns how many bytes they have.
    fn read_packets(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut consumed = 0;
        while self.wire.reads() {
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
        if !self.wire.is_connected()
            && let Some(speaks) = another_protocol(bytes)
        {
            return Err(ProtocolError::AnotherProtocol { speaks });
        }
        let Some(frame) = split_frame(bytes, self.wire.options.max_packet_size())? else {
            return Ok(None);
        };
        let version = self.wire.options.version;
        if self.wire.options.trace
            && let Ok(packet) = Packet::decode(version, &frame)
        {
            self.wire.trace(Direction::Received, &packet);
        }
        if frame.packet_type() == PacketType::Publish && self.wire.is_connected() {
            let mut pairs = ReceivedPairs::new(self.wire.options.mark);
            let decoded = Publish::decode_with_pairs(version, frame.first_byte, frame.body, |name, value| {
                pairs.add(name, value);
            });
            match decoded {
                Ok(packet) => self.receiving.handle_publish(now, &packet, pairs, &mut self.wire)?,
                Err(DecodeError::InvalidTopicName { error, .. }) => {
                    let raw = RawPublish::decode(version, frame.first_byte, frame.body)?;
                    self.receiving.pass_over(now, &raw, error, &mut self.wire)?;
                }
                Err(error) => return Err(error.into()),
            }
        } else {
            self.handle_packet(now, &Packet::decode_of_server(version, &frame)?)?;
        }
        Ok(Some(frame.total_len))
    }

    fn handle_packet(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), ProtocolError> {
        let unexpected = ProtocolError::UnexpectedPacket { packet: packet.packet_type() };
        if !self.wire.is_connected() {
            return match packet {
                Packet::ConnAck(packet) => self.handle_connack(now, packet),
                Packet::Auth(packet) => self.handle_auth(packet),
                // A server may close the connection before it accepts it, after an AUTH exchange for example.
                Packet::Disconnect(packet) => self.handle_disconnect(packet),
                _ => Err(unexpected),
            };
        }
        match packet {
            Packet::PubAck(packet) => {
                let sends_next = self.sending.handle_puback(packet, &mut self.packet_ids, &mut self.wire)?;
                if sends_next {
                    self.send_waiting(now);
                }
                Ok(())
            }
            Packet::PubRec(packet) => {
                let sends_next = self.sending.handle_pubrec(now, packet, &mut self.packet_ids, &mut self.wire)?;
                if sends_next {
                    self.send_waiting(now);
                }
                Ok(())
            }
            Packet::PubRel(packet) => {
                self.receiving.handle_pubrel(now, packet, &mut self.wire);
                Ok(())
            }
            Packet::PubComp(packet) => {
                let sends_next = self.sending.handle_pubcomp(now, packet, &mut self.packet_ids, &mut self.wire)?;
                if sends_next {
                    self.send_waiting(now);
                }
                Ok(())
            }
            Packet::SubAck(packet) => self.requests.handle_suback(packet, &mut self.packet_ids, &mut self.wire),
            Packet::UnsubAck(packet) => self.requests.handle_unsuback(packet, &mut self.packet_ids, &mut self.wire),
            Packet::PingResp(_) => {
                self.wire.keep_alive.answered();
                Ok(())
            }
            Packet::Disconnect(packet) => self.handle_disconnect(packet),
            Packet::Auth(packet) => self.handle_auth(packet),
            Packet::Connect(_)
            | Packet::ConnAck(_)
            | Packet::Subscribe(_)
            | Packet::Unsubscribe(_)
            | Packet::PingReq(_)
            // It is handled where it is decoded.
            | Packet::Publish(_) => Err(unexpected),
        }
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
