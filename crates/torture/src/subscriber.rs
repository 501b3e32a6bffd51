//! A subscriber with a session: acknowledges in order, now and then slowly, and keeps the state of QoS 2 (section
//! 4.3.3).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use tidegate_mqtt::{
    Packet, PacketId, PubAck, PubComp, PubRec, QoS, ReasonCode, Subscribe, SubscriptionOptions, Subscriptions,
    TopicFilter, TopicFilters, Unsubscribe, UserProperties,
};

use crate::failure::Failure;
use crate::ledger::{Arrival, Clock, Expectation, Ledger};
use crate::rng::Rng;
use crate::session::Session;
use crate::wire::{Delivery, Incoming};
use crate::workload::{self, MessageId, Wish};

/// Packet ids of SUBSCRIBE and UNSUBSCRIBE.
const REQUEST_IDS: std::ops::Range<u64> = 1..60_000;
/// A subscriber that is away stays so for this long, in milliseconds.
const AWAY: Range<u64> = 20..500;
/// Between two acknowledgements of a slow subscriber, in microseconds.
const SLOWLY: std::ops::Range<u64> = 500..8_000;

/// The broker's answer to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is not there: never asked for, or ended at this time.
    Absent(Option<Clock>),
    /// Asked for or given up, without an answer: it may be there or not.
    Uncertain,
    /// SUBACK has come.
    Held,
}

/// A filter and what the broker has said of it.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) filter: String,
    qos: QoS,
    granted: QoS,
    churns: bool,
    wanted: bool,
    standing: Standing,
    generation: u32,
}

/// A SUBSCRIBE or UNSUBSCRIBE without its answer.
#[derive(Debug)]
struct Request {
    id: PacketId,
    subscriptions: Vec<usize>,
    subscribes: bool,
}

/// An acknowledgement that is due.
#[derive(Clone, Copy, Debug)]
enum Ack {
    Puback(PacketId),
    Pubrec(PacketId),
    Pubcomp(PacketId),
}

/// A client that subscribes.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) session: Session,
    /// Under which number receipts are booked: its own, or that of the first member of its group.
    pub(crate) account: u16,
    /// A member of a group whose session ends with its connection: nothing is owed to it alone.
    pub(crate) is_guest: bool,
    /// It stays away for this long, in milliseconds.
    pub(crate) away_ms: Range<u64>,
    /// The messages that a guest has received on this connection.
    visited: Vec<MessageId>,
    subscriptions: Vec<Subscription>,
    request: Option<Request>,
    /// QoS 2 messages that were received and not yet released, with their payloads.
    unreleased: BTreeMap<PacketId, Vec<u8>>,
    /// The last message of each packet id whose PUBREL has come.
    released: BTreeMap<PacketId, Vec<u8>>,
    /// Its broker is known to send a message again after its PUBREL.
    pub(crate) expects_old_releases: bool,
    /// Those whose PUBREL was given up, so that each is reported once.
    given_up: BTreeSet<PacketId>,
    acks: VecDeque<Ack>,
    /// Acknowledges one packet at a time, not before then.
    pub(crate) slow: bool,
    next_ack: Option<Instant>,
    /// Topics of probes that came since they were last taken.
    pub(crate) probes: Vec<String>,
    rng: Rng,
}

impl Subscriber {
    /// A subscriber that has asked for nothing yet.
    pub(crate) fn new(session: Session, account: u16, wishes: Vec<Wish>, mut rng: Rng) -> Self {
        let subscriptions = wishes.into_iter().map(|wish| Subscription {
            wanted: !wish.churns || rng.chance(50),
            filter: wish.filter,
            qos: wish.qos,
            granted: wish.qos,
            churns: wish.churns,
            standing: Standing::Absent(None),
            generation: 0,
        });
        Self {
            session,
            account,
            is_guest: false,
            away_ms: AWAY,
            visited: Vec::new(),
            subscriptions: subscriptions.collect(),
            request: None,
            unreleased: BTreeMap::new(),
            released: BTreeMap::new(),
            expects_old_releases: false,
            given_up: BTreeSet::new(),
            acks: VecDeque::new(),
            slow: false,
            next_ack: None,
            probes: Vec::new(),
            rng,
        }
    }

