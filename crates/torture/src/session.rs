//! A client's identity over connections: opens, speaks, and loses its connection, and knows what the broker has
//! promised.

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use mio::{Interest, Registry, Token};
use tidegate_mqtt::{
    Connect, ConnectProperties, Disconnect, Packet, PingReq, QoS, ReasonCode, TopicName, Version, Will, WillProperties,
};

use crate::failure::Failure;
use crate::login;
use crate::wire::{Incoming, Wire};

/// How long a client waits after a refused connection before it tries again.
const AGAIN: Duration = Duration::from_millis(20);
/// How long a client of several nodes waits for CONNACK before it tries the next one.
const CONNACK_PATIENCE: Duration = Duration::from_secs(2);

/// The phase of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Without a connection.
    Away,
    /// CONNECT is under way.
    Opening,
    /// CONNACK was received.
    Open,
}

/// The will that the broker publishes when a connection ends without DISCONNECT.
#[derive(Clone, Debug)]
pub(crate) struct Testament {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: QoS,
}

/// A client id, its connection, and whether the broker keeps a session for it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) name: String,
    pub(crate) version: Version,
    /// The session outlives the connection.
    durable: bool,
    token: Token,
    wire: Option<Wire>,
    /// An earlier connection that was open when this client connected again: the broker must end it.
    former: Option<Wire>,
    /// The broker has notified the last one that another connection has taken its session.
    pub(crate) former_taken: bool,
    /// The will of the next connection.
    pub(crate) will: Option<Testament>,
    pub(crate) phase: Phase,
    /// The broker has confirmed a session that must be there next time.
    pub(crate) confirmed: bool,
    /// Attempts to connect so far; events carry it.
    pub(crate) epoch: u32,
    /// How many PUBLISH packets the broker takes at once.
    pub(crate) receive_maximum: u16,
    /// How many PUBLISH packets this client takes at once; MQTT 5.0 only.
    takes: Option<NonZeroU16>,
    /// Not before then is a connection tried again.
    not_before: Option<Instant>,
    /// PINGREQ packets without an answer.
    pub(crate) pings: u32,
    /// The port of the last connection.
    pub(crate) port: u16,
    /// When CONNECT was sent.
    asked: Instant,
    /// The place of the only port that it connects to; `None` for all in turn.
    pub(crate) home: Option<usize>,
}

impl Session {
    /// A client that is away.
    pub(crate) fn new(name: String, version: Version, durable: bool, token: Token) -> Self {
        Self {
            name,
            version,
            durable,
            token,
            wire: None,
            former: None,
            former_taken: false,
            will: None,
            phase: Phase::Away,
            confirmed: false,
            epoch: 0,
            receive_maximum: u16::MAX,
            takes: None,
            not_before: None,
            pings: 0,
            port: 0,
            asked: Instant::now(),
            home: None,
        }
    }

    /// Limits how many unacknowledged messages the broker may send.
    pub(crate) fn taking(mut self, count: Option<NonZeroU16>) -> Self {
        self.takes = count;
        self
    }

