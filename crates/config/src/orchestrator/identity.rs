//! Credentials that are shown to brokers (BRK-10), as the configuration says.

use std::sync::Arc;
use std::time::Duration;

use tidegate_engine::{self as engine};
use tidegate_node::{Brokers, Identities, IdentityRole, IdentitySettings, ListenAddress, NodeSettings};

use crate::Config;
use crate::finding::Findings;
use crate::origins::Origins;
use crate::sections::auth::{Auth, AuthKind};
use crate::sections::orchestrator::{BrokerIdentity, Orchestrator};
use crate::sections::{Listener, Store};
use crate::value::Problem;

impl Orchestrator {
    /// Whether brokers are shown the credentials of each client.
    pub fn passes_clients_through(&self) -> bool {
        self.enabled && self.identity == BrokerIdentity::Client
    }
}

impl Config {
    /// True if a provider is asked about clients.
    pub fn has_providers(&self) -> bool {
        !self.auths.is_empty() || self.orchestrator.passes_clients_through()
    }

    /// The settings of each user's engine. The limits of the whole process are divided by `max`, the number of users.
    pub fn identity_engine(&self, max: u16) -> engine::Settings {
        engine::Settings {
            // Connections are counted for each listener of the whole process.
            listeners: self.engine_settings(1).listeners,
            // These clients were authenticated.
            authentication: engine::Authentication::Open,
            ..self.engine_settings(max)
        }
    }

    /// The users whose own credentials brokers get, if configured, for a node of these settings.
    pub fn identities(&self, node: &NodeSettings) -> Option<Arc<Identities>> {
        if !self.orchestrator.passes_clients_through() {
            return None;
        }
        let max = self.orchestrator.max_identities;
        let mut engine = self.identity_engine(max);
        // One user's clients may belong to several tenants, which are counted over all users.
        engine.tenants.clone_from(&node.engine.tenants);
        engine.tenant_ledger.clone_from(&node.engine.tenant_ledger);
        let of_user = NodeSettings {
            shards: 1,
            listeners: Vec::new(),
            tls: std::collections::BTreeMap::new(),
            proxies: std::collections::BTreeMap::new(),
            owner_only: std::collections::BTreeSet::new(),
            allowed_origins: std::collections::BTreeMap::new(),
            tls_check: Duration::ZERO,
            engine,
            brokers: Brokers::default(),
            cluster: None,
            ..node.clone()
        };
        Some(Identities::new(IdentitySettings {
            max,
            linger: self.orchestrator.identity_linger,
            settle: self.orchestrator.session_expiry.max(self.orchestrator.identity_linger),
            node: of_user,
            brokers: node.brokers.clone(),
        }))
    }
}

/// Checks that no other key contradicts showing clients' credentials to brokers.
pub fn check_identity(
    listeners: &[Listener],
    auths: &[Auth],
    store: &Store,
    origins: &Origins,
    findings: &mut Findings,
) {
    let anonymous = listeners.iter().any(|listener| listener.allow_anonymous);
    let certificates = listeners.iter().any(|listener| listener.identity_as == IdentityRole::Username);
    let quic = listeners.iter().any(|listener| matches!(listener.address, ListenAddress::Quic(_)));
    let proofs = auths.iter().any(|auth| matches!(auth.kind, AuthKind::Scram | AuthKind::Certificate));
    let problems = [
        (
            store.directory.is_some(),
            "a data directory (store.directory): passwords are not stored, so after a restart nothing of it could be given to brokers",
        ),
        (anonymous, "listeners with allow_anonymous: an anonymous client has nothing that brokers could be shown"),
        (certificates, "listeners with identity_as = \"username\": a certificate cannot be shown to brokers"),
        (quic, "listeners for QUIC: a stream cannot be handed from its connection to the part that serves its user"),
        (proofs, "providers of the kinds `scram` and `certificate`: brokers cannot receive their proofs"),
    ];
    for (_, conflict) in problems.into_iter().filter(|(there, _)| *there) {
        let problem = Problem::new(format!("cannot be combined with {conflict}"));
        let problem =
            problem.hint("leave that out, or show brokers the orchestrator's own credentials: identity = \"own\"");
        findings.push(problem, origins.source_of("orchestrator", "identity").clone());
    }
}
