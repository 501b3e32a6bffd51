//! Authentication of an open connection ends.

use crate::engine::facets::EntryCalls;
use crate::event::{Accepted, AuthOutcome};
use crate::events::reason::Reason;
use crate::flows::contexts::connecting;
use crate::identity::Identity;
use crate::ids::ConnectionKey;
use crate::now::Now;
use tidegate_mqtt::ReasonCode;

impl EntryCalls<'_> {
    /// Ends a re-authentication of a connected client ([MQTT-4.12.1-2]). A connection keeps the user of its CONNECT,
    /// since its usage counts for that user: another one is refused.
    pub(crate) fn end_authentication_again(&mut self, now: Now, key: ConnectionKey, outcome: AuthOutcome) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        let session = connection.session;
        let enhanced = connection.extra.as_mut().and_then(|extra| extra.enhanced.as_mut());
        let Some(enhanced) = enhanced.filter(|enhanced| enhanced.running) else { return };
        enhanced.running = false;
        let present = session.and_then(|session| self.engine.state.sessions.get(session.0)?.identity.as_deref());
        let is_other = |accepted: &Accepted| user_of(accepted.identity.as_deref()) != user_of(present);
        let outcome = match outcome {
            AuthOutcome::Accept(accepted) if is_other(&accepted) => AuthOutcome::Refuse(Reason::NotAuthorized),
            outcome => outcome,
        };
        match outcome {
            AuthOutcome::Accept(accepted) => {
                connecting!(self.engine).send_auth(key, ReasonCode::Success, accepted.data.as_deref());
                connecting!(self.engine).bound_by_proof(now, key, accepted.identity.as_deref());
                if let Some(session) = session {
                    connecting!(self.engine).identify(session, accepted.identity);
                    self.engine.state.sessions.store_session(&mut self.engine.state.journal, session);
                }
            }
            AuthOutcome::Refuse(reason) => self.engine.close_connection(now, key, reason, None),
            AuthOutcome::Challenge(_) => {}
        }
        self.engine.after_frame(now);
    }
}

fn user_of(identity: Option<&Identity>) -> Option<&str> {
    identity.and_then(|identity| identity.user_name.as_deref())
}
