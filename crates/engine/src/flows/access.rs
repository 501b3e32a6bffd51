//! Sessions are asked for their rights again, and a PUBLISH for its right.

use crate::event::Attempt;
use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::flows::contexts::Subscribing;
use crate::ids::SessionKey;
use crate::now::Now;
use crate::publish::inbound::Inbound;
use crate::settings::fleet_topics::owner_of;
use tidegate_mqtt::QoS;

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
        self.rules.withdraw_waiting(self.state, key);
        for filter in ended {
            if let Ok(filter) = tidegate_mqtt::TopicFilter::new(&filter) {
                self.unsubscribe(now, key, filter);
                self.state.reports().tell_denied(Attempt::StaySubscribed, key, filter.as_str(), Reason::NotAuthorized);
                self.state.counters.requests_refused[Reason::NotAuthorized.number()] += 1;
            }
        }
    }
}
