//! Checks from outside without a load: retained values, and whether subscriptions work.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::{Duration, Instant};

use mio::Token;
use tidegate_mqtt::{
    Packet, PacketId, PubAck, Publish, PublishProperties, QoS, ReasonCode, Subscribe, SubscriptionOptions,
    Subscriptions, TopicFilter, TopicName, UserProperties, Version,
};

use crate::failure::Failure;
use crate::ledger::Finding;
use crate::session::Session;
use crate::subscriber::Subscriber;
use crate::wire::Incoming;
use crate::workload;
use crate::workload::MessageId;
use crate::world::{Mood, World};

/// The token of clients that come only to look.
const VISITOR: Token = Token(usize::MAX / 2);
/// Answers to PINGREQ before the absence of something counts.
const ROUND_TRIPS: u32 = 2;
/// How many new clients look at the retained values of a home before it counts as one that gives none.
const VISITS: usize = 3;
/// Between two messages that show whether a bridge carries.
const BETWEEN_CROSSINGS: Duration = Duration::from_millis(50);

/// A client with a clean session.
pub(crate) struct Visitor {
    pub(crate) session: Session,
}

impl Visitor {
    /// Connects; `None` when CONNACK does not come in time.
    pub(crate) fn connect(
        world: &mut World,
        name: String,
        version: Version,
        patience: Duration,
    ) -> Result<Option<Self>, Failure> {
        Self::connect_at(world, (name, None), version, patience)
    }

    /// As [`Self::connect`], at the port with this place.
    fn connect_at(
        world: &mut World,
        (name, home): (String, Option<usize>),
        version: Version,
        patience: Duration,
    ) -> Result<Option<Self>, Failure> {
        let mut visitor = Self { session: Session::new(name, version, false, VISITOR) };
        visitor.session.home = home;
        let begun = Instant::now();
        while begun.elapsed() < patience {
            visitor.session.open(&world.ports, world.poll.registry(), Instant::now())?;
            for packet in visitor.turn(world)? {
                if let Incoming::ConnAck { present, code, receive_maximum } = packet
                    && !code.is_error()
                {
                    visitor.session.opened(present, receive_maximum);
                    return Ok(Some(visitor));
                }
            }
        }
        Ok(None)
    }

    /// One turn of the loop, and the packets for this client.
    fn turn(&mut self, world: &mut World) -> Result<Vec<Incoming>, Failure> {
        self.session.flush();
        // Other clients continue while they are connected; no client connects meanwhile.
        world.turn(Mood::Over)?;
        let (packets, alive, _) = self.session.receive();
        if packets.iter().any(|packet| *packet != Incoming::PingResp) {
            world.last_news = Instant::now();
        }
        if !alive {
            self.session.lost(Instant::now());
        }
        Ok(packets)
    }
}

/// The port at which a visitor looks at retained values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// At any port.
    Anywhere,
    /// At the port with this place.
    At(usize),
    /// At the port with this place, where values that come late over a bridge are waited for.
    BehindABridge(usize),
}

impl Look {
    fn home(self) -> Option<usize> {
        match self {
            Self::Anywhere => None,
            Self::At(place) | Self::BehindABridge(place) => Some(place),
        }
    }
}

/// Compares the retained values at each of these homes with the books, and with each other. `unanswered` words that a new
/// client gets none at a home, and what its servers said.
pub(crate) fn retained_everywhere(
    world: &mut World,
    homes: Range<usize>,
    (limit, patience): (Duration, Duration),
    mut unanswered: impl FnMut(usize) -> (String, Vec<String>),
) -> Result<(), Failure> {
    let mut seen = Vec::new();
    for home in homes {
        let mut values = None;
        // A member may move a client that has just come, which then connects again.
        for _ in 0..VISITS {
            let name = format!("visitor-{}", world.ledger.tick());
            values = retained(world, &name, Look::At(home), limit, patience)?;
            if values.is_some() {
                break;
            }
        }
        if values.is_none() {
            let (text, said) = unanswered(home);
            world.ledger.findings.add(Finding::Unanswered, text, said);
        }
        seen.extend(values);
    }
    world.ledger.compare_retained(&seen, workload::retained_name);
    Ok(())
}

