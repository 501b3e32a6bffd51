//! SUBSCRIBE and UNSUBSCRIBE are worked off in steps.

use crate::connection::{Answer, Connection, PendingAck, Phase, SubAckAnswer, UnsubAckAnswer};
use crate::engine::facets::SubscribeSteps;
use crate::event::Attempt;
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::contexts::answering;
use crate::flows::contexts::broker_linking;
use crate::flows::contexts::fetching;
use crate::flows::contexts::parking;
use crate::flows::contexts::subscribing;
use crate::ids::{ConnectionKey, SessionKey};
use crate::link::envelope::Ticket;
use crate::now::Now;
use crate::subscribe::refusals::Refusals;
use crate::subscribe::steps::{Asked, Kind, PacketLeft, Steps, filter_work};
use crate::subscribe::{Request, SubAckWaits, granted_code, granted_options};
use tidegate_mqtt::{
    Frame, QoS, Subscribe, SubscriptionOptions, Subscriptions, SubscriptionsIter, TopicError, TopicFilter,
    TopicFilters, TopicFiltersIter, Unsubscribe, Version,
};

/// Messages in a queue that are looked at for one unit of work, when a shared subscription ends.
const QUEUE_LOOK: usize = 256;

/// Filters of either packet.
enum Filters<'a> {
    Subscribe(SubscriptionsIter<'a>),
    Unsubscribe(TopicFiltersIter<'a>),
}

impl<'a> Filters<'a> {
    fn next(&mut self) -> Option<(Result<TopicFilter<'a>, TopicError>, SubscriptionOptions)> {
        match self {
            Self::Subscribe(filters) => filters.next(),
            Self::Unsubscribe(filters) => {
                filters.next().map(|filter| (filter, SubscriptionOptions::new(QoS::AtMostOnce)))
            }
        }
    }

    fn rest(&self) -> &'a [u8] {
        match self {
            Self::Subscribe(filters) => filters.rest(),
            Self::Unsubscribe(filters) => filters.rest(),
        }
    }
}

