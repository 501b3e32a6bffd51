//! Finds messages that make brokers close their connections.

use crate::event::{Event, LogEvent};
use crate::events::reason::Reason;
use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::{Dealing, dealing};
use crate::ids::BrokerLinkKey;
use crate::link::fleet_word::FleetWord;
use crate::link::record::Record;
use crate::message::MessageRef;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::Declined;
use crate::orchestrator::broker_link::id::MessageId;
use crate::orchestrator::broker_link::packet_limits::MessageLen;
use crate::orchestrator::broker_link::quarantine::is_about_topic;
use crate::orchestrator::broker_link::settle::{ReassignTo, keep_in_flight, leave_to_release, take_queue};
use crate::orchestrator::broker_link::suspects::CLOSED_BEFORE_CARE;
use crate::session::packet_ids::{InflightEntry, State};
use crate::session::{Delivery, Flow, InFlight};
use tidegate_mqtt::{QoS, ReasonCode};

/// Whether a broker that gives this reason denies a message.
fn is_about_message(code: ReasonCode) -> bool {
    matches!(
        code,
        ReasonCode::NotAuthorized
            | ReasonCode::TopicNameInvalid
            | ReasonCode::PacketTooLarge
            | ReasonCode::PayloadFormatInvalid
            | ReasonCode::RetainNotSupported
            | ReasonCode::QosNotSupported
    )
}

impl BrokerLinking<'_> {
    /// The connection of a broker that was there has ended; `closed` where the broker has closed it, or the network.
    /// Returns whether the next attempt comes at once: the broker is well, and only denies something.
    pub(super) fn suspect(&mut self, now: Now, key: BrokerLinkKey, closed: bool) -> bool {
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return false };
        let suspicion = &mut broker_link.suspicion;
        let said = suspicion.said.take();
        suspicion.steady_at = Millis::NEVER;
        suspicion.lost = suspicion.lost.saturating_add(1);
        let flow = self.state.sessions.get(broker_link.session.0).and_then(|session| session.flow.as_ref());
        suspicion.under_way = flow.map_or(0, |flow| flow.inflight.len());
        if !closed {
            return false;
        }
        suspicion.closed = suspicion.closed.saturating_add(1);
        if said.is_some_and(is_about_message) {
            suspicion.closed = suspicion.closed.max(CLOSED_BEFORE_CARE);
        }
        let outlived = broker_link.probe.answered > suspicion.outlived_at;
        let nothing_asked = broker_link.filters.nothing_asked();
        // A connection that ends on its first packets is more likely a broker in trouble.
        let unanswered = nothing_asked && flow.is_some_and(|flow| flow.inflight.len() > flow.to_resend);
        let at_once = unanswered && suspicion.may_retry_at_once();
        if said == Some(ReasonCode::PacketTooLarge) {
            BrokerRefusals(dealing!(self)).learn_limit(now, key);
            self.check_gate(now);
            return at_once;
        }
        if !suspicion.is_careful() || outlived || !nothing_asked {
            return at_once;
        }
        let Some(id) = flow.and_then(|flow| alone_under_way(flow)) else { return at_once };
        // A code of the broker makes further attempts needless.
        if self.broker_links.settlement.blames.is_enough(&id) || said.is_some_and(is_about_message) {
            BrokerRefusals(dealing!(self)).set_aside(now, key, &id, said);
            self.check_gate(now);
        }
        at_once
    }
}

/// The message that is under way, if there is only one, and it is all that was sent.
fn alone_under_way(flow: &Flow) -> Option<MessageId> {
    let sent = flow.inflight.len() - flow.to_resend;
    let first = flow.inflight.iter().next().filter(|entry| sent == 1 && entry.state != State::AwaitPubComp)?;
    MessageId::at_end_of(first.item.delivery.as_ref()?.message.properties())
}

/// Acts on refusals of brokers: a message goes to another broker, or is dropped and its topic noted.
pub(crate) struct BrokerRefusals<'e>(pub(crate) Dealing<'e>);

