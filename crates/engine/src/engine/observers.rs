//! Observers come and go, and confirm messages.

use crate::engine::facets::InsiderCalls;
use crate::event::Attempt;
use crate::event::ObservedTicket;
use crate::events::reason::Reason;
use crate::flows::contexts::answering;
use crate::ids::ObserverId;
use crate::now::Now;
use crate::observers::{Observer, ObserverAnswer, ObserverError, ObserverWindow, Observing};
use crate::topics::observed::MAX_OBSERVERS;
use tidegate_mqtt::TopicFilter;

impl InsiderCalls<'_> {
    /// Tells an observer of messages from now on, as [`Event::Observed`](crate::Event::Observed).
    ///
    /// # Errors
    /// When there are too many, or a filter is not valid.
    pub fn observe(&mut self, observer: Observer) -> Result<ObserverId, ObserverError> {
        for filter in &observer.filters {
            if TopicFilter::new(filter).is_err() || filter.starts_with("$share/") {
                return Err(ObserverError::InvalidFilter(filter.clone()));
            }
        }
        let mut ids = (ObserverId::FIRST..MAX_OBSERVERS as u8).map(ObserverId);
        let id = ids.find(|id| !self.engine.services.observers.all.contains_key(id)).ok_or(ObserverError::TooMany)?;
        self.engine.services.observers.all.insert(id, Observing::new(observer));
        self.engine.router.cache.set_observed(self.engine.services.observers.topics());
        Ok(id)
    }

    /// Ends an observer. Its unconfirmed messages are refused for its reason.
    pub fn end_observer(&mut self, now: Now, id: ObserverId) {
        let Some(it) = self.engine.services.observers.all.remove(&id) else { return };
        self.engine.router.cache.set_observed(self.engine.services.observers.topics());
        for ticket in it.unconfirmed.values().filter_map(|one| one.ticket) {
            answering!(self.engine).confirm_publisher(now, ticket, Some(it.observer.refusal));
        }
        for key in it.waiting {
            self.engine.waiting().unpark(now, key);
        }
        self.engine.after_frame(now);
    }

    /// Gives an observer another window. One of the settings has none until this is called.
    pub fn set_observer_window(&mut self, now: Now, id: ObserverId, window: ObserverWindow) {
        let Some(it) = self.engine.services.observers.all.get_mut(&id) else { return };
        it.observer.window = window;
        self.release_observed(now, id);
        self.engine.after_frame(now);
    }

    /// An observer has a message, or refuses it for now or for good. A ticket counts once.
    pub fn confirm_observed(&mut self, now: Now, ticket: ObservedTicket, answer: ObserverAnswer) {
        let ObservedTicket { observer: id, number } = ticket;
        let Some(it) = self.engine.services.observers.all.get_mut(&id) else { return };
        let Some(one) = it.unconfirmed.remove(&number) else { return };
        it.bytes -= one.cost;
        let refused = match answer {
            ObserverAnswer::Taken => None,
            ObserverAnswer::Later => Some(it.observer.refusal),
            ObserverAnswer::Never { tenant, client_id, topic } => {
                let reason = Reason::ObserverRejected;
                let publisher = (tenant, &*client_id);
                self.engine.state.reports().tell_denied_named(Attempt::Publish, publisher, &topic, reason, None);
                Some(reason)
            }
        };
        match one.ticket {
            Some(ticket) => answering!(self.engine).confirm_publisher(now, ticket, refused),
            None => refused.into_iter().for_each(|reason| self.engine.state.counters.drop_message(reason)),
        }
        self.release_observed(now, id);
        self.engine.after_frame(now);
    }

    /// Lets publishers go on that wait for an observer, each after the other, while it has room.
    fn release_observed(&mut self, now: Now, id: ObserverId) {
        let waiting = self.engine.services.observers.all.get(&id).map_or(0, |it| it.waiting.len());
        for _ in 0..waiting {
            let Some(it) = self.engine.services.observers.all.get_mut(&id).filter(|it| it.has_room(0)) else { return };
            let Some(key) = it.waiting.pop_front() else { return };
            self.engine.waiting().unpark(now, key);
            // Its message needs more room than there is: it stays the first.
            if self.engine.services.observers.put_back(id, key) {
                return;
            }
        }
    }
}
