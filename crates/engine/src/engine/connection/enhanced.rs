//! Authentication of an open connection ends.

use crate::engine::facets::EntryCalls;
use crate::event::Verdict;
use crate::flows::contexts::connecting;
use crate::ids::ConnectionKey;
use crate::now::Now;
use tidegate_mqtt::ReasonCode;

impl EntryCalls<'_> {
    /// Ends a re-authentication of a connected client ([MQTT-4.12.1-2]).
    pub(crate) fn end_authentication_again(&mut self, now: Now, key: ConnectionKey, verdict: Verdict) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        let session = connection.session;
        let enhanced = connection.extra.as_mut().and_then(|extra| extra.enhanced.as_mut());
        let Some(enhanced) = enhanced.filter(|enhanced| enhanced.running) else { return };
        enhanced.running = false;
        match verdict {
            Verdict::Accept(accepted) => {
                connecting!(self.engine).send_auth(key, ReasonCode::Success, accepted.data.as_deref());
                connecting!(self.engine).bound_by_proof(now, key, accepted.identity.as_deref());
                if let Some(session) = session {
                    connecting!(self.engine).identify(session, accepted.identity);
                    self.engine.state.sessions.store_session(&mut self.engine.state.journal, session);
                }
            }
            Verdict::Refuse(reason) => self.engine.close_connection(now, key, reason, None),
            Verdict::Challenge(_) => {}
        }
        self.engine.after_frame(now);
    }
}
