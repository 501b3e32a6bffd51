//! Sessions are asked for their rights again, and a PUBLISH for its right.

use crate::event::Attempt;
use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::flows::contexts::{Subscribing, Withdrawing};
use crate::flows::contexts::{dealing, withdrawing};
use crate::ids::SessionKey;
use crate::journal::Journal;
use crate::journal::keys::StoredSession;
use crate::now::Now;
use crate::publish::inbound::Inbound;
use crate::session::packet_ids::{InflightEntry, State};
use crate::session::{Delivery, Flow};
use crate::settings::fleet_topics::owner_of;
use tidegate_mqtt::{PacketId, QoS};

impl Deciding<'_> {
    /// Whether a message on its way in may be published. A yes is remembered.
    pub(crate) fn may_publish_inbound(&mut self, it: &Inbound<'_>) -> bool {
        if self.rules.is_known_to_be_allowed(self.state, &self.router.cache, it) {
            return true;
        }
        let (_, topic) = owner_of(&self.state.settings, it.tenant, self.router.cache.get(it.slot).0);
        let allowed = self.services.principals.publisher_may(
            self.state,
            self.rules,
            (it.key, it.session),
            topic,
            it.raw.qos,
            it.raw.retain,
        );
        let asked = self.rules.asked(&self.router.cache, it);
        if let Some(connection) = self.state.connections.get_mut(it.key).filter(|_| allowed) {
            connection.extra_mut().allowed = Some(asked);
        }
        allowed
    }
}

impl Subscribing<'_> {
    pub(crate) fn recheck_session(&mut self, now: Now, key: SessionKey, epoch: u16) {
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        session.rights_epoch = epoch;
        let mut ended: Vec<String> = Vec::new();
        let Some(session) = self.state.sessions.get(key.0) else { return };
        for filter in session.filters.iter() {
            let qos = self
                .router
                .index
                .subscriber(filter, key)
                .map_or(QoS::AtMostOnce, |subscriber| subscriber.options.qos());
            let text = self.router.index.filter(filter).unwrap_or_default();
            if !self.rules.may_subscribe(self.state, key, text, qos, false) {
                ended.push(text.to_owned());
            }
        }
        for membership in session.rare.iter().flat_map(|rare| &rare.memberships) {
            let qos = crate::topics::SubscriberOptions::from_bits(membership.member.options).qos();
            if !self.rules.may_subscribe(self.state, key, &membership.filter, qos, true) {
                ended.push(format!("$share/{}/{}", membership.share, membership.filter));
            }
        }
        for filter in ended {
            if let Ok(filter) = tidegate_mqtt::TopicFilter::new(&filter) {
                self.unsubscribe(now, key, filter);
                self.state.reports().tell_denied(Attempt::StaySubscribed, key, filter.as_str(), Reason::NotAuthorized);
                self.state.counters.requests_refused[Reason::NotAuthorized.number()] += 1;
            }
        }
        // Behind the groups, which have taken their messages back.
        withdrawing!(self).withdraw_unanswered(now, key);
        self.rules.withdraw_waiting(self.state, key);
    }
}

impl Withdrawing<'_> {
    /// Withdraws messages in flight that would be sent again and that the client may not receive: another client may
    /// have come to the session, or the rules have changed while it was away.
    fn withdraw_unanswered(&mut self, now: Now, key: SessionKey) {
        let Some(session) = self.state.sessions.get(key.0) else { return };
        let Some(flow) = session.flow.as_ref() else { return };
        let again = if session.connection.is_some() { flow.to_resend } else { flow.inflight.len() };
        let unsent = flow.inflight.iter().skip(flow.inflight.len() - again);
        let is_denied = |delivery: &Delivery| !self.may_be_sent_again(key, delivery);
        let denied = unsent.filter(|entry| entry.item.delivery.as_ref().is_some_and(is_denied));
        for id in denied.map(InflightEntry::id).collect::<Vec<_>>() {
            self.withdraw_in_flight(now, key, id);
        }
    }

    fn may_be_sent_again(&self, key: SessionKey, delivery: &Delivery) -> bool {
        match &delivery.group {
            Some(group) => self.rules.may_subscribe(self.state, key, &group.filter, delivery.qos, true),
            None => self.rules.may_receive(self.state, key, delivery.message.topic()),
        }
    }

    /// Withdraws a message in flight. One of a group goes to another member, unless it may have arrived with QoS 2
    /// ([MQTT-4.8.2-5]).
    fn withdraw_in_flight(&mut self, now: Now, key: SessionKey, id: PacketId) {
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        let (stored, is_connected) = (session.stored, session.connection.is_some());
        let Some(flow) = session.flow.as_mut() else { return };
        let Some((_, state)) = flow.inflight.place_of(id) else { return };
        let journal = &mut self.state.journal;
        let withdrawn = match state {
            State::AwaitPubRec => release(flow, journal, stored, id),
            _ => end_flight(flow, journal, stored, id).inspect(|_| flow.to_resend -= usize::from(is_connected)),
        };
        let Some(delivery) = withdrawn else { return };
        flow.inflight_bytes -= delivery.cost();
        self.state.memory.held -= delivery.cost();
        match &delivery.group {
            Some(group) if state == State::AwaitPubAck => {
                dealing!(self).give_back(now, group, key, &mut delivery.message.publication());
            }
            _ => self.state.reports().drop_for(Reason::NotAuthorized, key, delivery.message.topic()),
        }
    }
}

/// Takes a message at QoS 1 out of those in flight.
fn end_flight(flow: &mut Flow, journal: &mut Journal, stored: Option<StoredSession>, id: PacketId) -> Option<Delivery> {
    let (at, _) = flow.inflight.place_of(id)?;
    let ended = flow.inflight.finish_at(at)?;
    if let Some(stored) = stored {
        journal.delete_entry(stored, ended.numbers);
    }
    ended.delivery
}

/// Takes a message at QoS 2 out of those in flight, where PUBREL takes its place: a client that has the message would take
/// the next one under this packet identifier for its repetition.
fn release(flow: &mut Flow, journal: &mut Journal, stored: Option<StoredSession>, id: PacketId) -> Option<Delivery> {
    let order = flow.number();
    let entry = flow.inflight.get_mut(id)?;
    entry.state = State::AwaitPubComp;
    let numbers = &mut entry.item.numbers;
    if let Some(stored) = stored.filter(|_| numbers.entry != 0) {
        numbers.separate = true;
        journal.put_sent(stored, numbers.entry, id, State::AwaitPubComp, order);
    }
    entry.item.delivery.take()
}
