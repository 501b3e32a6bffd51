//! A client that blocks: it does one thing at a time, returns the received packets, and waits no longer than its limit.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use tidegate_mqtt::{
    ConnAck, Connect, DecodeError, Disconnect, EncodeError, FrameError, MAX_PACKET_SIZE, Packet, PacketId, PacketType,
    PingReq, PubAck, PubComp, PubRec, PubRel, Publish, QoS, ReasonCode, Subscribe, SubscriptionOptions, Subscriptions,
    TopicError, TopicFilter, UserProperties, Version, split_frame,
};

use crate::load::plan::Target;

/// How long an answer is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// A received message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    /// Sent with a topic alias in place of its topic.
    pub(crate) aliased: bool,
    pub(crate) subscription_identifiers: Vec<u32>,
    pub(crate) user_properties: Vec<(String, String)>,
    pub(crate) content_type: Option<String>,
    pub(crate) response_topic: Option<String>,
    pub(crate) correlation_data: Option<Vec<u8>>,
    pub(crate) expiry: Option<u32>,
}

/// A packet as far as a check looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Message(Message),
    /// The codes of a SUBACK.
    Granted(Vec<u8>),
    /// PUBACK or PUBCOMP, or a PUBREC that refuses.
    Acknowledged(u8),
    Pong,
    Other,
}

/// An accepted connection.
pub(crate) struct Session {
    stream: TcpStream,
    version: Version,
    received: Vec<u8>,
    /// Messages received while another packet was awaited.
    waiting: Vec<Message>,
    packet_id: PacketId,
    /// Names behind the aliases that the broker gave.
    aliases: Vec<(NonZeroU16, String)>,
}

/// The answer to a CONNECT.
pub(crate) struct Accepted<T> {
    pub(crate) session: Session,
    /// The part of the CONNACK that the caller took.
    pub(crate) said: T,
}