    /// The subscription that a message to this topic is owed to from now on.
    pub(crate) fn expectation(&self, topic: &str) -> Option<Expectation> {
        let held = |entry: &&(u16, &Subscription)| {
            !self.is_guest && entry.1.standing == Standing::Held && workload::matches(&entry.1.filter, topic)
        };
        (0u16..).zip(&self.subscriptions).find(|entry| held(&entry)).map(|(number, subscription)| Expectation {
            subscriber: self.account,
            subscription: number,
            generation: subscription.generation,
        })
    }

    /// True until the end of the subscription is requested.
    pub(crate) fn holds(&self, expectation: Expectation) -> bool {
        let subscription = self.subscriptions.get(usize::from(expectation.subscription));
        subscription.is_some_and(|subscription| subscription.generation == expectation.generation)
    }

    /// True if it is reached by its address.
    pub(crate) fn is_mobile(&self) -> bool {
        self.subscriptions.iter().any(|own| workload::is_address(&own.filter))
    }

    /// True when everything was asked for and answered, and every message acknowledged to the end.
    pub(crate) fn is_settled(&self) -> bool {
        let as_wanted = |subscription: &Subscription| match subscription.standing {
            Standing::Held => subscription.wanted,
            Standing::Absent(_) => !subscription.wanted,
            Standing::Uncertain => false,
        };
        self.session.is_open()
            && self.request.is_none()
            && self.acks.is_empty()
            && self.unreleased.keys().all(|id| self.given_up.contains(id))
            && self.subscriptions.iter().all(as_wanted)
    }

    /// The messages that a guest has received and acknowledged on a connection that is still open.
    pub(crate) fn take_kept(&mut self) -> Vec<MessageId> {
        if self.is_settled() { std::mem::take(&mut self.visited) } else { Vec::new() }
    }

    /// The messages still owed to this client, which has waited long enough; it does not ask for them again.
    pub(crate) fn give_up(&mut self) -> Vec<String> {
        let mut missing = Vec::new();
        if !self.session.is_open() {
            missing.push("no CONNACK".to_owned());
        }
        if let Some(request) = self.request.take() {
            missing.push(format!("no {}", if request.subscribes { "SUBACK" } else { "UNSUBACK" }));
        }
        for id in self.unreleased.keys() {
            if self.given_up.insert(*id) {
                missing.push(format!("no PUBREL for packet id {id}"));
            }
        }
        missing
    }

    /// The subscriptions, and whether a probe of each must come (true) or not (false). Of a group one member gets it,
    /// so none is asked.
    pub(crate) fn interests(&self) -> impl Iterator<Item = (&str, bool)> {
        let own = self.subscriptions.iter().filter(|subscription| !workload::is_shared(&subscription.filter));
        own.filter_map(|subscription| match subscription.standing {
            Standing::Held => Some((subscription.filter.as_str(), true)),
            Standing::Absent(Some(_)) => Some((subscription.filter.as_str(), false)),
            _ => None,
        })
    }

    /// The broker does not serve a subscription as it had answered: it is requested again.
    pub(crate) fn distrust(&mut self, filter: &str) {
        for subscription in self.subscriptions.iter_mut().filter(|subscription| subscription.filter == filter) {
            subscription.generation += 1;
            if !workload::is_address(&subscription.filter) {
                subscription.standing = Standing::Uncertain;
            }
        }
    }

    /// Changes its mind about one of the subscriptions that come and go.
    pub(crate) fn change_mind(&mut self) {
        let churning: Vec<usize> =
            (0..self.subscriptions.len()).filter(|place| self.subscriptions[*place].churns).collect();
        let chosen = self.rng.index(churning.len());
        if let Some(subscription) = churning.get(chosen).and_then(|place| self.subscriptions.get_mut(*place)) {
            subscription.wanted = !subscription.wanted;
        }
    }

