//! A CONNECT is checked.

use crate::access::Subject;
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::contexts::Connecting;
use crate::ids::{ConnectionKey, HUB_CLIENT_PREFIX, ListenerId, SessionKey};
use crate::settings::{Authentication, ListenerSettings, QUEUE_CLIENT_PREFIX};
use tidegate_mqtt::{Connect, Version};

impl Connecting<'_> {
    /// Refuses a CONNECT that the listener does not allow.
    pub(crate) fn check_connect(&self, key: ConnectionKey, connect: &Connect<'_>) -> Result<(), Refused> {
        let Some(listener) = self.state.connections.get(key).and_then(|c| self.state.settings.listener(c.listener))
        else {
            return Err(Refused::new(Reason::ProtocolError, "the listener is gone"));
        };
        if self.preset_client_id(key).is_none() {
            check_client_id(listener, connect)?;
        }
        check_reserved(listener, self.preset_client_id(key).unwrap_or(connect.client_id))?;
        check_keep_alive(listener, connect)?;
        let enhanced = connect.properties.authentication_method.is_some();
        if enhanced && self.state.settings.authentication == Authentication::Open {
            return Err(Refused::new(Reason::BadAuthenticationMethod, "enhanced authentication is not offered"));
        }
        let Some(will) = &connect.will else { return Ok(()) };
        if will.retain && !self.state.settings.retained.available {
            return Err(Refused::new(Reason::RetainNotSupported, "the will asks to be retained"));
        }
        if will.qos > listener.maximum_qos {
            return Err(Refused::new(Reason::QosNotSupported, "the will's QoS is above the maximum"));
        }
        if crate::topics::is_own_topic(will.topic.as_str()) {
            return Err(Refused::new(Reason::NotAuthorized, "the will's topic is one of the broker's own"));
        }
        if will.payload.len() > self.state.settings.limits.max_payload {
            return Err(Refused::new(Reason::PayloadTooLong, "the will's payload is longer than the limit"));
        }
        if self.state.memory.is_far_over_ceiling() {
            return Err(Refused::new(Reason::MemoryCeiling, "there is no memory for a will"));
        }
        self.state.settings.check_topic_levels(will.topic.as_str())
    }

    /// Checks the requests of an authenticated client. A refusal leaves no trace on the requested session.
    pub(crate) fn check_client(
        &self,
        key: ConnectionKey,
        subject: Subject<'_>,
        existing: Option<SessionKey>,
        connect: &Connect<'_>,
    ) -> Result<(), Refused> {
        if connect.will.as_ref().is_some_and(|will| !self.rules.may_leave_will(&self.state.settings, subject, will)) {
            return Err(Refused::new(Reason::NotAuthorized, "the rules do not allow to publish the will"));
        }
        if !is_owner(subject) {
            let detail = "the client id is that of another user's queue";
            return Err(Refused::new(Reason::InvalidClientId, detail));
        }
        if existing.is_none() && self.state.journal.full && self.state.settings.wants_to_last(connect) {
            return Err(Refused::new(Reason::StoreFull, "the store has no room for another session"));
        }
        let max_sessions = self.state.settings.limits.max_sessions as usize;
        let counts = !self.is_own(key) && !self.is_passing(subject.listener, connect);
        if existing.is_none() && counts && max_sessions != 0 && self.state.sessions.len() >= max_sessions {
            return Err(Refused::new(Reason::TooManySessions, ""));
        }
        Ok(())
    }

    /// Whether a session ends with its connection, at a listener that bounds such sessions itself. It does not count
    /// against limits of sessions, so that at the limit a client can still end its session.
    pub(crate) fn is_passing(&self, listener: ListenerId, connect: &Connect<'_>) -> bool {
        let is_bounded = self.state.settings.listener(listener).is_some_and(|listener| !listener.speaks_mqtt());
        is_bounded && connect.clean_start && connect.properties.session_expiry_interval.unwrap_or_default() == 0
    }
}

/// An MQTT 5 client gets another keep-alive; an MQTT 3 client may be refused, as Mosquitto does.
fn check_keep_alive(listener: &ListenerSettings, connect: &Connect<'_>) -> Result<(), Refused> {
    let max = listener.keep_alive_maximum;
    let longer = max != 0 && (connect.keep_alive == 0 || connect.keep_alive > max);
    if longer && listener.keep_alive_refuse && !connect.version.is_v5() {
        let detail = format!("the client asks for {} s, and the maximum is {max} s", connect.keep_alive);
        return Err(Refused::new(Reason::KeepAliveTooLong, detail));
    }
    Ok(())
}

/// Client ids of the hub's sessions are for its listener, and it is for them. Client ids of queues are for listeners of
/// HTTP, which put the user's name into them, and for listeners of relayed clients.
fn check_reserved(listener: &ListenerSettings, client_id: &str) -> Result<(), Refused> {
    // The owner of the queue is checked when the user is known.
    let takes_queues = listener.for_http || listener.relayed;
    if client_id.starts_with(QUEUE_CLIENT_PREFIX) && !takes_queues {
        let detail = "client ids that begin with `http-queue/` are for queues of HTTP listeners";
        return Err(Refused::new(Reason::InvalidClientId, detail));
    }
    if is_of_a_request(client_id) && !(takes_queues || listener.for_coap) {
        let detail =
            "client ids of `http-` or `coap-` and 32 hexadecimal digits are for clients of HTTP and CoAP listeners";
        return Err(Refused::new(Reason::InvalidClientId, detail));
    }
    if client_id.starts_with(HUB_CLIENT_PREFIX) == listener.for_hub {
        return Ok(());
    }
    Err(Refused::new(
        Reason::InvalidClientId,
        "client ids that begin with `tidegate-hub-` are for the broker's pipelines",
    ))
}

/// Whether a client id is one that listeners of HTTP and CoAP draw for their clients: who sees it may not take their
/// session over.
fn is_of_a_request(client_id: &str) -> bool {
    let drawn = client_id.strip_prefix("http-").or_else(|| client_id.strip_prefix("coap-"));
    drawn.is_some_and(|drawn| drawn.len() == 32 && drawn.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether a client is the user of the queue that it has the client id of, `http-queue/USER/NAME`. A name of a queue has
/// no `/`. Also a node that takes relayed clients checks it: a connection to its port need not come from another node.
fn is_owner(subject: Subject<'_>) -> bool {
    let Some(queue) = subject.client_id.strip_prefix(QUEUE_CLIENT_PREFIX) else { return true };
    let proven = subject.identity.and_then(|identity| identity.user_name.as_deref()).unwrap_or_default();
    queue.rsplit_once('/').is_some_and(|(user, _)| user == proven)
}

fn check_client_id(listener: &ListenerSettings, connect: &Connect<'_>) -> Result<(), Refused> {
    if connect.client_id.len() > usize::from(listener.max_client_id_len) {
        let max = listener.max_client_id_len;
        return Err(Refused::new(Reason::InvalidClientId, format!("the client id is longer than {max} bytes")));
    }
    if !connect.client_id.is_empty() {
        return Ok(());
    }
    // An empty id cannot name a session to return to, except in MQTT 5, where the client learns the assigned one.
    if connect.version == Version::V31 || (connect.version == Version::V311 && !connect.clean_start) {
        return Err(Refused::new(Reason::InvalidClientId, "an empty client id needs a clean session"));
    }
    if listener.allow_empty_client_id {
        Ok(())
    } else {
        Err(Refused::new(Reason::InvalidClientId, "this listener wants a client id"))
    }
}
