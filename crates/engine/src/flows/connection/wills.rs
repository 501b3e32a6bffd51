//! Wills: whether a connection that has ended leaves one, and when it is published.

use crate::event::Attempt;
use crate::events::reason::Reason;
use crate::flows::contexts::SessionEnding;
use crate::ids::SessionKey;
use crate::now::Now;
use crate::session::Will;
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