    /// The connection is open.
    pub(crate) fn opened(&mut self, present: bool) {
        // A mobile node is known once it has connected.
        for address in self.subscriptions.iter_mut().filter(|own| workload::is_address(&own.filter)) {
            address.standing = Standing::Held;
        }
        if !present {
            self.unreleased.clear();
            self.given_up.clear();
            for subscription in self.subscriptions.iter_mut().filter(|own| !workload::is_address(&own.filter)) {
                subscription.standing = match subscription.standing {
                    Standing::Absent(ended) => Standing::Absent(ended),
                    // Debts stay: the broker had no right to forget.
                    Standing::Held | Standing::Uncertain => Standing::Uncertain,
                };
            }
        }
    }

    /// The connection is gone: unacknowledged messages will come again.
    pub(crate) fn closed(&mut self) {
        self.acks.clear();
        self.visited.clear();
        self.request = None;
        self.next_ack = None;
    }

    /// Requests wanted subscriptions or ends unwanted ones, one request at a time.
    pub(crate) fn ask(&mut self, ledger: &mut Ledger) -> Result<(), Failure> {
        if !self.session.is_open() || self.request.is_some() {
            return Ok(());
        }
        let due = |subscribes: bool, subscription: &Subscription| {
            let fine = match subscription.standing {
                Standing::Held => subscribes,
                Standing::Absent(_) => !subscribes,
                Standing::Uncertain => false,
            };
            subscription.wanted == subscribes && !fine && !workload::is_address(&subscription.filter)
        };
        for subscribes in [true, false] {
            let places = (0..self.subscriptions.len()).filter(|place| due(subscribes, &self.subscriptions[*place]));
            let places: Vec<usize> = places.collect();
            if !places.is_empty() {
                return self.request(places, subscribes, ledger);
            }
        }
        Ok(())
    }

    fn request(&mut self, places: Vec<usize>, subscribes: bool, ledger: &mut Ledger) -> Result<(), Failure> {
        ledger.tick();
        let Some(id) = PacketId::new(self.rng.within(REQUEST_IDS) as u16) else {
            return Ok(());
        };
        for place in &places {
            let subscription = &mut self.subscriptions[*place];
            subscription.standing = Standing::Uncertain;
            if !subscribes {
                ledger.released(Expectation {
                    subscriber: self.account,
                    subscription: *place as u16,
                    generation: subscription.generation,
                });
                subscription.generation += 1;
            }
        }
        let chosen = places.iter().map(|place| &self.subscriptions[*place]);
        if subscribes {
            let filters: Result<Vec<_>, _> = chosen
                .map(|subscription| {
                    Ok::<_, Failure>((
                        TopicFilter::new(&subscription.filter)?,
                        SubscriptionOptions::new(subscription.qos),
                    ))
                })
                .collect();
            self.session.send(&Packet::Subscribe(Subscribe {
                packet_id: id,
                subscription_identifier: None,
                user_properties: UserProperties::EMPTY,
                subscriptions: Subscriptions::new(&filters?),
            }))?;
        } else {
            let filters: Result<Vec<_>, _> =
                chosen.map(|subscription| TopicFilter::new(&subscription.filter)).collect();
            self.session.send(&Packet::Unsubscribe(Unsubscribe {
                packet_id: id,
                user_properties: UserProperties::EMPTY,
                topic_filters: TopicFilters::new(&filters?),
            }))?;
        }
        self.request = Some(Request { id, subscriptions: places, subscribes });
        Ok(())
    }

    /// Handles a packet. False when it answers nothing.
    pub(crate) fn handle(&mut self, packet: Incoming, ledger: &mut Ledger) -> bool {
        match packet {
            Incoming::Publish(delivery) => self.deliver(delivery, ledger),
            Incoming::PubRel { id } => {
                if let Some(head) = self.unreleased.remove(&id) {
                    if let Some(message) = workload::message_of(&head) {
                        ledger.note_release(message, &self.session.name);
                    }
                    self.released.insert(id, head);
                }
                self.given_up.remove(&id);
                self.acks.push_back(Ack::Pubcomp(id));
                true
            }
            Incoming::SubAck { id, codes } => self.answered(id, true, &codes, ledger),
            Incoming::UnsubAck { id } => self.answered(id, false, &[], ledger),
            _ => false,
        }
    }

