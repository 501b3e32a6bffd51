//! The origin of a message is added to its properties.

use crate::engine::facets::PublishPipeline;
use crate::ids::SessionKey;
use crate::now::Now;
use crate::topics::origin::HEAD;

impl PublishPipeline<'_> {
    /// Appends the user property for a message of a session; it has to be the first one.
    #[cold]
    pub(crate) fn append_origin(&mut self, now: Now, session: Option<SessionKey>, retain: bool, out: &mut Vec<u8>) {
        let id = self.engine.uplinks.next_message_id(now, &self.engine.state, session, retain);
        let session = session.and_then(|session| self.engine.state.sessions.get(session.0));
        let client_id = session.map_or("", |session| &*session.client_id);
        let value = format!("{:016x}-{} {} {client_id}", id.origin, id.number, now.unix);
        let Ok(len) = u16::try_from(value.len()) else { return };
        out.extend_from_slice(HEAD);
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(value.as_bytes());
    }
}
