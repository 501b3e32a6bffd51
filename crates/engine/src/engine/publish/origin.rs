//! The origin of a message is added to its properties.

use crate::engine::facets::PublishPipeline;
use crate::ids::{ConnectionKey, SessionKey};
use crate::now::Now;
use crate::settings::overflow::matches_client;
use crate::topics::origin::{HOPS_PROPERTY, ORIGIN_PROPERTY};
use tidegate_mqtt::PublishProperties;

impl PublishPipeline<'_> {
    /// Appends the user property for a message of a session; it has to be the first one.
    #[inline(never)]
    pub(crate) fn append_origin(&mut self, now: Now, session: Option<SessionKey>, out: &mut Vec<u8>) {
        let (origin, number) = self.engine.broker_links.next_number();
        let session = session.and_then(|session| self.engine.state.sessions.get(session.0));
        let client_id = session.map_or("", |session| &*session.client_id);
        self.engine.origins.append((origin, number, now.unix), client_id, out);
    }

    /// The user property that is removed beside the origin: the number of pipelines, unless it is believed of the publisher.
    /// Otherwise a client could keep its messages from pipelines. Brokers without pipelines pass it on.
    pub(super) fn unbelieved_hops(
        &self,
        (key, session): (ConnectionKey, Option<SessionKey>),
        properties: &PublishProperties<'_>,
    ) -> &'static str {
        let state = &self.engine.state;
        if state.settings.hub_filters.is_empty()
            || !properties.user_properties.iter().any(|pair| pair.0 == HOPS_PROPERTY)
        {
            return ORIGIN_PROPERTY;
        }
        let is_own = state.connections.get(key).is_some_and(crate::connection::Connection::is_own);
        let session = session.and_then(|session| state.sessions.get(session.0));
        let is_relay = session.is_some_and(|session| {
            state.settings.hub_relays.iter().any(|pattern| matches_client(pattern, &session.client_id))
        });
        if is_own || is_relay { ORIGIN_PROPERTY } else { HOPS_PROPERTY }
    }
}
