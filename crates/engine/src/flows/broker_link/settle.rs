//! Messages are settled when they have returned from a broker.

use crate::events::reason::Reason;
use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::Dealing;
use crate::flows::contexts::Publishing;
use crate::flows::contexts::dealing;
use crate::flows::contexts::publishing;
use crate::ids::BrokerLinkKey;
use crate::ids::{SessionKey, ShardId};
use crate::journal::keys::Key;
use crate::message::{MessageRef, Publication};
use crate::now::Now;
use crate::orchestrator::broker_link::id::MessageId;
use crate::orchestrator::broker_link::newest::NewestBrought;
use crate::orchestrator::broker_link::passed::is_recognised;
use crate::orchestrator::broker_link::receive::version_of;
use crate::orchestrator::broker_link::settle::{ReassignTo, keep_in_flight, leave_to_release, take_queue};
use crate::orchestrator::broker_link::{BrokerLink, Unreturned};
use crate::retained::RetainedStore;
use crate::session::packet_ids::State;
use crate::session::{Delivery, Flow, InFlight};
use crate::settings::Settings;
use crate::settings::fleet_topics::of_brokers;
use std::collections::BTreeMap;

/// No member of any group.
const NO_MEMBER: (ShardId, u32) = (ShardId(u16::MAX), u32::MAX);

/// The order in which messages entered.
fn entered(message: &MessageRef) -> Option<(u64, u64)> {
    MessageId::at_end_of(message.properties()).map(|id| (id.entered, id.number))
}

/// When the newest retained value of each topic entered.
type NewestValues = BTreeMap<Box<str>, (u64, u64)>;

/// The values that a broker is about to take or to return. Messages that are sent again come behind these.
fn newest_values(broker_link: &BrokerLink, flow: Option<&Flow>) -> NewestValues {
    let sent = flow.into_iter().flat_map(|flow| flow.inflight.iter().map(|entry| &entry.item));
    let unreturned = broker_link.unreturned.values().map(|waiting| &waiting.in_flight);
    let deliveries = sent.chain(unreturned).filter_map(|in_flight| in_flight.delivery.as_ref());
    let mut values = BTreeMap::new();
    for delivery in deliveries.filter(|delivery| delivery.message.retain) {
        let newest = values.entry(delivery.message.topic().into()).or_default();
        *newest = entered(&delivery.message).unwrap_or_default().max(*newest);
    }
    values
}

/// A message as it is sent again: for subscribers alone where a newer retained value of its topic is known, which it would
/// replace at the broker.
fn behind_newer(
    now: Now,
    settings: &Settings,
    (store, brought): (&RetainedStore, &NewestBrought),
    values: &NewestValues,
    message: MessageRef,
) -> MessageRef {
    if !message.retain {
        return message;
    }
    let is_kept_newer = || {
        let (tenant, topic) = of_brokers(settings, message.topic())?;
        // The message itself may be kept with a later version than its own.
        let is_it = store.values.get(tenant, topic, now.monotonic).is_some_and(|it| it.payload() == message.payload());
        let next = version_of(message.properties()).saturating_add(1);
        Some(!is_it && store.has_as_new(now, tenant, topic, next))
    };
    let newest = values.get(message.topic()).max(brought.of(message.topic()));
    if newest > entered(&message).as_ref() || is_kept_newer() == Some(true) {
        message.publication().unretained().keep()
    } else {
        message
    }
}

