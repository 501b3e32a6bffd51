//! The origin of a message is added to its properties.

use crate::connection::Connection;
use crate::engine::facets::{ControlCalls, PublishPipeline};
use crate::ids::{ConnectionKey, SessionKey};
use crate::now::Now;
use crate::publish::origin::{at_host, with_user};
use crate::settings::overflow::matches_client;
use crate::topics::origin::{HOPS_PROPERTY, ORIGIN_PROPERTY};
use std::fmt::Display;
use tidegate_mqtt::PublishProperties;

impl ControlCalls<'_> {
    /// Sets the host of a client, before its CONNECT is decided: pipelines get it with its messages. Without pipelines it
    /// is not kept.
    pub fn name_host(&mut self, key: ConnectionKey, host: &(impl Display + ?Sized)) {
        let state = &mut self.engine.state;
        let connection = state.connections.get_mut(key).filter(|connection| !connection.is_own());
        if let Some(connection) = connection.filter(|_| !state.settings.hub_filters.is_empty()) {
            connection.extra_mut().publisher = Some(at_host(host));
        }
    }

    /// Adds the name of its user, when a client is let in.
    pub(in crate::engine) fn name_user(&mut self, key: ConnectionKey, user_name: Option<&str>) {
        let state = &mut self.engine.state;
        let connection = state.connections.get_mut(key).filter(|connection| !connection.is_own());
        let connection = connection.filter(|_| !state.settings.hub_filters.is_empty());
        let known = |it: &&mut Connection| user_name.is_some() || it.extra.is_some();
        if let Some(connection) = connection.filter(known) {
            let extra = connection.extra_mut();
            extra.publisher = with_user(extra.publisher.take(), user_name);
        }
    }
}

impl PublishPipeline<'_> {
    /// Appends the user property for a message of a session; it has to be the first one.
    #[inline(never)]
    pub(crate) fn append_origin(&mut self, now: Now, session: Option<SessionKey>, out: &mut Vec<u8>) {
        let (origin, number) = self.engine.broker_links.next_number();
        let session = session.and_then(|session| self.engine.state.sessions.get(session.0));
        let client_id = session.map_or("", |session| &*session.client_id);
        let connection = session.and_then(|session| self.engine.state.connections.get(session.connection?));
        let extra = connection.and_then(|connection| connection.extra.as_ref());
        let publisher = extra.and_then(|extra| extra.publisher.as_deref()).unwrap_or_default();
        self.engine.origins.append((origin, number, now.unix), (publisher, client_id), out);
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
        let is_own = state.connections.get(key).is_some_and(Connection::is_own);
        let session = session.and_then(|session| state.sessions.get(session.0));
        let is_relay = session.is_some_and(|session| {
            state.settings.hub_relays.iter().any(|pattern| matches_client(pattern, &session.client_id))
        });
        if is_own || is_relay { ORIGIN_PROPERTY } else { HOPS_PROPERTY }
    }
}
