//! A client at its CONNECT: the known facts, and the outcome.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_auth::{AclAction, AclRule, ClientCertificate, Enhanced, Identity, Refusal, RefusalKind, Request, Secret};
use tidegate_engine::{self as engine, AuthOutcome, AuthRequest, Proof, Reason, TenantId};
use tidegate_node::proxy_protocol::RelayedTenant;
use tidegate_node::{ConnectionFacts, TlsFacts};

use super::Gate;
use crate::access::relayed_tenant;
use crate::access::tenants::{TenantMap, Traits};

/// A client that wants to come in.
#[derive(Debug)]
pub(super) struct Arrival {
    /// The request to providers.
    pub(super) request: Arc<Request>,
    /// The name that the listener takes from the certificate.
    pub(super) certificate_name: Option<String>,
    /// The tenant that the engine has found for it.
    tenant: TenantId,
    /// The tenant that another node has found, if it relays the client.
    relayed: Option<RelayedTenant>,
}

impl Arrival {
    pub(super) fn new(request: AuthRequest, facts: &ConnectionFacts, gate: &Gate) -> Self {
        let tls = facts.tls.as_deref();
        let named = tls.and_then(|tls| tls.identity.as_ref()).filter(|identity| identity.role == gate.certificate);
        let enhanced = request.enhanced.map(|enhanced| Enhanced { method: enhanced.method, data: enhanced.data });
        Self {
            certificate_name: named.map(|identity| identity.value.to_string()),
            tenant: request.tenant,
            relayed: relayed_tenant(&gate.name, facts),
            request: Arc::new(Request {
                listener: gate.name.clone(),
                tenant: u32::from(request.tenant.0),
                client_id: request.client_id,
                user_name: request.user_name,
                password: request.password.map(Secret::new),
                peer: facts.peer,
                certificate: tls.and_then(certificate),
                sni: tls.and_then(|tls| tls.server_name.as_deref()).map(str::to_owned),
                enhanced,
            }),
        }
    }

    /// Whether CONNECT has neither user name nor password.
    pub(super) fn says_no_name(&self) -> bool {
        self.request.user_name.is_none() && self.request.password.is_none()
    }

    /// The grant for the engine of a client that is accepted. The client id and the tenant are settled by now: who was
    /// given others by its provider is not let in under these.
    pub(super) fn admit(&self, tenants: &TenantMap, identity: Identity) -> Result<engine::Identity, Refusal> {
        let refuse = |why: String| Err(Refusal::new(RefusalKind::NotAuthorized, &identity.provider, why));
        let request = &self.request;
        if identity.client_id.as_ref().is_some_and(|client_id| *client_id != request.client_id) {
            return refuse(
                "the client id differs from the client id that the provider gives to this client".to_owned(),
            );
        }
        let certificate = request.certificate.as_ref().and_then(|certificate| certificate.common_name.clone());
        let tenant = tenants.resolve(&Traits {
            listener: &request.listener,
            sni: request.sni.as_deref(),
            user_name: identity.user_name.as_deref(),
            certificate_cn: certificate.as_deref(),
            dictated: identity.tenant.as_deref(),
            relayed: self.relayed,
        });
        match tenant {
            Err(unknown) => return refuse(unknown.to_string()),
            Ok(tenant) if tenant != self.tenant => {
                return refuse("the client belongs to another tenant than its connection".to_owned());
            }
            Ok(_) => {}
        }
        Ok(engine::Identity {
            user_name: identity.user_name,
            certificate,
            superuser: identity.superuser,
            attributes: identity.attributes,
            grants: identity.rules.map(|claims| claims.rules.into_iter().map(grant).collect()),
            expires_at: identity.expires_at,
            proof: identity.mark.map(|mark| Proof { provider: identity.provider.into(), mark: mark.0 }),
        })
    }
}

fn grant(rule: AclRule) -> engine::Grant {
    engine::Grant {
        allow: rule.allow,
        publish: rule.action != AclAction::Subscribe,
        subscribe: rule.action != AclAction::Publish,
        filter: rule.filter,
        literal: rule.literal,
        qos: rule.qos,
        retain: rule.retain,
    }
}

fn certificate(tls: &TlsFacts) -> Option<ClientCertificate> {
    let shown = tls.client.as_ref()?;
    let texts = |texts: &[Box<str>]| texts.iter().map(ToString::to_string).collect();
    let fingerprint = shown.fingerprint_sha256.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    Some(ClientCertificate {
        common_name: shown.common_name.as_deref().map(str::to_owned),
        dns: texts(&shown.dns),
        emails: texts(&shown.emails),
        uris: texts(&shown.uris),
        fingerprint,
    })
}

/// Logs the refusal, and answers the client. The user name is left out: it may be a token. The log's other line about
/// the same refusal, which names neither client nor cause, is for `debug` ([`is_logged`]).
pub(super) fn refuse(client_id: &str, listener: &str, peer: Option<SocketAddr>, refusal: &Refusal) -> AuthOutcome {
    let (provider, why) = (refusal.provider.as_str(), refusal.why.as_str());
    let reason = match refusal.kind {
        RefusalKind::BadCredentials => Reason::BadCredentials,
        RefusalKind::NotAuthorized => Reason::NotAuthorized,
        RefusalKind::Banned => Reason::Banned,
        RefusalKind::Unavailable => Reason::AuthenticationUnavailable,
        RefusalKind::BadMethod => Reason::BadAuthenticationMethod,
    };
    let peer = peer.map(tracing::field::display);
    tracing::warn!(peer, client_id, listener, provider, why, reason = reason.label(), "client refused");
    AuthOutcome::Refuse(reason)
}

/// Whether a refusal with this reason is logged where clients are authenticated, and not again.
pub fn is_logged(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::BadCredentials
            | Reason::NotAuthorized
            | Reason::AuthenticationUnavailable
            | Reason::BadAuthenticationMethod
    )
}