impl BrokerLinking<'_> {
    /// Settles the messages that brokers have acknowledged in the packet at hand.
    pub(crate) fn settle_acknowledged(&mut self, now: Now) {
        let decide = self.broker_links.brokers.config.brokers_decide();
        while let Some((session, in_flight)) = self.broker_links.settlement.acknowledged.pop() {
            let Some(key) = self.broker_links.brokers.by_session.get(&session.0).copied() else {
                self.broker_links.brokers.forget_settled(self.state, self.layouts, session, &in_flight);
                continue;
            };
            let ids = &mut self.broker_links.settlement.settled;
            let id = in_flight.delivery.as_ref().and_then(|delivery| ids.at_end_of(delivery.message.properties()));
            let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { continue };
            broker_link.counters.acknowledged += 1;
            // Most brokers of MQTT 5 bring a message back before they acknowledge it; older ones bring no id.
            let is_v5 = broker_link.version.is_v5();
            let seen = &self.broker_links.settlement.seen;
            let brought = is_v5 && id.is_some_and(|id| seen.contains(&id));
            broker_link.counters.returned += u64::from(brought);
            broker_link.pause.note_room();
            if let Some(delivery) = in_flight.delivery.as_ref().filter(|_| !self.broker_links.quarantine.is_empty()) {
                self.broker_links.quarantine.note_taken(delivery.message.topic());
            }
            // A user may publish without the right to read: then no message comes back, whatever its outcome.
            let brings_ids = is_v5 && !decide;
            let (Some(delivery), Some(id)) = (&in_flight.delivery, id) else {
                self.broker_links.brokers.forget_settled(self.state, self.layouts, session, &in_flight);
                in_flight.leave_memory(&mut self.state.memory);
                continue;
            };
            let kept_back = !brought
                && self.broker_links.keeps_back(session, delivery.message.topic())
                && (is_v5 || !self.broker_links.settlement.seen.contains(&id));
            let open = brings_ids && !brought || kept_back;
            if !open || !publishing!(self).is_wanted_here(&delivery.message) {
                self.broker_links.settlement.resends.forget(&id);
                self.broker_links.settlement.settle_or_keep(
                    self.state,
                    self.layouts,
                    &mut self.broker_links.brokers,
                    key,
                    (id, in_flight),
                );
            } else if kept_back {
                self.deliver_here(now, key, &delivery.message);
                self.broker_links.settlement.resends.forget(&id);
                self.broker_links.brokers.forget_settled(self.state, self.layouts, session, &in_flight);
            } else {
                self.broker_links.settlement.keep_unreturned(
                    now,
                    self.state,
                    self.layouts,
                    &mut self.broker_links.brokers,
                    (key, id),
                    in_flight,
                );
            }
        }
        while let Some(id) = self.broker_links.settlement.denied.pop() {
            self.broker_links.brokers.wait_no_longer_for(self.state, self.layouts, &id);
        }
        while let Some(key) = self.broker_links.settlement.trusted.pop() {
            self.broker_links.brokers.end_care(now, self.state, self.layouts, key);
        }
    }

    /// Sends messages again that should have returned by now; settles those without a subscriber left.
    pub(crate) fn check_unreturned(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(timeout) = self.broker_links.brokers.config.settings().map(|settings| settings.return_timeout_ms)
        else {
            return;
        };
        let Some(broker_link) = self.broker_links.brokers.all.get(&key) else { return };
        let late = |(_, waiting): &(&MessageId, &Unreturned)| waiting.since.plus(timeout) <= now.monotonic;
        let late: Vec<MessageId> = broker_link.unreturned.iter().filter(late).map(|(id, _)| *id).collect();
        if !late.is_empty() {
            let session = self.state.sessions.get(broker_link.session.0);
            let values = newest_values(broker_link, session.and_then(|session| session.flow.as_deref()));
            for id in &late {
                self.send_again(now, key, id, &values);
            }
        }
        self.check_gate(now);
    }

    /// Deals one acknowledged message again, if it still has a subscriber.
    fn send_again(&mut self, now: Now, key: BrokerLinkKey, id: &MessageId, values: &NewestValues) {
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        let session = broker_link.session;
        let Some(Unreturned { in_flight, .. }) = broker_link.unreturned.remove(id) else { return };
        self.broker_links.settlement.forget_unreturned(self.state, &in_flight);
        let message = in_flight.delivery.as_ref().map(|delivery| delivery.message.clone());
        let wanted = message.as_ref().is_some_and(|message| publishing!(self).is_wanted_here(message));
        let expired = message.as_ref().is_some_and(|message| message.expires_at <= now.monotonic);
        match message {
            Some(message) if wanted && !expired && self.broker_links.settlement.resends.is_enough(id) => {
                self.broker_links.brokers.note_kept_back(key, message.topic());
                self.broker_links.settlement.resends.forget(id);
                self.deliver_here(now, key, &message);
            }
            Some(message) if wanted => {
                let known = (&self.retaining.store, &self.broker_links.settlement.newest_brought);
                let message = behind_newer(now, &self.state.settings, known, values, message);
                dealing!(self).redeal_one(now, key, &message, ReassignTo::OtherBrokers);
            }
            _ => self.broker_links.settlement.resends.forget(id),
        }
        self.broker_links.brokers.forget_settled(self.state, self.layouts, session, &in_flight);
        self.broker_links.brokers.fit_window(self.state, key);
    }

    /// A broker has forgotten the orchestrator, with its accepted messages and those it was about to hand over.
    /// Everything is dealt again, in its order; usually the same broker gets it.
    pub(super) fn start_again(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(broker_link) = self.broker_links.brokers.all.get(&key) else { return };
        let session = broker_link.session;
        let Some(session) = self.state.sessions.get_mut(session.0) else { return };
        let (stored, flow) = (session.stored, session.flow_mut());
        // Its next messages have packet ids that earlier ones had.
        let received = std::mem::take(&mut flow.received);
        flow.received_before = 0;
        if let Some(stored) = stored {
            for id in received.iter() {
                self.state.journal.delete(Key::Received(stored, id));
            }
        }
        self.take_back(now, key, ReassignTo::AnyBroker);
    }

    /// A broker is back. Messages that it had acknowledged before and may not have sent to other members are sent to it
    /// again: it may have lost them although it knows the session.
    pub(super) fn send_unpassed_again(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        let session = broker_link.session;
        let unpassed = broker_link.unpassed.take_all();
        let Some(broker_link) = self.broker_links.brokers.all.get(&key) else { return };
        let flow = self.state.sessions.get(session.0).and_then(|session| session.flow.as_deref());
        let values = newest_values(broker_link, flow);
        let newest = self.broker_links.last_number();
        for (id, mut in_flight) in unpassed {
            self.broker_links.settlement.forget_unpassed(self.state, &in_flight);
            if is_recognised(&id, newest) {
                if let Some(delivery) = in_flight.delivery.as_mut() {
                    let known = (&self.retaining.store, &self.broker_links.settlement.newest_brought);
                    let message = delivery.message.clone();
                    delivery.message = behind_newer(now, &self.state.settings, known, &values, message);
                }
                dealing!(self).reassign_one(now, key, session, &in_flight, ReassignTo::AnyBroker);
            } else {
                self.broker_links.brokers.forget_settled(self.state, self.layouts, session, &in_flight);
            }
        }
    }

    /// Takes everything from a broker that is away or leaves: others get it.
    pub(crate) fn reassign(&mut self, now: Now, key: BrokerLinkKey) {
        self.take_back(now, key, ReassignTo::OtherBrokers);
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        let wait = self.state.sessions.get(broker_link.session.0).and_then(|session| session.flow.as_ref());
        let wait = wait.map_or(0, |flow| flow.inflight.len() as u64).saturating_sub(broker_link.released);
        if wait > 0 {
            let why = std::mem::take(&mut broker_link.last_error);
            broker_link.last_error =
                format!("{why}; {wait} exactly-once messages wait for it, since it speaks no MQTT 5");
        }
    }

    /// Takes back a broker's messages and deals them again in the order of their entry: acknowledged and not returned,
    /// unacknowledged, and queued ones.
    fn take_back(&mut self, now: Now, key: BrokerLinkKey, reassign_to: ReassignTo) {
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        // The version of the last accepted connection counts, not that of the next attempt.
        let (session, brings_back) = (broker_link.session, broker_link.accepted.unwrap_or(broker_link.version).is_v5());
        let mut sent: Vec<InFlight> = Vec::new();
        for (_, Unreturned { in_flight, .. }) in std::mem::take(&mut broker_link.unreturned) {
            self.broker_links.settlement.forget_unreturned(self.state, &in_flight);
            sent.push(in_flight);
        }
        let unpassed = broker_link.unpassed.take_all();
        let newest = self.broker_links.last_number();
        for (id, in_flight) in unpassed {
            self.broker_links.settlement.forget_unpassed(self.state, &in_flight);
            if is_recognised(&id, newest) {
                sent.push(in_flight);
            } else {
                self.broker_links.brokers.forget_settled(self.state, self.layouts, session, &in_flight);
            }
        }
        self.broker_links.brokers.fit_window(self.state, key);
        let Some(flow) = self.state.sessions.get_mut(session.0).and_then(|session| session.flow.as_mut()) else {
            return;
        };
        flow.to_resend = 0;
        let under_way: Vec<_> = flow.inflight.drain().collect();
        // Before messages are dealt again: the same broker may get them.
        let queue = take_queue(&mut self.state.sessions, session);
        let mut released = 0;
        for entry in under_way {
            let exactly_once = entry.state != State::AwaitPubAck && reassign_to == ReassignTo::OtherBrokers;
            if exactly_once && !brings_back {
                // Without an id a second delivery could not be recognised: it waits until its broker is back.
                keep_in_flight(&mut self.state.sessions, session, entry);
                continue;
            }
            let cost = entry.item.delivery.as_ref().map_or(0, Delivery::cost);
            if let Some(flow) = self.state.sessions.get_mut(session.0).and_then(|session| session.flow.as_mut()) {
                flow.inflight_bytes -= cost;
            }
            self.state.memory.held -= cost;
            if exactly_once {
                // The broker may hold the packet id, and would take the next message under it for a repetition.
                sent.push(leave_to_release(&mut self.state.sessions, &mut self.state.journal, session, entry));
                released += 1;
                continue;
            }
            sent.push(entry.item);
        }
        if let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) {
            broker_link.released = released;
        }
        sent.sort_by_key(|in_flight| in_flight.delivery.as_ref().and_then(|delivery| entered(&delivery.message)));
        for in_flight in sent {
            dealing!(self).reassign_one(now, key, session, &in_flight, reassign_to);
        }
        dealing!(self).deal_queue(now, key, queue, reassign_to);
        self.check_gate(now);
    }
}