/// Connects a new client, compares the retained values that it gets with the books, and gives them: the number of the
/// message per topic. `None` when it gets no answer.
pub(crate) fn retained(
    world: &mut World,
    name: &str,
    look: Look,
    limit: Duration,
    patience: Duration,
) -> Result<Option<Vec<Option<MessageId>>>, Failure> {
    let waits = matches!(look, Look::BehindABridge(_));
    let v5 = world.rng.chance(50);
    let version = world.size.version(v5);
    let Some(mut visitor) = Visitor::connect_at(world, (name.to_owned(), look.home()), version, limit)? else {
        return Ok(None);
    };
    world.last_news = Instant::now();
    visitor.session.send(&Packet::Subscribe(Subscribe {
        packet_id: PacketId::MIN,
        subscription_identifier: None,
        user_properties: UserProperties::EMPTY,
        subscriptions: Subscriptions::new(&[(TopicFilter::new("r/#")?, SubscriptionOptions::new(QoS::AtLeastOnce))]),
    }))?;
    let mut seen: Vec<Option<MessageId>> = vec![None; usize::from(world.size.publishers) * workload::TOPICS];
    let (mut acknowledged, mut round_trips) = (false, 0);
    while round_trips < ROUND_TRIPS && world.last_news.elapsed() < patience {
        for packet in visitor.turn(world)? {
            match packet {
                Incoming::SubAck { .. } => acknowledged = true,
                Incoming::PingResp => {
                    visitor.session.pings = 0;
                    round_trips += 1;
                }
                Incoming::Publish(delivery) => {
                    if let Some(id) = delivery.id {
                        visitor.session.send(&Packet::PubAck(PubAck::new(id, ReasonCode::Success)))?;
                    }
                    let place = workload::retained_place(&delivery.topic);
                    if let Some((place, value)) = place.and_then(|place| Some((place, seen.get_mut(place)?))) {
                        let message = workload::message_of(&delivery.payload);
                        let is_removal = waits && delivery.payload.is_empty();
                        let (topic, retain) = (&delivery.topic, delivery.retain);
                        let counts = |id| world.ledger.counts_as_value(place, topic, id, retain, name);
                        if is_removal || message.is_none_or(counts) && (retain || message > *value) {
                            *value = message;
                        }
                    }
                }
                _ => {}
            }
        }
        let complete = if waits {
            world.ledger.fits_retained(&seen)
        } else {
            seen.iter().enumerate().all(|(place, seen)| seen.is_some() || !world.ledger.must_have(place))
        };
        if acknowledged && complete && visitor.session.pings == 0 && round_trips < ROUND_TRIPS {
            visitor.session.ping()?;
        }
        if !visitor.session.is_open() {
            return Ok(None);
        }
    }
    visitor.session.depart()?;
    if acknowledged {
        world.ledger.check_retained(&seen, workload::retained_name);
    }
    Ok(acknowledged.then_some(seen))
}