/// Why a conversation with a broker ended early.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The name of the host leads nowhere.
    #[error("the host has no address")]
    NoAddress,
    /// A system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
    /// A packet of ours cannot be written in this version of MQTT.
    #[error("{0}")]
    Encode(#[from] EncodeError),
    /// A topic or filter of the probe is invalid.
    #[error("{0}")]
    Topic(#[from] TopicError),
    /// The broker sent bytes that are no packet.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// The broker sent a packet that cannot be read.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// The broker refused the connection.
    #[error("refused: {}", .0.text())]
    Refused(ReasonCode),
    /// The broker answered a CONNECT with another packet than a CONNACK.
    #[error("CONNECT was answered by {0:?}")]
    NoConnAck(PacketType),
    /// A SUBACK is empty.
    #[error("a SUBACK without a code")]
    EmptySubAck,
    /// Another packet came than the awaited one.
    #[error("no {0}")]
    Missing(&'static str),
    /// No answer came in time.
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
    /// The awaited message did not come.
    #[error("the message did not come")]
    NoMessage,
    /// The broker sent a DISCONNECT.
    #[error("the broker disconnects: {}", .0.text())]
    Disconnected(ReasonCode),
    /// The broker closed the connection.
    #[error("the broker closes the connection")]
    Closed,
    /// A thread of the probe ended by a panic.
    #[error("a check has ended by a panic")]
    Panicked,
}

impl SessionError {
    /// Whether the broker answered, and did not let the client in.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Closed)
    }
}

pub(crate) type Result<T> = std::result::Result<T, SessionError>;

impl Session {
    /// Connects; `take` looks at the CONNACK while it is there.
    pub(crate) fn open<T>(
        target: &Target,
        connect: &Connect<'_>,
        take: impl Fn(&ConnAck<'_>) -> T,
    ) -> Result<Accepted<T>> {
        let place = (target.host.as_str(), target.port);
        let address = place.to_socket_addrs()?.next().ok_or(SessionError::NoAddress)?;
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut session = Self {
            stream,
            version: connect.version,
            received: Vec::new(),
            waiting: Vec::new(),
            packet_id: PacketId::MIN,
            aliases: Vec::new(),
        };
        let mut out = Vec::new();
        let (user, password) = match &target.credentials {
            Some(credentials) => (Some(credentials.username.as_str()), Some(credentials.password.as_bytes())),
            None => (connect.username, connect.password),
        };
        Connect { username: user, password, ..*connect }.encode(&mut out)?;
        session.write(&out)?;
        let said = session.read_packet(PATIENCE, |packet| match packet {
            Packet::ConnAck(connack) if connack.reason_code == ReasonCode::Success => Ok(take(connack)),
            Packet::ConnAck(connack) => Err(SessionError::Refused(connack.reason_code)),
            other => Err(SessionError::NoConnAck(other.packet_type())),
        })??;
        Ok(Accepted { session, said })
    }

    /// Subscribes to one filter and gives the code of the answer.
    pub(crate) fn subscribe(&mut self, filter: &str, options: SubscriptionOptions, id: Option<u32>) -> Result<u8> {
        let filter = TopicFilter::new(filter)?;
        let subscriptions = [(filter, options)];
        self.packet_id = self.packet_id.next();
        let packet = Subscribe {
            packet_id: self.packet_id,
            subscription_identifier: id,
            user_properties: UserProperties::EMPTY,
            subscriptions: Subscriptions::new(&subscriptions),
        };
        let mut out = Vec::new();
        packet.encode(self.version, &mut out)?;
        self.write(&out)?;
        match self.wait_for(PATIENCE, |got| matches!(got, Got::Granted(_)))? {
            Got::Granted(codes) => codes.first().copied().ok_or(SessionError::EmptySubAck),
            _ => Err(SessionError::Missing("SUBACK")),
        }
    }

    /// Publishes, and waits until the broker has acknowledged it. Gives the code of the acknowledgement.
    pub(crate) fn publish(&mut self, publish: &Publish<'_>) -> Result<u8> {
        self.packet_id = self.packet_id.next();
        let packet_id = (publish.qos != QoS::AtMostOnce).then_some(self.packet_id);
        let mut out = Vec::new();
        Publish { packet_id, ..*publish }.encode(self.version, &mut out)?;
        self.write(&out)?;
        if packet_id.is_none() {
            return Ok(0);
        }
        match self.wait_for(PATIENCE, |got| matches!(got, Got::Acknowledged(_)))? {
            Got::Acknowledged(code) => Ok(code),
            _ => Err(SessionError::Missing("acknowledgement")),
        }
    }

    /// The next message that `wanted` takes; others are left out. `None` when none came in time.
    pub(crate) fn message(&mut self, limit: Duration, wanted: impl Fn(&Message) -> bool) -> Result<Option<Message>> {
        if let Some(place) = self.waiting.iter().position(&wanted) {
            return Ok(Some(self.waiting.remove(place)));
        }
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            match self.next(left) {
                Ok(Got::Message(message)) if wanted(&message) => return Ok(Some(message)),
                Ok(_) => {}
                Err(Ended::Late) => return Ok(None),
                Err(Ended::Broken(why)) => return Err(why),
            }
        }
    }

    /// Waits until everything that was sent before was worked off.
    pub(crate) fn barrier(&mut self) -> Result<()> {
        let mut out = Vec::new();
        PingReq.encode(&mut out);
        self.write(&out)?;
        self.wait_for(PATIENCE, |got| *got == Got::Pong).map(drop)
    }

    /// Sends a DISCONNECT.
    pub(crate) fn leave(mut self) {
        let mut out = Vec::new();
        // It need not arrive any more.
        let _ = Disconnect::new(ReasonCode::Success).encode(self.version, &mut out);
        let _ = self.write(&out);
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    fn wait_for(&mut self, limit: Duration, wanted: impl Fn(&Got) -> bool) -> Result<Got> {
        let until = Instant::now() + limit;
        loop {
            match self.next(until.saturating_duration_since(Instant::now())) {
                Ok(got) if wanted(&got) => return Ok(got),
                Ok(Got::Message(message)) => self.waiting.push(message),
                Ok(_) => {}
                Err(Ended::Late) => return Err(SessionError::Late(limit)),
                Err(Ended::Broken(why)) => return Err(why),
            }
        }
    }

    /// The next packet; it is acknowledged if it must be.
    fn next(&mut self, limit: Duration) -> std::result::Result<Got, Ended> {
        let (version, mut out) = (self.version, Vec::new());
        let mut alias = None;
        let mut got = self.read_packet_or(limit, |packet| match packet {
            Packet::Publish(publish) => {
                acknowledge(publish, version, &mut out);
                alias = publish.properties.topic_alias;
                Ok(Got::Message(owned(publish)))
            }
            Packet::PubRel(release) => {
                // Encoding an acknowledgement without properties does not fail.
                let _ = PubComp::new(release.packet_id, ReasonCode::Success).encode(version, &mut out);
                Ok(Got::Other)
            }
            Packet::PubRec(record) if record.reason_code.is_error() => Ok(Got::Acknowledged(record.reason_code.byte())),
            Packet::PubRec(record) => {
                let _ = PubRel::new(record.packet_id, ReasonCode::Success).encode(version, &mut out);
                Ok(Got::Other)
            }
            Packet::PubAck(ack) => Ok(Got::Acknowledged(ack.reason_code.byte())),
            Packet::PubComp(complete) => Ok(Got::Acknowledged(complete.reason_code.byte())),
            Packet::SubAck(suback) => Ok(Got::Granted(suback.reason_codes.iter().map(ReasonCode::byte).collect())),
            Packet::PingResp(_) => Ok(Got::Pong),
            Packet::Disconnect(disconnect) => Err(SessionError::Disconnected(disconnect.reason_code)),
            _ => Ok(Got::Other),
        })?;
        self.write(&out).map_err(Ended::Broken)?;
        if let (Got::Message(message), Some(alias)) = (&mut got, alias) {
            self.resolve(alias, message);
        }
        Ok(got)
    }

    fn resolve(&mut self, alias: NonZeroU16, message: &mut Message) {
        if message.topic.is_empty() {
            message.aliased = true;
            let known = self.aliases.iter().rev().find(|(number, _)| *number == alias);
            message.topic = known.map(|(_, topic)| topic.clone()).unwrap_or_default();
        } else {
            self.aliases.push((alias, message.topic.clone()));
        }
    }

    fn read_packet<T>(&mut self, limit: Duration, take: impl FnOnce(&Packet<'_>) -> T) -> Result<T> {
        self.read_packet_or(limit, |packet| Ok(take(packet))).map_err(|ended| match ended {
            Ended::Late => SessionError::Late(limit),
            Ended::Broken(why) => why,
        })
    }

    fn read_packet_or<T>(
        &mut self,
        limit: Duration,
        take: impl FnOnce(&Packet<'_>) -> Result<T>,
    ) -> std::result::Result<T, Ended> {
        let until = Instant::now() + limit;
        loop {
            if let Some(frame) = split_frame(&self.received, MAX_PACKET_SIZE).map_err(broken)? {
                let packet = Packet::decode(self.version, &frame).map_err(broken)?;
                let taken = take(&packet).map_err(Ended::Broken);
                let len = frame.total_len;
                self.received.drain(..len);
                return taken;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Ended::Late);
            }
            self.stream.set_read_timeout(Some(left)).map_err(broken)?;
            let mut buffer = vec![0; 65_536];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(Ended::Broken(SessionError::Closed)),
                Ok(read) => self.received.extend_from_slice(&buffer[..read]),
                Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                    return Err(Ended::Late);
                }
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

/// Why there is no packet.
enum Ended {
    Late,
    Broken(SessionError),
}

fn broken(error: impl Into<SessionError>) -> Ended {
    Ended::Broken(error.into())
}

fn acknowledge(publish: &Publish<'_>, version: Version, out: &mut Vec<u8>) {
    let Some(id) = publish.packet_id else { return };
    // Encoding an acknowledgement without properties does not fail.
    let _ = match publish.qos {
        QoS::ExactlyOnce => PubRec::new(id, ReasonCode::Success).encode(version, out),
        _ => PubAck::new(id, ReasonCode::Success).encode(version, out),
    };
}

fn owned(publish: &Publish<'_>) -> Message {
    let properties = &publish.properties;
    Message {
        topic: publish.topic.map(|topic| topic.to_string()).unwrap_or_default(),
        payload: publish.payload.to_vec(),
        qos: publish.qos.bits(),
        retain: publish.retain,
        aliased: false,
        subscription_identifiers: properties.subscription_identifiers.iter().collect(),
        user_properties: properties.user_properties.iter().map(|(a, b)| (a.to_owned(), b.to_owned())).collect(),
        content_type: properties.content_type.map(str::to_owned),
        response_topic: properties.response_topic.map(|topic| topic.to_string()),
        correlation_data: properties.correlation_data.map(<[u8]>::to_vec),
        expiry: properties.message_expiry,
    }
}
