//! Authentication in several steps, and once more in an open connection ([MQTT-4.12]).

use crate::connection::Phase;
use crate::event::{AuthRequest, Enhanced, Event};
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::contexts::Connecting;
use crate::identity::Identity;
use crate::ids::{ConnectionKey, SessionKey};
use crate::now::Now;
use std::sync::Arc;
use tidegate_mqtt::{Auth, Frame, PacketType, ReasonCode, Version};

impl Connecting<'_> {
    /// AUTH from a client: the answer to a challenge, or a request to authenticate again.
    pub(crate) fn handle_auth(
        &mut self,
        _now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let auth = Auth::decode(version, frame.first_byte, frame.body)?;
        let Some(connection) = self.state.connections.get_mut(key) else { return Ok(()) };
        let open = connection.phase == Phase::Open;
        let enhanced = connection.extra.as_mut().and_then(|extra| extra.enhanced.as_mut());
        let Some(enhanced) = enhanced else {
            return Err(Refused::new(Reason::ProtocolError, "AUTH without an authentication method"));
        };
        if auth.authentication_method != Some(&enhanced.method) {
            return Err(Refused::new(Reason::BadAuthenticationMethod, "the authentication method has changed"));
        }
        let data = auth.authentication_data.unwrap_or_default().to_vec();
        match auth.reason_code {
            ReasonCode::ContinueAuthentication if enhanced.running => {
                if !open {
                    connection.phase = Phase::Authenticating;
                }
                self.state.events.push_back(Event::AnswerChallenge { key, data });
                Ok(())
            }
            ReasonCode::ReAuthenticate if open && !enhanced.running => {
                enhanced.running = true;
                let method = enhanced.method.to_string();
                self.ask_again(key, Enhanced { method, data });
                Ok(())
            }
            _ => Err(Refused::new(Reason::ProtocolError, "AUTH does not fit the state of the exchange")),
        }
    }

    fn ask_again(&mut self, key: ConnectionKey, enhanced: Enhanced) {
        let Some(connection) = self.state.connections.get(key) else { return };
        let listener = connection.listener;
        let Some(session) = connection.session.and_then(|session| self.state.sessions.get(session.0)) else { return };
        let user_name = session.identity.as_ref().and_then(|identity| identity.user_name.clone());
        let request = AuthRequest {
            tenant: session.tenant,
            listener,
            client_id: session.client_id.to_string(),
            user_name,
            password: None,
            enhanced: Some(enhanced),
            again: true,
        };
        self.state.events.push_back(Event::Authenticate { key, request });
    }

    /// Sends the client a challenge before the decision.
    pub(crate) fn challenge(&mut self, key: ConnectionKey, data: &[u8]) {
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        if connection.phase == Phase::Authenticating {
            connection.phase = Phase::AwaitAuth;
        }
        self.send_auth(key, ReasonCode::ContinueAuthentication, Some(data));
    }

    pub(crate) fn send_auth(&mut self, key: ConnectionKey, reason_code: ReasonCode, data: Option<&[u8]>) {
        let Some(connection) = self.state.connections.get(key) else { return };
        let (version, max) = (connection.version, connection.max_packet_out);
        let Some(enhanced) = connection.extra.as_ref().and_then(|extra| extra.enhanced.as_ref()) else { return };
        let method = enhanced.method.clone();
        let packet =
            Auth { reason_code, authentication_method: Some(&method), authentication_data: data, ..Auth::default() };
        self.state.send(key, PacketType::Auth, |out| packet.encode_within(version, max, out).is_ok());
    }

    /// Sets the identity of a session's client. Another identity may have other rights, so they are checked again.
    pub(crate) fn identify(&mut self, key: SessionKey, identity: Option<Arc<Identity>>) {
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        let is_same = match (&session.identity, &identity) {
            (Some(known), Some(new)) => known.is_same_client(new),
            (known, new) => known == new,
        };
        session.identity = identity;
        if !is_same {
            session.rights_epoch = 0;
            let connection = session.connection;
            let has_subscriptions = session.subscriptions() > 0;
            // The remembered permission belongs to the former identity.
            let extra = connection.and_then(|key| self.state.connections.get_mut(key)?.extra.as_mut());
            if let Some(extra) = extra {
                extra.allowed = None;
            }
            if has_subscriptions {
                self.router.index.change_rights();
            }
        }
    }

    /// A connection lasts no longer than its client's proof.
    pub(crate) fn bound_by_proof(&mut self, now: Now, key: ConnectionKey, identity: Option<&Identity>) {
        let ends = identity.and_then(|identity| identity.expires_at).map(|unix| now.from_unix(unix));
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        if ends.is_none() && connection.extra.as_ref().is_none_or(|extra| extra.proof_ends.is_none()) {
            return;
        }
        connection.extra_mut().proof_ends = ends;
        let timer = connection.timer;
        if let Some(ends) = ends.filter(|ends| *ends < timer) {
            self.state.connections.set_connection_timer(&mut self.state.timers, key, ends);
        }
    }
}
