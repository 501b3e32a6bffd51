//! Wills: whether a connection that has ended leaves one, and when it is published.

use crate::event::Attempt;
use crate::events::reason::Reason;
use crate::flows::contexts::Connecting;
use crate::flows::contexts::SessionEnding;
use crate::ids::SessionKey;
use crate::now::{Millis, Now};
use crate::session::{FORMER_WILLS_MAX, FormerWill, Will};
use crate::timers::Timer;

impl SessionEnding<'_> {
    /// Decides about the will of a connection that has ended ([MQTT-3.1.2-8], [MQTT-3.14.4-3]).
    pub(crate) fn schedule_will(&mut self, now: Now, key: SessionKey, reason: Reason) {
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        let expiry = session.expiry_seconds;
        let Some(rare) = session.rare.as_mut() else { return };
        if self.handover.exporting && expiry > 0 {
            // Its will goes along with the session and is published there, if the client does not return in time.
            return;
        }
        let unwanted = reason == Reason::NormalDisconnect
            || (reason == Reason::ServerShuttingDown && !self.state.settings.wills_on_shutdown);
        if unwanted {
            let is_stored = rare.stored_will.is_some() || (session.stored.is_some() && rare.will.is_some());
            if is_stored && reason == Reason::NormalDisconnect {
                // A process that is killed soon after this must not leave the will in the store.
                self.state.journal.promised_batch();
            }
            self.state.sessions.replace_will(&mut self.state.memory, &mut self.state.journal, key, None);
            return;
        }
        let Some(will) = &rare.will else { return };
        // A session that ends now takes its will along at once, whatever delay the will asks for.
        if will.delay_seconds == 0 || expiry == 0 || reason == Reason::ServerShuttingDown {
            let will = self.state.sessions.replace_will(&mut self.state.memory, &mut self.state.journal, key, None);
            self.publish_will(now, key, will);
        } else {
            let due = now.monotonic.plus_seconds(will.delay_seconds.min(expiry));
            rare.will_due = Some(due);
            self.state.timers.set(due, Timer::Will(key));
        }
    }

    pub(crate) fn publish_will(&mut self, now: Now, key: SessionKey, will: Option<Will>) {
        let Some(will) = will else { return };
        let mut publication = will.message.publication();
        if !self.rules.may_publish(self.state, key, publication.topic, publication.qos, publication.retain) {
            self.state.counters.drop_message(Reason::NotAuthorized);
            self.state.reports().tell_denied(Attempt::Will, key, publication.topic, Reason::NotAuthorized);
            return;
        }
        if let Some(seconds) = will.expiry_seconds {
            publication = publication.expiring(now.monotonic.plus_seconds(seconds));
        }
        self.publish_owed(now, &mut publication, key);
    }

    pub(crate) fn handle_will_timer(&mut self, now: Now, key: SessionKey) {
        let Some(rare) = self.state.sessions.get_mut(key.0).and_then(|session| session.rare.as_mut()) else { return };
        rare.will_due = None;
        let will = self.state.sessions.replace_will(&mut self.state.memory, &mut self.state.journal, key, None);
        self.publish_will(now, key, will);
        self.state.sessions.store_session(&mut self.state.journal, key);
    }
}

impl Connecting<'_> {
    /// The client of a session connects while an earlier connection of it may still be on its way here: takes the will of
    /// that connection. A will with a delay is not published, since the client is back ([MQTT-3.1.3-9]).
    pub(crate) fn take_will_of_expected(&mut self, now: Now, key: SessionKey) -> Option<FormerWill> {
        let rare = self.state.sessions.get(key.0)?.rare.as_ref()?;
        let expected_until = rare.sent_on_until.filter(|until| *until > now.monotonic)?;
        rare.will.as_ref().filter(|will| will.delay_seconds == 0)?;
        let will = self.state.sessions.replace_will(&mut self.state.memory, &mut self.state.journal, key, None)?;
        Some(FormerWill { will, expected_until })
    }

    /// Keeps this will until its connection has come, or is expected no more.
    pub(crate) fn keep_former_will(&mut self, key: SessionKey, former: FormerWill) {
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        self.state.memory.held += former.will.cost();
        self.state.timers.set(former.expected_until, Timer::FormerWill(key));
        let wills = &mut session.rare_mut().former_wills;
        wills.push(former);
        let oldest = wills.first().map(|oldest| oldest.expected_until).filter(|_| wills.len() > FORMER_WILLS_MAX);
        if let Some(oldest) = oldest {
            self.take_former_will(key, |until| until == oldest);
        }
    }

    /// The connections of such wills are expected no more.
    pub(crate) fn drop_former_wills(&mut self, key: SessionKey, is_over: impl Fn(Millis) -> bool) {
        while self.take_former_will(key, &is_over).is_some() {}
    }

    /// Takes the oldest will whose connection was expected until such a time.
    pub(crate) fn take_former_will(&mut self, key: SessionKey, is_it: impl Fn(Millis) -> bool) -> Option<Will> {
        let wills = &mut self.state.sessions.get_mut(key.0)?.rare.as_mut()?.former_wills;
        let at = wills.iter().position(|former| is_it(former.expected_until))?;
        let FormerWill { will, expected_until } = wills.remove(at);
        if !wills.iter().any(|other| other.expected_until == expected_until) {
            self.state.timers.cancel(expected_until, Timer::FormerWill(key));
        }
        self.state.memory.held -= will.cost();
        Some(will)
    }
}
