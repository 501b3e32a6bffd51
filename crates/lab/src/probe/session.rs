//! A client that blocks: it does one thing at a time, returns the received packets, and waits no longer than its limit.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use tidegate_mqtt::{
    ConnAck, Connect, Disconnect, MAX_PACKET_SIZE, Packet, PacketId, PingReq, PubAck, PubComp, PubRec, PubRel, Publish,
    QoS, ReasonCode, Subscribe, SubscriptionOptions, Subscriptions, TopicFilter, UserProperties, Version, split_frame,
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
    /// What the caller took out of the CONNACK.
    pub(crate) said: T,
}

type Result<T> = std::result::Result<T, String>;

impl Session {
    /// Connects; `take` looks at the CONNACK while it is there.
    pub(crate) fn open<T>(
        target: &Target,
        connect: &Connect<'_>,
        take: impl Fn(&ConnAck<'_>) -> T,
    ) -> Result<Accepted<T>> {
        let place = (target.host.as_str(), target.port);
        let address = place.to_socket_addrs().map_err(text)?.next().ok_or("the host has no address")?;
        let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(text)?;
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
        Connect { username: user, password, ..*connect }.encode(&mut out).map_err(text)?;
        session.write(&out)?;
        let said = session.read_packet(PATIENCE, |packet| match packet {
            Packet::ConnAck(connack) if connack.reason_code == ReasonCode::Success => Ok(take(connack)),
            Packet::ConnAck(connack) => Err(format!("refused: {}", connack.reason_code.text())),
            other => Err(format!("CONNECT was answered by {:?}", other.packet_type())),
        })??;
        Ok(Accepted { session, said })
    }

    /// Subscribes to one filter and gives the code of the answer.
    pub(crate) fn subscribe(&mut self, filter: &str, options: SubscriptionOptions, id: Option<u32>) -> Result<u8> {
        let filter = TopicFilter::new(filter).map_err(text)?;
        let subscriptions = [(filter, options)];
        self.packet_id = self.packet_id.next();
        let packet = Subscribe {
            packet_id: self.packet_id,
            subscription_identifier: id,
            user_properties: UserProperties::EMPTY,
            subscriptions: Subscriptions::new(&subscriptions),
        };
        let mut out = Vec::new();
        packet.encode(self.version, &mut out).map_err(text)?;
        self.write(&out)?;
        match self.wait_for(PATIENCE, |got| matches!(got, Got::Granted(_)))? {
            Got::Granted(codes) => codes.first().copied().ok_or_else(|| "a SUBACK without a code".to_owned()),
            _ => Err("no SUBACK".to_owned()),
        }
    }

    /// Publishes, and waits until the broker has acknowledged it. Gives the code of the acknowledgement.
    pub(crate) fn publish(&mut self, publish: &Publish<'_>) -> Result<u8> {
        self.packet_id = self.packet_id.next();
        let packet_id = (publish.qos != QoS::AtMostOnce).then_some(self.packet_id);
        let mut out = Vec::new();
        Publish { packet_id, ..*publish }.encode(self.version, &mut out).map_err(text)?;
        self.write(&out)?;
        if packet_id.is_none() {
            return Ok(0);
        }
        match self.wait_for(PATIENCE, |got| matches!(got, Got::Acknowledged(_)))? {
            Got::Acknowledged(code) => Ok(code),
            _ => Err("no acknowledgement".to_owned()),
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
        self.stream.write_all(bytes).map_err(text)
    }

    fn wait_for(&mut self, limit: Duration, wanted: impl Fn(&Got) -> bool) -> Result<Got> {
        let until = Instant::now() + limit;
        loop {
            match self.next(until.saturating_duration_since(Instant::now())) {
                Ok(got) if wanted(&got) => return Ok(got),
                Ok(Got::Message(message)) => self.waiting.push(message),
                Ok(_) => {}
                Err(Ended::Late) => return Err(format!("no answer within {} s", limit.as_secs())),
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
            Packet::Disconnect(disconnect) => Err(format!("the broker disconnects: {}", disconnect.reason_code.text())),
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
            Ended::Late => format!("no answer within {} s", limit.as_secs()),
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
            let broken = |error: &dyn std::fmt::Display| Ended::Broken(error.to_string());
            if let Some(frame) = split_frame(&self.received, MAX_PACKET_SIZE).map_err(|error| broken(&error))? {
                let packet = Packet::decode(self.version, &frame).map_err(|error| broken(&error))?;
                let taken = take(&packet).map_err(Ended::Broken);
                let len = frame.total_len;
                self.received.drain(..len);
                return taken;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Ended::Late);
            }
            self.stream.set_read_timeout(Some(left)).map_err(|error| broken(&error))?;
            let mut buffer = vec![0; 65_536];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(Ended::Broken("the broker closes the connection".to_owned())),
                Ok(read) => self.received.extend_from_slice(&buffer[..read]),
                Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                    return Err(Ended::Late);
                }
                Err(error) => return Err(broken(&error)),
            }
        }
    }
}

/// Why there is no packet.
enum Ended {
    Late,
    Broken(String),
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
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