impl Publishing<'_> {
    /// True if a message would reach a client of this process by a broker.
    fn is_wanted_here(&mut self, message: &MessageRef) -> bool {
        let Some((tenant, topic)) = of_brokers(&self.state.settings, message.topic()) else { return false };
        let slot = self.route_of(tenant, topic);
        !self.router.cache.get(slot).1.is_empty()
    }
}

impl Dealing<'_> {
    /// Deals a message again that was sent to a broker.
    pub(crate) fn redeal_one(&mut self, now: Now, key: BrokerLinkKey, message: &MessageRef, reassign_to: ReassignTo) {
        self.redeal(now, key, &message.publication(), reassign_to);
        self.broker_links.brokers.put_in_its_place(self.state, message);
    }

    /// Deals a broker's message again. If it must go elsewhere, the same broker gets it only if there is no other.
    fn redeal(&mut self, now: Now, key: BrokerLinkKey, publication: &Publication<'_>, reassign_to: ReassignTo) {
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        broker_link.counters.resent += 1;
        let session = broker_link.session;
        if publication.expires_at <= now.monotonic {
            self.state.reports().discard_publication(Reason::MessageExpired, &mut publication.clone());
            return;
        }
        let not_to = match reassign_to {
            ReassignTo::OtherBrokers => (self.links.place.shard, session.0),
            ReassignTo::AnyBroker => NO_MEMBER,
        };
        let source = crate::publish::dispatch::Source {
            hops: 1,
            ..crate::publish::dispatch::Source::inside(self.links.place.shard, now)
        };
        self.deal_again(
            now,
            crate::orchestrator::broker_link::life::group(),
            &mut publication.clone(),
            &source,
            not_to,
        );
    }

    /// Deals the queue of a broker again, in its order.
    pub(crate) fn deal_queue(
        &mut self,
        now: Now,
        key: BrokerLinkKey,
        queue: impl IntoIterator<Item = Delivery>,
        reassign_to: ReassignTo,
    ) {
        let Some(session) = self.broker_links.brokers.all.get(&key).map(|broker_link| broker_link.session) else {
            return;
        };
        for delivery in queue {
            self.state.memory.forget_queued(delivery.cost());
            let stored = self.state.sessions.get(session.0).and_then(|session| session.stored);
            self.redeal(now, key, &delivery.message.publication(), reassign_to);
            self.state.journal.forget_stored(stored, delivery.number);
        }
    }

    fn reassign_one(
        &mut self,
        now: Now,
        key: BrokerLinkKey,
        session: SessionKey,
        in_flight: &InFlight,
        reassign_to: ReassignTo,
    ) {
        if let Some(delivery) = &in_flight.delivery {
            self.redeal_one(now, key, &delivery.message, reassign_to);
        }
        self.broker_links.brokers.forget_settled(self.state, self.layouts, session, in_flight);
    }
}
