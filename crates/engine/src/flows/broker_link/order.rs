//! The order of messages to brokers.

use crate::flows::contexts::Dealing;
use crate::ids::BrokerLinkKey;
use crate::now::Now;
use crate::orchestrator::broker_link::RoutingPolicy;
use crate::orchestrator::broker_link::settle::ReassignTo;
use crate::session::Delivery;

impl Dealing<'_> {
    /// Topics may have moved: queued messages move with them, and the new brokers wait for the messages in flight at
    /// the old ones.
    pub(crate) fn keep_order(&mut self, now: Now) {
        let by_topic = self
            .broker_links
            .brokers
            .config
            .settings()
            .is_some_and(|settings| settings.policy == RoutingPolicy::TopicHash);
        if !by_topic || self.broker_links.brokers.all.len() < 2 {
            return;
        }
        // First, since moved messages may be sent at once.
        self.broker_links.wait_for_moved(now, self.state, self.groups);
        let keys: Vec<BrokerLinkKey> = self.broker_links.brokers.all.keys().copied().collect();
        for key in keys {
            self.move_queue(now, key);
        }
    }

    /// Moves queued messages of a broker to the brokers that have their topics now.
    fn move_queue(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(session) = self.broker_links.brokers.all.get(&key).map(|broker_link| broker_link.session) else {
            return;
        };
        let flow = self.state.sessions.get(session.0).and_then(|session| session.flow.as_ref());
        let moves = |delivery: &Delivery| {
            self.broker_links.broker_of(self.groups, &delivery.message).is_some_and(|to| to != session)
        };
        if !flow.is_some_and(|flow| flow.queue.iter().any(moves)) {
            return;
        }
        let queue = crate::orchestrator::broker_link::settle::take_queue(&mut self.state.sessions, session);
        let moves = |delivery: &Delivery| {
            self.broker_links.broker_of(self.groups, &delivery.message).is_some_and(|to| to != session)
        };
        let (go, stay): (Vec<Delivery>, Vec<Delivery>) = queue.into_iter().partition(moves);
        if let Some(flow) = self.state.sessions.get_mut(session.0).and_then(|session| session.flow.as_mut()) {
            flow.queue_bytes = stay.iter().map(Delivery::cost).sum();
            flow.queue = stay.into_iter().collect();
        }
        self.deal_queue(now, key, go, ReassignTo::OtherBrokers);
        // Messages that waited behind it may be sent without a window.
        self.broker_links.brokers.open_window(now, self.state, self.layouts, key);
    }
}