    /// True when a connection can be used.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Connects and sends CONNECT. Nothing happens when the client is not away or has just been refused. With several
    /// ports each connection takes the next one, and a CONNACK that does not come in time is waited for no longer.
    pub(crate) fn open(&mut self, ports: &[u16], registry: &Registry, now: Instant) -> Result<(), Failure> {
        if ports.len() > 1 && self.phase == Phase::Opening && now > self.asked + CONNACK_PATIENCE {
            self.lost(now);
        }
        if self.phase != Phase::Away || self.not_before.is_some_and(|then| now < then) {
            return Ok(());
        }
        let attempt = self.home.unwrap_or(self.token.0.wrapping_add(self.epoch as usize));
        self.epoch += 1;
        self.port = ports.get(attempt % ports.len().max(1)).copied().unwrap_or_default();
        self.asked = now;
        let Ok(mut wire) = Wire::dial(self.port, self.version) else {
            self.not_before = Some(now + AGAIN);
            return Ok(());
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(wire.source(), self.token, interest).map_err(Failure::system("registering a socket"))?;
        let session_expiry_interval = self.durable.then_some(u32::MAX);
        let will = match &self.will {
            Some(Testament { topic, payload, qos }) => Some(Will {
                topic: TopicName::new(topic)?,
                payload,
                qos: *qos,
                retain: false,
                properties: WillProperties::default(),
            }),
            None => None,
        };
        let (username, password) = login::shown();
        wire.push(&Packet::Connect(Connect {
            version: self.version,
            bridge: false,
            clean_start: !self.durable,
            keep_alive: 0,
            client_id: &self.name,
            will,
            username,
            password,
            properties: ConnectProperties {
                session_expiry_interval,
                receive_maximum: self.takes,
                ..ConnectProperties::default()
            },
        }))?;
        self.wire = Some(wire);
        self.phase = Phase::Opening;
        self.pings = 0;
        self.flush();
        Ok(())
    }

    /// Leaves the connection open and connects again, as if it were forgotten. False when an earlier one is still open,
    /// or none is open.
    pub(crate) fn take_over(&mut self) -> bool {
        if !self.is_open() || self.former.is_some() {
            return false;
        }
        self.former = self.wire.take();
        self.former_taken = false;
        self.cut();
        true
    }

    /// True while a connection is open that this client has replaced by another one.
    pub(crate) fn has_former(&self) -> bool {
        self.former.is_some()
    }

    /// Reads the former connection to its end. Its messages are not acknowledged, so they have to come again.
    pub(crate) fn watch_former(&mut self) {
        if let Some(wire) = &mut self.former {
            let alive = wire.fill();
            let taken = Incoming::Disconnect { code: ReasonCode::SessionTakenOver };
            self.former_taken |= wire.take().0.contains(&taken);
            if !alive {
                self.former = None;
            }
        }
    }

    /// Closes the former connection.
    pub(crate) fn drop_former(&mut self) {
        self.former = None;
    }

    /// Notes what CONNACK says. True when the broker has forgotten a session that it had confirmed.
    pub(crate) fn opened(&mut self, present: bool, receive_maximum: u16) -> bool {
        let forgotten = self.confirmed && !present;
        self.phase = Phase::Open;
        self.confirmed = self.durable;
        self.receive_maximum = receive_maximum;
        forgotten
    }

    /// Puts a packet behind the waiting ones; it is lost when there is no connection.
    pub(crate) fn send(&mut self, packet: &Packet<'_>) -> Result<(), Failure> {
        match &mut self.wire {
            Some(wire) => wire.push(packet),
            None => Ok(()),
        }
    }

    /// Asks for a sign of life, which comes after everything sent before was read.
    pub(crate) fn ping(&mut self) -> Result<(), Failure> {
        self.pings += 1;
        self.send(&Packet::PingReq(PingReq))
    }

    /// Writes waiting output. A lost connection shows when it is read.
    pub(crate) fn flush(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.flush();
        }
    }

    /// Bytes of this connection so far, in both directions.
    pub(crate) fn bytes(&self) -> u64 {
        self.wire.as_ref().map_or(0, |wire| wire.bytes)
    }

    /// Reads the input. The second part is false when the connection has ended; the third describes malformed input.
    pub(crate) fn receive(&mut self) -> (Vec<Incoming>, bool, Option<String>) {
        let Some(wire) = &mut self.wire else {
            return (Vec::new(), true, None);
        };
        let alive = wire.fill();
        let (packets, wrong) = wire.take();
        (packets, alive && wrong.is_none(), wrong)
    }

    /// Says farewell and closes the connection; the session stays.
    pub(crate) fn depart(&mut self) -> Result<(), Failure> {
        self.send(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)))?;
        self.flush();
        self.cut();
        Ok(())
    }

    /// Closes the connection without a word.
    pub(crate) fn cut(&mut self) {
        self.wire = None;
        self.phase = Phase::Away;
        self.not_before = None;
    }

    /// As [`Self::cut`], when the broker was the one who ended it: the next attempt waits a little.
    pub(crate) fn lost(&mut self, now: Instant) {
        self.cut();
        self.not_before = Some(now + AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    /// Accepts a connection and answers its CONNECT with the session present.
    fn accept(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        stream.read_exact(&mut vec![0; usize::from(head[1])]).unwrap();
        stream.write_all(&[0x20, 2, 1, 0]).unwrap();
        stream
    }

    #[test]
    fn a_connection_that_the_broker_keeps_shows() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let ports = [listener.local_addr().unwrap().port()];
        let poll = mio::Poll::new().unwrap();
        let mut session = Session::new("x".to_owned(), Version::V311, true, Token(0));
        assert!(!session.take_over(), "no connection is open");
        session.open(&ports, poll.registry(), Instant::now()).unwrap();
        let first = accept(&listener);
        session.opened(true, 1);
        assert!(session.take_over());
        session.open(&ports, poll.registry(), Instant::now()).unwrap();
        let _second = accept(&listener);
        session.opened(true, 1);
        session.watch_former();
        assert!(session.has_former(), "a broker with two connections of one session is found out");
        drop(first);
        while session.has_former() {
            session.watch_former();
        }
        assert!(session.is_open());
    }
}
