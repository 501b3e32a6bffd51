//! Clients whose connections come from other nodes: whether their credentials hold here.

use tidegate_auth::{Identity, Mark};
use tidegate_engine::{ListenerId, Reason};
use tidegate_node::{ContinuedClient, IdentityRole};

use super::{Authentication, Gate, Policy};

impl Authentication {
    /// Whether this configuration accepts the credential of a client that another node has accepted: its user is there
    /// with the same password or key, its provider has the same key, URL and claims, or its listener takes clients without
    /// a name. A client of this node whose move was called off stays if its provider of tokens or certificates, or its
    /// server, is still there.
    ///
    /// # Errors
    /// With the reason for the client: it connects again and shows its credential. The cause is in the log.
    pub fn accept_continued(&self, client: &ContinuedClient<'_>) -> Result<(), Reason> {
        let policy = self.policy();
        let Some(why) = self.refusal_of_continued(&policy, client) else { return Ok(()) };
        let (client_id, reason) = (client.client_id, Reason::UseAnotherServer);
        tracing::warn!(client_id, why, reason = reason.label(), "client of another node refused");
        Err(reason)
    }

    fn refusal_of_continued(&self, policy: &Policy, client: &ContinuedClient<'_>) -> Option<&'static str> {
        let Some(gate) = policy.gate(client.listener) else { return Some("the listener is gone") };
        let identity = client.identity;
        if let Some(proof) = identity.and_then(|identity| identity.proof.as_ref()) {
            let known = Identity {
                provider: proof.provider.to_string(),
                user_name: identity.and_then(|identity| identity.user_name.clone()),
                attributes: identity.map(|identity| identity.attributes.clone()).unwrap_or_default(),
                ..Identity::default()
            };
            // A certificate is accepted by the listener to which it was shown; no certificate crosses a relay.
            let gate = client.shown_to.and_then(|listener| policy.gate(listener)).unwrap_or(gate);
            let is_mark = |mark: Mark| client.has_mark(&known.provider, mark.0);
            let holds = client.is_of_here && self.chain.keeps_clients_of(&known.provider)
                || self.chain.still_accepts(&gate.name, &known, &is_mark);
            return (!holds).then_some("its provider here does not accept what another node has accepted");
        }
        let named = identity.is_some_and(|identity| identity.user_name.is_some());
        let role = client.shown_to.and_then(|listener| policy.gate(listener)).map(|gate| gate.certificate);
        let name = client.certificate.map(|certificate| &*certificate.value);
        let holds = match role {
            Some(IdentityRole::Username) if named => name == identity.and_then(|it| it.user_name.as_deref()),
            Some(IdentityRole::ClientId) if !named && name.is_some() => name == Some(client.client_id),
            _ => !named && accepts_without_name(policy, gate),
        };
        (!holds).then_some("it has shown no credential that is accepted here")
    }
}

/// Whether a listener takes clients without a name and without a certificate that names them.
fn accepts_without_name(policy: &Policy, gate: &Gate) -> bool {
    gate.allow_anonymous || !policy.providers && gate.certificate == IdentityRole::None
}

impl Policy {
    fn gate(&self, listener: ListenerId) -> Option<&Gate> {
        self.gates.get(usize::from(listener.0))
    }
}