    fn answered(&mut self, id: PacketId, subscribes: bool, codes: &[ReasonCode], ledger: &mut Ledger) -> bool {
        let fits = |request: &mut Request| request.id == id && request.subscribes == subscribes;
        let Some(request) = self.request.take_if(fits) else {
            return false;
        };
        let clock = ledger.tick();
        for (place, number) in request.subscriptions.iter().zip(0..) {
            let subscription = &mut self.subscriptions[*place];
            if !subscribes {
                subscription.standing = Standing::Absent(Some(clock));
                continue;
            }
            if let Some(granted) = codes.get(number).and_then(|code| QoS::from_bits(code.byte())) {
                subscription.granted = granted;
                subscription.standing = Standing::Held;
            } else {
                ledger.findings.totals.refused += 1;
                subscription.standing = Standing::Absent(None);
                subscription.wanted = false;
            }
        }
        true
    }

    fn deliver(&mut self, delivery: Delivery, ledger: &mut Ledger) -> bool {
        if let Some(id) = delivery.id {
            self.acks.push_back(if delivery.qos == QoS::ExactlyOnce { Ack::Pubrec(id) } else { Ack::Puback(id) });
            if delivery.qos == QoS::ExactlyOnce {
                if let Some(before) = self.unreleased.get(&id) {
                    if let Some(message) = workload::message_of(&delivery.payload)
                        && *before != head(&delivery.payload)
                    {
                        ledger.swallowed(message, &delivery.topic, &self.session.name);
                    }
                    return true;
                }
                let head = head(&delivery.payload);
                let is_old = self.released.get(&id) == Some(&head);
                self.unreleased.insert(id, head);
                if is_old && self.expects_old_releases {
                    ledger.findings.totals.after_release += 1;
                    return true;
                }
            }
        }
        if delivery.correlation.is_some() && delivery.topic == workload::RECEIPTS {
            ledger.receipt(delivery.receipt(&self.session.name));
            return true;
        }
        let Some(message) = workload::message_of(&delivery.payload) else {
            self.probes.push(delivery.topic);
            return true;
        };
        let matching =
            self.subscriptions.iter().find(|subscription| workload::matches(&subscription.filter, &delivery.topic));
        let Some(subscription) = matching else {
            return false;
        };
        let ended = match subscription.standing {
            Standing::Absent(ended) => ended,
            Standing::Uncertain | Standing::Held => None,
        };
        let arrival = Arrival { id: message, subscriber: self.account, granted: subscription.granted, ended };
        if self.is_guest {
            self.visited.push(message);
        }
        let packet = delivery.id.map_or(String::new(), |id| format!(" under packet id {id}"));
        ledger.delivered(arrival, &delivery.topic, &format!("{}{packet}", self.session.name));
        true
    }

    /// Sends acknowledgements that are due: all of them, or one when slow.
    pub(crate) fn acknowledge(&mut self, now: Instant) -> Result<(), Failure> {
        while self.session.is_open() && !(self.slow && self.next_ack.is_some_and(|then| now < then)) {
            let Some(ack) = self.acks.pop_front() else {
                break;
            };
            self.session.send(&match ack {
                Ack::Puback(id) => Packet::PubAck(PubAck::new(id, ReasonCode::Success)),
                Ack::Pubrec(id) => Packet::PubRec(PubRec::new(id, ReasonCode::Success)),
                Ack::Pubcomp(id) => Packet::PubComp(PubComp::new(id, ReasonCode::Success)),
            })?;
            self.next_ack = Some(now + Duration::from_micros(self.rng.within(SLOWLY)));
        }
        Ok(())
    }
}

/// The part that tells messages apart.
fn head(payload: &[u8]) -> Vec<u8> {
    payload.iter().copied().take(24).collect()
}
