//! Clients that are sent to another server while this one drains.

use crate::engine::facets::{HomeCalls, ShardQuestions};
use crate::ids::ListenerId;

/// The servers that clients are sent to.
#[derive(Debug)]
pub(crate) struct Redirecting {
    /// The Server Reference for MQTT 5 clients; without it their listener's reference.
    pub reference: Option<Box<str>>,
}

impl<'e> ShardQuestions<'e> {
    /// The Server Reference for clients of other homes when this server drains; their connections are not the engine's.
    pub fn drain_reference(&self) -> Option<&'e str> {
        self.engine.redirecting.as_ref()?.reference.as_deref()
    }

    /// The Server Reference for clients of a listener.
    pub(crate) fn reference_for(self, listener: ListenerId) -> Option<String> {
        if let Some(reference) = self.engine.redirecting.as_ref().and_then(|it| it.reference.as_ref()) {
            return Some(reference.to_string());
        }
        self.engine.state.settings.listener(listener).and_then(|listener| listener.server_reference.clone())
    }
}

impl HomeCalls<'_> {
    /// Sends clients to another server from now on: a CONNECT is answered with 0x9C, and
    /// [`ControlCalls::evict`](crate::ControlCalls::evict) ends the other connections. `reference` is the server reference
    /// for MQTT 5 clients; with `None` each listener gives its own.
    pub fn begin_redirecting(&mut self, reference: Option<String>) {
        self.engine.redirecting = Some(Redirecting { reference: reference.map(String::into_boxed_str) });
    }

    /// Takes clients again.
    pub fn end_redirecting(&mut self) {
        self.engine.redirecting = None;
    }
}