impl BrokerRefusals<'_> {
    /// Decides about messages that brokers have refused in the packet at hand.
    pub(crate) fn settle(&mut self, now: Now) {
        while let Some(Declined { session, code, in_flight }) = self.0.broker_links.settlement.refused.pop() {
            let key = self.0.broker_links.brokers.by_session.get(&session.0).copied();
            let Some((key, delivery)) = key.zip(in_flight.delivery.as_ref()) else {
                self.0.broker_links.brokers.forget_settled(self.0.state, self.0.layouts, session, &in_flight);
                continue;
            };
            match code {
                ReasonCode::QuotaExceeded => {
                    self.0.begin_pause(now, key);
                    self.0.redeal_one(now, key, &delivery.message, ReassignTo::OtherBrokers);
                }
                ReasonCode::PacketTooLarge => self.give_too_large_away(now, key, &in_flight),
                _ if is_about_topic(code) && !self.is_denied_by(now, key, &delivery.message) => {
                    self.0.redeal_one(now, key, &delivery.message, ReassignTo::OtherBrokers);
                }
                _ => self.0.state.reports().give_up(Reason::RefusedByReceiver, session, &delivery.message),
            }
            self.0.broker_links.brokers.forget_settled(self.0.state, self.0.layouts, session, &in_flight);
        }
    }

    /// Takes messages in flight away from a broker, selected by their place and entry.
    pub(super) fn take_in_flight(
        &mut self,
        key: BrokerLinkKey,
        is_taken: impl Fn(usize, &InflightEntry<InFlight>) -> bool,
    ) -> Vec<InFlight> {
        let Some(session) = self.0.broker_links.brokers.all.get(&key).map(|broker_link| broker_link.session) else {
            return Vec::new();
        };
        let flow = self.0.state.sessions.get_mut(session.0).and_then(|session| session.flow.as_mut());
        let Some(flow) = flow else { return Vec::new() };
        // The messages at the end have not been sent on this connection.
        let sent = flow.inflight.len() - flow.to_resend;
        let entries: Vec<_> = flow.inflight.drain().collect();
        let mut taken = Vec::new();
        for (place, entry) in entries.into_iter().enumerate() {
            if !is_taken(place, &entry) {
                keep_in_flight(&mut self.0.state.sessions, session, entry);
                continue;
            }
            let cost = entry.item.delivery.as_ref().map_or(0, Delivery::cost);
            // An exactly-once message stays as a packet id to release, which is sent again in its place.
            let is_gone = entry.state != State::AwaitPubRec;
            if let Some(flow) = self.0.state.sessions.get_mut(session.0).and_then(|session| session.flow.as_mut()) {
                flow.inflight_bytes -= cost;
                flow.to_resend -= usize::from(is_gone && place >= sent);
            }
            self.0.state.memory.held -= cost;
            if is_gone {
                taken.push(entry.item);
                continue;
            }
            // The broker may hold the packet id of an exactly-once message.
            let (sessions, journal) = (&mut self.0.state.sessions, &mut self.0.state.journal);
            taken.push(leave_to_release(sessions, journal, session, entry));
            if let Some(broker_link) = self.0.broker_links.brokers.all.get_mut(&key) {
                broker_link.released += 1;
            }
        }
        taken
    }

    /// A message is not sent to any broker any more.
    pub(crate) fn set_aside(&mut self, now: Now, key: BrokerLinkKey, id: &MessageId, said: Option<ReasonCode>) {
        for in_flight in self.take_in_flight(key, |place, _| place == 0) {
            let Some(broker_link) = self.0.broker_links.brokers.all.get_mut(&key) else { return };
            let session = broker_link.session;
            if let Some(delivery) = &in_flight.delivery {
                broker_link.counters.set_aside += 1;
                broker_link.suspicion.told = true;
                // The next connection will do better.
                broker_link.backoff_ms = 0;
                let topic = delivery.message.topic();
                let why = said.map_or_else(String::new, |code| format!(" ({code})"));
                broker_link.last_error = format!(
                    "the broker closes the connection when it gets a message of the topic {topic:?}{why}; it was set aside"
                );
                if !said.is_some_and(is_about_topic) {
                    self.0.state.reports().give_up(Reason::ClosesConnections, session, &delivery.message);
                    self.0.broker_links.settlement.resends.forget(id);
                    let is_refused = self.0.broker_links.quarantine.note_denied(topic, now.monotonic);
                    self.refuse_topic(key, topic, is_refused);
                } else if self.is_denied_by(now, key, &delivery.message) {
                    self.0.state.reports().give_up(Reason::ClosesConnections, session, &delivery.message);
                } else {
                    self.0.redeal_one(now, key, &delivery.message, ReassignTo::OtherBrokers);
                }
            }
            self.0.broker_links.brokers.forget_settled(self.0.state, self.0.layouts, session, &in_flight);
        }
        self.0.broker_links.settlement.blames.forget(id);
    }

    /// A broker has said that it denies the topic of a message. Returns whether the message is given up: the topic is
    /// refused, or the message was given to brokers often enough. Else it goes to another broker.
    fn is_denied_by(&mut self, now: Now, key: BrokerLinkKey, message: &MessageRef) -> bool {
        let topic = message.topic();
        // The broker itself may have closed its connection. Another one may be away for a moment.
        let brokers = self.0.broker_links.brokers.all.iter();
        let able =
            brokers.filter(|(other, broker_link)| **other == key || broker_link.keeps_its_share(now.monotonic)).count();
        let is_refused = self.0.broker_links.quarantine.note_denied_by(topic, now.monotonic, key, able);
        self.refuse_topic(key, topic, is_refused);
        let id = MessageId::at_end_of(message.properties());
        let resends = &mut self.0.broker_links.settlement.resends;
        let is_over =
            self.0.broker_links.quarantine.holds(topic, now.monotonic) || id.is_none_or(|id| resends.is_enough(&id));
        if is_over && let Some(id) = id {
            resends.forget(&id);
        }
        is_over
    }

    /// Tells other shards and the log that a topic is refused from now on.
    fn refuse_topic(&mut self, key: BrokerLinkKey, topic: &str, is_refused: bool) {
        if !is_refused {
            return;
        }
        for shard in self.0.links.place.others() {
            self.0.links.send(shard, Record::Fleet(FleetWord::Denied { topic }));
        }
        let broker = self
            .0
            .broker_links
            .brokers
            .all
            .get(&key)
            .map(|broker_link| broker_link.name.to_string())
            .unwrap_or_default();
        self.0.state.events.push_back(Event::Log(LogEvent::TopicDenied { broker, topic: topic.to_owned() }));
    }

    /// A broker has ended the connection since a packet was too long. If it was not the longest that is under way,
    /// then that one is too long as well.
    pub(crate) fn learn_limit(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(broker_link) = self.0.broker_links.brokers.all.get(&key) else { return };
        let flow = self.0.state.sessions.get(broker_link.session.0).and_then(|session| session.flow.as_ref());
        let longest = flow.and_then(|flow| {
            let sent = flow.inflight.len() - flow.to_resend;
            let all = flow.inflight.iter().take(sent).filter_map(|entry| len_in_flight(entry, now.monotonic));
            all.max_by_key(|len| len.packet)
        });
        if let Some(longest) = longest {
            self.note_refused_length(now, key, longest);
        }
    }

    /// A broker has refused a message of this length: messages of this length go to others.
    fn note_refused_length(&mut self, now: Now, key: BrokerLinkKey, len: MessageLen) {
        let Some(broker_link) = self.0.broker_links.brokers.all.get_mut(&key) else { return };
        broker_link.limit.learn(now.monotonic, len);
        broker_link.suspicion.told = true;
        broker_link.last_error = format!(
            "the broker takes no packet of {} bytes with a payload of {}; other brokers get such messages",
            len.packet, len.payload
        );
        if let Some(largest) = self.0.broker_links.new_largest(now.monotonic) {
            for shard in self.0.links.place.others() {
                self.0.links.send(shard, Record::Fleet(largest.word()));
            }
        }
        self.move_too_large(now, key);
    }

    /// A broker has answered a message with the code of a packet that is too long.
    pub(super) fn give_too_large_away(&mut self, now: Now, key: BrokerLinkKey, in_flight: &InFlight) {
        let Some(delivery) = &in_flight.delivery else { return };
        let len = len_of(delivery, QoS::AtLeastOnce, now.monotonic);
        self.note_refused_length(now, key, len);
        self.0.redeal_one(now, key, &delivery.message, ReassignTo::OtherBrokers);
    }

    /// Messages of a broker that are longer than its limit go to others.
    pub(crate) fn move_too_large(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(broker_link) = self.0.broker_links.brokers.all.get(&key) else { return };
        let (session, limit) = (broker_link.session, broker_link.limit);
        if limit.always_taken() == u32::MAX {
            return;
        }
        let Some(flow) = self.0.state.sessions.get(session.0).and_then(|session| session.flow.as_ref()) else { return };
        let is_too_large =
            |entry: &InflightEntry<InFlight>| len_in_flight(entry, now.monotonic).is_some_and(|len| !limit.takes(len));
        let waits = flow.queue.iter().any(|it| !limit.takes(len_of(it, it.qos, now.monotonic)));
        if flow.inflight.iter().any(is_too_large) {
            for in_flight in self.take_in_flight(key, |_, entry| is_too_large(entry)) {
                if let Some(delivery) = &in_flight.delivery {
                    self.0.redeal_one(now, key, &delivery.message, ReassignTo::OtherBrokers);
                }
                self.0.broker_links.brokers.forget_settled(self.0.state, self.0.layouts, session, &in_flight);
            }
        }
        if waits {
            let queue = take_queue(&mut self.0.state.sessions, session);
            self.0.deal_queue(now, key, queue, ReassignTo::AnyBroker);
        }
    }
}

/// The same for a message that a broker was given at a QoS.
fn len_of(delivery: &Delivery, qos: QoS, now: Millis) -> MessageLen {
    let mut publication = delivery.message.publication();
    publication.qos = qos;
    MessageLen::of(&publication, now)
}

fn len_in_flight(entry: &InflightEntry<InFlight>, now: Millis) -> Option<MessageLen> {
    let delivery = entry.item.delivery.as_ref().filter(|_| entry.state != State::AwaitPubComp);
    delivery.map(|delivery| len_of(delivery, QoS::AtLeastOnce, now))
}
