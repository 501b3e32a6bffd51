//! Members get their seats again.

use crate::flows::contexts::Subscribing;
use crate::ids::SessionKey;
use crate::ids::hash_name;
use crate::now::Now;
use crate::session::Membership;

impl Subscribing<'_> {
    /// A group has another home: its member takes its seat there.
    pub(crate) fn retake_seat(&mut self, now: Now, key: SessionKey, membership: &Membership) {
        let Some(session) = self.state.sessions.get(key.0) else { return };
        let (client, online) = (hash_name(session.tenant, &session.client_id), session.connection.is_some());
        self.seat_away(now, key, client, membership);
        if online {
            self.groups.announce_presence_in(self.links, membership, key, true);
        }
    }
}
