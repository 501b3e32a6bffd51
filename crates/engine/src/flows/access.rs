//! Sessions are asked for their rights again, and a PUBLISH for its right.

use crate::event::Attempt;
use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::flows::contexts::{Subscribing, Withdrawing};
use crate::flows::contexts::{dealing, withdrawing};
use crate::ids::SessionKey;
use crate::now::Now;
use crate::publish::inbound::Inbound;
use crate::session::Delivery;
use crate::session::packet_ids::{InflightEntry, State};
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
        let Some((at, state)) = flow.inflight.place_of(id) else { return };
        let Some(withdrawn) = flow.inflight.finish_at(at) else { return };
        flow.to_resend -= usize::from(is_connected);
        let Some(delivery) = withdrawn.delivery else { return };
        flow.inflight_bytes -= delivery.cost();
        self.state.memory.held -= delivery.cost();
        if let Some(stored) = stored {
            self.state.journal.delete_entry(stored, withdrawn.numbers);
        }
        match &delivery.group {
            Some(group) if state == State::AwaitPubAck => {
                dealing!(self).give_back(now, group, key, &mut delivery.message.publication());
            }
            _ => self.state.reports().drop_for(Reason::NotAuthorized, key, delivery.message.topic()),
        }
    }
}
