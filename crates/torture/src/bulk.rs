//! Plain, fast clients for measurements: many packets, few checks.

use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use tidegate_mqtt::{
    Connect, ConnectProperties, Packet, PacketId, PacketType, PubAck, Publish, PublishProperties, QoS, RawPublish,
    ReasonCode, Subscribe, SubscriptionOptions, Subscriptions, TopicFilter, TopicName, UserProperties, Version,
};

use crate::failure::Failure;
use crate::login;
use crate::wire::Wire;

/// How long a broker may be silent before a measurement is given up.
const SILENCE: Duration = Duration::from_secs(120);

/// A packet for a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Got<'a> {
    /// CONNACK.
    Greeted,
    /// PUBACK, with its packet id.
    Acknowledged(u16),
    /// SUBACK.
    Subscribed,
    /// A message; its PUBACK is under way.
    Message(&'a [u8]),
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Member {
    wire: Wire,
}

/// Several connections in one loop.
#[derive(Debug)]
pub(crate) struct Crowd {
    poll: Poll,
    events: Events,
    port: u16,
    /// `None` for a member that has left.
    members: Vec<Option<Member>>,
    heard: Instant,
}

impl Crowd {
    /// No client yet.
    pub(crate) fn new(port: u16) -> Result<Self, Failure> {
        let poll = Poll::new().map_err(Failure::system("creating a poll"))?;
        Ok(Self { poll, events: Events::with_capacity(1024), port, members: Vec::new(), heard: Instant::now() })
    }

    /// Connects one more, with a session that lasts or not. Gives its number.
    pub(crate) fn join(&mut self, client_id: &str, durable: bool) -> Result<usize, Failure> {
        let mut wire = Wire::dial(self.port, Version::V311).map_err(Failure::system("connecting to the broker"))?;
        let number = self.members.len();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(wire.source(), Token(number), interest);
        registered.map_err(Failure::system("registering a socket"))?;
        let (username, password) = login::shown();
        wire.push(&Packet::Connect(Connect {
            version: Version::V311,
            bridge: false,
            clean_start: !durable,
            keep_alive: 0,
            client_id,
            will: None,
            username,
            password,
            properties: ConnectProperties::default(),
        }))?;
        self.members.push(Some(Member { wire }));
        Ok(number)
    }

    /// Asks for a subscription of QoS 1.
    pub(crate) fn subscribe(&mut self, member: usize, filter: &str) -> Result<(), Failure> {
        self.push(
            member,
            &Packet::Subscribe(Subscribe {
                packet_id: PacketId::MIN,
                subscription_identifier: None,
                user_properties: UserProperties::EMPTY,
                subscriptions: Subscriptions::new(&[(
                    TopicFilter::new(filter)?,
                    SubscriptionOptions::new(QoS::AtLeastOnce),
                )]),
            }),
        )
    }

    /// Publishes at QoS 1.
    pub(crate) fn publish(
        &mut self,
        member: usize,
        topic: &str,
        id: u16,
        retain: bool,
        payload: &[u8],
    ) -> Result<(), Failure> {
        self.push(
            member,
            &Packet::Publish(Publish {
                dup: false,
                qos: QoS::AtLeastOnce,
                retain,
                topic: Some(TopicName::new(topic)?),
                packet_id: PacketId::new(id),
                properties: PublishProperties::default(),
                payload,
            }),
        )
    }

    fn push(&mut self, member: usize, packet: &Packet<'_>) -> Result<(), Failure> {
        match self.members.get_mut(member) {
            Some(Some(member)) => member.wire.push(packet),
            _ => Ok(()),
        }
    }

    /// Says farewell.
    pub(crate) fn leave(&mut self, member: usize) -> Result<(), Failure> {
        self.push(member, &Packet::Disconnect(tidegate_mqtt::Disconnect::new(ReasonCode::Success)))?;
        if let Some(Some(member)) = self.members.get_mut(member) {
            member.wire.flush();
        }
        if let Some(member) = self.members.get_mut(member) {
            *member = None;
        }
        Ok(())
    }

    /// Writes waiting output, and hands over the input; messages are acknowledged at once.
    pub(crate) fn turn(&mut self, wait: Duration, mut on: impl FnMut(usize, Got<'_>)) -> Result<(), Failure> {
        for member in self.members.iter_mut().flatten() {
            member.wire.flush();
        }
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                return Err(Failure::system("waiting for sockets")(error));
            }
            _ => {}
        }
        for event in &self.events {
            let number = event.token().0;
            let Some(Some(member)) = self.members.get_mut(number) else {
                continue;
            };
            let alive = member.wire.fill();
            let heard = member.wire.each(|frame, out| {
                let id = || frame.body.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes));
                match frame.packet_type() {
                    PacketType::ConnAck => on(number, Got::Greeted),
                    PacketType::PubAck => on(number, Got::Acknowledged(id())),
                    PacketType::SubAck => on(number, Got::Subscribed),
                    PacketType::Publish => {
                        if let Ok(publish) = RawPublish::decode(Version::V311, frame.first_byte, frame.body) {
                            on(number, Got::Message(publish.payload));
                            if let Some(id) = publish.packet_id {
                                PubAck::new(id, ReasonCode::Success).encode(Version::V311, out)?;
                            }
                        }
                    }
                    _ => {}
                }
                Ok(())
            })?;
            if heard {
                self.heard = Instant::now();
            }
            if !alive {
                return Err(Failure::Broker(format!("connection {number} was closed")));
            }
        }
        if self.heard.elapsed() > SILENCE {
            return Err(Failure::Broker(format!("it has said nothing for {} s", SILENCE.as_secs())));
        }
        Ok(())
    }

    /// Turns until enough counted packets have come.
    pub(crate) fn until(&mut self, wanted: usize, mut counts: impl FnMut(Got<'_>) -> bool) -> Result<(), Failure> {
        self.heard = Instant::now();
        let mut come = 0;
        while come < wanted {
            self.turn(Duration::from_millis(100), |_, got| come += usize::from(counts(got)))?;
        }
        Ok(())
    }
}
