//! Rules are put in force, and sessions are asked again after a change.

use crate::access::Access;
use crate::engine::facets::ControlCalls;
use crate::flows::contexts::subscribing;
use crate::ids::SessionKey;
use crate::now::Now;

/// Sessions and subscriptions looked at in one turn after the rules have changed.
const RECHECKED_PER_TURN: usize = 512;

impl ControlCalls<'_> {
    /// Puts rules in force; without any, everyone may do everything. Subscriptions that the new rules do not allow end
    /// in the next turns ([`Engine::next_deadline`](crate::Engine::next_deadline) says so).
    pub fn set_access(&mut self, access: Option<Box<dyn Access>>) {
        self.engine.rules.access = access;
        self.engine.rules.epoch = self.engine.rules.epoch.checked_add(1).unwrap_or(1);
        self.engine.rules.recheck_from = None;
        self.engine.rules.recheck();
        // Routes were made with the old rules.
        self.engine.router.index.change_rights();
    }

    /// A client is back: its subscriptions and its queued messages were allowed by the rules of that time.
    pub(crate) fn ask_for_rights_again(&mut self, now: Now, key: SessionKey) {
        let epoch = self.engine.rules.epoch();
        let old = self.engine.state.sessions.get(key.0).is_some_and(|session| session.rights_epoch != epoch);
        if self.engine.rules.access.is_some() && old {
            subscribing!(self.engine).recheck_session(now, key, epoch);
        }
    }

    /// Checks the subscriptions of some more sessions again. Sessions of brokers are skipped: rules were asked when the
    /// messages for them were published.
    pub(crate) fn recheck_rights(&mut self, now: Now) {
        let Some(from) = self.engine.rules.recheck_from else { return };
        let epoch = self.engine.rules.epoch();
        let mut keys = Vec::new();
        let mut looked_at = 0;
        for (key, session) in self.engine.state.sessions.iter_from(from) {
            looked_at += 1;
            if session.rights_epoch != epoch && !session.is_broker_link() {
                looked_at += session.subscriptions();
                keys.push(SessionKey(key));
            }
            if looked_at >= RECHECKED_PER_TURN {
                self.engine.rules.recheck_from = Some(key + 1);
                break;
            }
        }
        if looked_at < RECHECKED_PER_TURN {
            self.engine.rules.recheck_from = None;
        }
        for key in keys {
            subscribing!(self.engine).recheck_session(now, key, epoch);
        }
    }
}