impl SubscribeSteps<'_> {
    pub(crate) fn handle_subscribe(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let subscribe = Subscribe::decode(version, frame.first_byte, frame.body)?;
        let Some(session) = self.engine.state.connections.session_of(key) else { return Ok(()) };
        let tenants = self.engine.state.sessions.get(session.0).map(|session| (session.tenant, session.counted_for()));
        let Some((tenant, counted_for)) = tenants else { return Ok(()) };
        let kind = Kind::Subscribe(Asked {
            tenant,
            counted_for,
            max_qos: self.maximum_qos(key),
            bridge: self.engine.state.connections.get(key).is_some_and(Connection::is_bridge),
            subscription_id: subscribe.subscription_identifier.unwrap_or(0),
            number: 0,
            waits: SubAckWaits::default(),
            expects: false,
        });
        let (packet_id, ticket) = (subscribe.packet_id, self.engine.state.connections.next_ticket(key));
        let steps = Steps { session, version, packet_id, ticket, kind, promises: false };
        let answer = SubAckAnswer {
            refusals: Refusals::new(
                self.engine.state.connections.wants_reasons(key),
                subscribe.filters().take(2).count(),
            ),
            ..SubAckAnswer::default()
        };
        self.begin_steps(now, key, steps, Filters::Subscribe(subscribe.filters()), Answer::SubAck(Box::new(answer)));
        Ok(())
    }

    pub(crate) fn handle_unsubscribe(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let unsubscribe = Unsubscribe::decode(version, frame.first_byte, frame.body)?;
        let Some(session) = self.engine.state.connections.session_of(key) else { return Ok(()) };
        let (packet_id, ticket) = (unsubscribe.packet_id, self.engine.state.connections.next_ticket(key));
        let steps = Steps { session, version, packet_id, ticket, kind: Kind::Unsubscribe, promises: false };
        let refusals =
            Refusals::new(self.engine.state.connections.wants_reasons(key), unsubscribe.filters().take(2).count());
        let answer = Answer::UnsubAck(Box::new(UnsubAckAnswer { codes: Vec::new(), refusals }));
        self.begin_steps(now, key, steps, Filters::Unsubscribe(unsubscribe.filters()), answer);
        Ok(())
    }

    fn begin_steps(
        &mut self,
        now: Now,
        key: ConnectionKey,
        mut steps: Steps,
        mut filters: Filters<'_>,
        mut answer: Answer,
    ) {
        let done = self.take_filters(now, key, &mut steps, &mut filters, &mut answer);
        let (packet_id, ticket) = (steps.packet_id, steps.ticket);
        if done {
            let waits = subscribing!(self.engine).end_steps(&mut steps, &answer);
            answering!(self.engine).answer(now, key, packet_id, answer, waits, steps.promises);
        } else {
            let bytes: Box<[u8]> = filters.rest().into();
            self.engine.state.memory.held += bytes.len() as u64;
            self.engine.state.memory.input_bytes += bytes.len() as u64;
            // One wait is that for the other steps.
            let waits = 1 + steps.take_waits();
            parking!(self.engine).park(now, key);
            let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
            let extra = connection.extra_mut();
            extra.acks.push(PendingAck { waits, packet_id, answer, promises: false });
            extra.packet_left = Some(Box::new(PacketLeft { steps, bytes, at: 0 }));
            self.engine.turn_share.add_packet(key);
            debug_assert!(
                extra_has(self.engine.state.connections.get_mut(key), ticket),
                "the answer has another place"
            );
        }
        broker_linking!(self.engine).end_decided_waits(now);
        parking!(self.engine).wait_for_full_links(now, key);
    }

    /// Takes the next steps of packets, each after the other, as far as the turn allows.
    pub(crate) fn run_steps(&mut self, now: Now) {
        for _ in 0..self.engine.turn_share.packets_waiting() {
            if !self.engine.turn_share.has_filter_work() {
                return;
            }
            let Some(key) = self.engine.turn_share.next_packet() else { return };
            if self.take_step(now, key) {
                self.engine.waiting().unpark(now, key);
                self.engine.after_frame(now);
            }
            if self.engine.turn_share.is_gone(key) {
                self.engine.handle_transport_closed(now, key);
            }
        }
    }

    /// Takes a step of a packet; returns whether it was the last.
    fn take_step(&mut self, now: Now, key: ConnectionKey) -> bool {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return false };
        if connection.is_suspended() {
            // It continues when the connection does.
            return false;
        }
        let Some(extra) = connection.extra.as_mut() else { return false };
        let Some(mut packet) = extra.packet_left.take() else { return false };
        let ticket = packet.steps.ticket;
        let Some(mut answer) = extra.acks.take_answer(ticket.sequence) else { return false };
        let bytes = packet.bytes.get(packet.at..).unwrap_or_default();
        let mut filters = match packet.steps.kind {
            Kind::Subscribe(_) => Filters::Subscribe(Subscriptions::checked(bytes, packet.steps.version).iter()),
            Kind::Unsubscribe => Filters::Unsubscribe(TopicFilters::checked(bytes).iter()),
        };
        let done = self.take_filters(now, key, &mut packet.steps, &mut filters, &mut answer);
        packet.at = packet.bytes.len() - filters.rest().len();
        let waits = if done {
            subscribing!(self.engine).end_steps(&mut packet.steps, &answer)
        } else {
            packet.steps.take_waits()
        };
        let Some(extra) = self.engine.state.connections.get_mut(key).and_then(|connection| connection.extra.as_mut())
        else {
            return false;
        };
        extra.acks.put_answer(ticket.sequence, answer, waits);
        if done {
            self.engine.state.memory.held -= packet.bytes.len() as u64;
            self.engine.state.memory.input_bytes -= packet.bytes.len() as u64;
            answering!(self.engine).confirm(now, ticket, None, packet.steps.promises);
        } else {
            extra.packet_left = Some(packet);
            self.engine.turn_share.add_packet(key);
        }
        broker_linking!(self.engine).end_decided_waits(now);
        parking!(self.engine).wait_for_full_links(now, key);
        done
    }

    /// Works off filters of a packet as far as the turn allows; returns whether none is left.
    fn take_filters(
        &mut self,
        now: Now,
        key: ConnectionKey,
        steps: &mut Steps,
        filters: &mut Filters<'_>,
        answer: &mut Answer,
    ) -> bool {
        // Of a client that is gone nothing can be kept back.
        let stays = |connection: &Connection| connection.phase == Phase::Open && !connection.leaving;
        let bounded = self.engine.state.connections.get(key).is_some_and(stays);
        self.engine.turn_share.begin_packet(now, key, &self.engine.state.to_write);
        let mark = self.engine.state.journal.mark();
        let mut left = filters.rest().len();
        while left > 0 {
            if bounded && !self.engine.turn_share.has_filter_work() {
                break;
            }
            let Some((filter, options)) = filters.next() else { break };
            left = filters.rest().len();
            let mut work = filter_work(filter.map_or("", |filter| filter.as_str()));
            match (&mut steps.kind, &mut *answer) {
                (Kind::Subscribe(asked), Answer::SubAck(answer)) => {
                    let (session, ticket) = (steps.session, steps.ticket);
                    self.take_subscription(now, (session, ticket), asked, filter, options, answer);
                    answer.joined.append(&mut asked.waits.joined);
                }
                (Kind::Unsubscribe, Answer::UnsubAck(answer)) => {
                    if filter.is_ok_and(|filter| filter.shared().is_some()) {
                        work += self.engine.state.sessions.queue_len(steps.session) / QUEUE_LOOK;
                    }
                    subscribing!(self.engine).take_unsubscription(now, steps.session, filter, answer);
                }
                _ => {}
            }
            self.engine.turn_share.charge_filter(work);
        }
        steps.promises |= self.engine.state.journal.has_written_since(mark);
        left == 0
    }

    fn take_subscription(
        &mut self,
        now: Now,
        (session, ticket): (SessionKey, Ticket),
        asked: &mut Asked,
        filter: Result<TopicFilter<'_>, TopicError>,
        options: SubscriptionOptions,
        answer: &mut SubAckAnswer,
    ) {
        self.engine.endings.give_way(now, asked.tenant, &mut subscribing!(self.engine));
        // More filters than a client may have are repetitions; no other limit bounds their work.
        let max_filters = self.engine.state.settings.limits.max_subscriptions_per_client as usize;
        let result = match filter {
            Err(_) => Err(Reason::InvalidTopicFilter),
            Ok(_) if asked.number >= max_filters => Err(Reason::TooManySubscriptions),
            Ok(filter) => subscribing!(self.engine).subscribe(
                now,
                &Request {
                    session,
                    tenant: asked.tenant,
                    counted_for: asked.counted_for,
                    filter,
                    options: granted_options(options, asked.max_qos, asked.bridge),
                    retain_handling: options.retain_handling,
                    subscription_id: asked.subscription_id,
                    ticket,
                },
                &mut answer.fetches,
                &mut asked.waits,
            ),
        };
        asked.number += 1;
        let text = filter.map_or("", |filter| filter.as_str());
        if self.engine.broker_links.brokers.config.is_on() {
            answer.filters.push(text.into());
        }
        answer.codes.push(match result {
            Ok(()) => granted_code(options.qos.min(asked.max_qos)),
            Err(reason) => {
                self.engine.state.counters.requests_refused[reason.number()] += 1;
                self.engine.state.reports().tell_denied(Attempt::Subscribe, session, text, reason);
                answer.refusals.add(text, reason);
                reason.code()
            }
        });
        if !asked.expects && !answer.fetches.is_empty() {
            asked.expects = true;
            fetching!(self.engine).expect_fetches(session, &answer.fetches);
        }
    }
}

/// Whether the last answer of a connection is the one of a ticket.
fn extra_has(connection: Option<&mut Connection>, ticket: Ticket) -> bool {
    let extra = connection.and_then(|connection| connection.extra.as_ref());
    extra.is_some_and(|extra| extra.acks.next_sequence() == ticket.sequence.wrapping_add(1))
}