/// Publishes at one port until a message arrives at another one. False when none does within the limit.
pub(crate) fn crosses(
    world: &mut World,
    topic: &str,
    from: usize,
    to: usize,
    limit: Duration,
) -> Result<bool, Failure> {
    let begun = Instant::now();
    let name = format!("crossing-{}", world.ledger.tick());
    let receiver = Visitor::connect_at(world, (format!("{name}-to"), Some(to)), Version::V311, limit)?;
    let sender = Visitor::connect_at(world, (format!("{name}-from"), Some(from)), Version::V311, limit)?;
    let (Some(mut receiver), Some(mut sender)) = (receiver, sender) else {
        return Ok(false);
    };
    receiver.session.send(&Packet::Subscribe(Subscribe {
        packet_id: PacketId::MIN,
        subscription_identifier: None,
        user_properties: UserProperties::EMPTY,
        subscriptions: Subscriptions::new(&[(TopicFilter::new(topic)?, SubscriptionOptions::new(QoS::AtMostOnce))]),
    }))?;
    let mut next = Instant::now();
    while begun.elapsed() < limit && sender.session.is_open() && receiver.session.is_open() {
        if Instant::now() >= next {
            next = Instant::now() + BETWEEN_CROSSINGS;
            sender.session.send(&Packet::Publish(Publish {
                dup: false,
                qos: QoS::AtMostOnce,
                retain: false,
                topic: Some(TopicName::new(topic)?),
                packet_id: None,
                properties: PublishProperties::default(),
                payload: b"crossing",
            }))?;
        }
        sender.turn(world)?;
        if receiver.turn(world)?.iter().any(|packet| matches!(packet, Incoming::Publish(_))) {
            sender.session.depart()?;
            receiver.session.depart()?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Publishes to every filter and sees who gets it. Every subscriber must be connected and have nothing under way.
pub(crate) fn subscriptions(world: &mut World, name: String, patience: Duration) -> Result<(), Failure> {
    let Some(mut visitor) = Visitor::connect(world, name, Version::V311, patience)? else {
        world.ledger.findings.add(Finding::Unanswered, "a new client got no CONNACK".to_owned(), Vec::new());
        return Ok(());
    };
    let filters = world.subscribers.iter().flat_map(|subscriber| subscriber.interests().map(|(filter, _)| filter));
    let topics: BTreeSet<String> = filters.map(workload::probe_topic).collect();
    let payload = format!("probe {}", visitor.session.name).into_bytes();
    let mut waiting: BTreeSet<PacketId> = BTreeSet::new();
    for (topic, number) in topics.iter().zip(1..) {
        let packet_id = PacketId::new(number);
        waiting.extend(packet_id);
        visitor.session.send(&Packet::Publish(Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: Some(TopicName::new(topic)?),
            packet_id,
            properties: PublishProperties::default(),
            payload: &payload,
        }))?;
    }
    for subscriber in &mut world.subscribers {
        subscriber.probes.clear();
    }
    world.last_news = Instant::now();
    let mut round_trips = 0;
    while round_trips < ROUND_TRIPS && world.last_news.elapsed() < patience {
        for packet in visitor.turn(world)? {
            if let Incoming::PubAck { id, .. } = packet {
                waiting.remove(&id);
            }
        }
        // A subscriber has a receive maximum, so each is acknowledged as it comes.
        for subscriber in &mut world.subscribers {
            subscriber.acknowledge(Instant::now())?;
        }
        let answered = world.subscribers.iter().all(|it| it.session.pings == 0 || !it.session.is_open());
        if waiting.is_empty() && answered && missing(world).is_empty() {
            round_trips += 1;
            for subscriber in &mut world.subscribers {
                subscriber.session.ping()?;
            }
        }
    }
    if waiting.is_empty() {
        judge(world);
    } else {
        let text = format!("{} of {} probes got no PUBACK", waiting.len(), topics.len());
        world.ledger.findings.add(Finding::Unanswered, text, Vec::new());
    }
    visitor.session.depart()
}

/// Subscriptions whose probe has not come: the subscriber's place and the filter.
fn missing(world: &World) -> Vec<(usize, String)> {
    interests(&world.subscribers, true)
}

/// Probes that came although they must not, or did not although they must. Clients do not connect again meanwhile: one whose
/// connection has ended cannot get a probe, and probes that came before still count.
fn interests(subscribers: &[Subscriber], must: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let judged = subscribers.iter().enumerate().filter(|(_, subscriber)| !must || subscriber.session.is_open());
    for (place, subscriber) in judged {
        for (filter, _) in subscriber.interests().filter(|(_, comes)| *comes == must) {
            let came = subscriber.probes.contains(&workload::probe_topic(filter));
            if came != must {
                found.push((place, filter.to_owned()));
            }
        }
    }
    found
}

fn judge(world: &mut World) {
    let judged = world.subscribers.iter().filter(|subscriber| subscriber.session.is_open());
    let checked: u64 = judged.map(|subscriber| subscriber.interests().count() as u64).sum();
    world.ledger.findings.totals.subscriptions_checked += checked;
    for (must, why) in [(true, "had its SUBACK and does not deliver"), (false, "had its UNSUBACK and still delivers")] {
        for (place, filter) in interests(&world.subscribers, must) {
            let subscriber = &mut world.subscribers[place];
            let Session { name, phase, pings, .. } = &subscriber.session;
            let text = format!("{filter} of {name} {why} (connection {phase:?}, {pings} pings unanswered)");
            subscriber.distrust(&filter);
            world.ledger.findings.add(Finding::Subscription, text, Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::workload::Wish;

    #[test]
    fn a_client_without_a_connection_gets_no_probe() {
        // A mobile node holds its address once it has connected.
        let filter = workload::addressed_topic(0, &mut Rng::new(1)).0;
        let wish = Wish { filter: filter.clone(), qos: QoS::AtLeastOnce, churns: false };
        let session = Session::new("x".to_owned(), Version::V5, true, VISITOR);
        let mut subscriber = Subscriber::new(session, 0, vec![wish], Rng::new(1));
        subscriber.session.opened(true, 1);
        subscriber.opened(true);
        let connected = [subscriber];
        assert_eq!(interests(&connected, true), [(0, filter)]);
        let [mut subscriber] = connected;
        subscriber.session.cut();
        assert!(interests(&[subscriber], true).is_empty());
    }
}
