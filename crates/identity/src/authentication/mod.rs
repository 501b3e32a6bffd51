//! Authentication: between the requests of a node and the answers of the chain of providers.

mod arrival;
mod continued;
mod exchanges;
mod fleet;
pub mod passing;
mod reloadable;
mod visitors;

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

use tidegate_auth::{
    Chain, Counters, Decision, Differences, Exchange, FleetAsker, Identity, Prepared, Refusal, RefusalKind,
    SettingsError, Step,
};
use tidegate_engine::{Accepted, AuthOutcome, AuthRequest, ConnectionKey, ShardId};
use tidegate_node::{Brokers, ConnectionFacts, IdentityRole};

use crate::access::Tenancy;
use tidegate_config::Config;
use tidegate_config::authentication::settings::{self, TokenError};
use tidegate_config::sections::Listener;

use arrival::Arrival;
use exchanges::Exchanges;

pub use arrival::is_logged;
pub use fleet::asker;
pub use reloadable::Providers;
pub use visitors::{Visitor, Visitors};

/// A connection, by which the answer to a challenge is matched.
pub type ConnectionAddress = (ShardId, ConnectionKey);

/// Why the providers of a configuration cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ProvidersError {
    /// A token cannot be read.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A provider cannot be made.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// The chain, and the settings around it.
#[derive(Debug)]
pub struct Authentication {
    chain: Chain,
    asker: FleetAsker,
    policy: RwLock<Arc<Policy>>,
    exchanges: Exchanges,
}

/// The decisions without a provider.
#[derive(Debug)]
struct Policy {
    /// By the numbers of listeners.
    gates: Vec<Gate>,
    tenants: Tenancy,
    /// Whether there are providers. Without any, a listener is open unless it takes names from certificates.
    providers: bool,
}

/// The checked parts of a reload.
struct Next {
    providers: Prepared,
    policy: Policy,
}

/// A listener, as far as it is about who comes in.
#[derive(Clone, Debug)]
struct Gate {
    name: String,
    allow_anonymous: bool,
    /// The use of a client's certificate as its identity.
    certificate: IdentityRole,
}

impl Gate {
    fn of(listener: &Listener) -> Self {
        Self {
            name: listener.name.clone(),
            allow_anonymous: listener.allow_anonymous,
            certificate: listener.identity_role(),
        }
    }
}

impl Policy {
    fn of(config: &Config, tenants: Tenancy) -> Self {
        let gates = config.listeners.iter().map(Gate::of);
        Self { gates: gates.collect(), tenants, providers: config.has_providers() }
    }

    /// The listeners are those at the start of the broker, since their numbers are; a changed listener is found by its
    /// name.
    fn after_reload(&self, config: &Config) -> Self {
        let gate = |gate: &Gate| {
            let new = config.listeners.iter().find(|listener| listener.name == gate.name);
            new.map_or_else(|| gate.clone(), Gate::of)
        };
        Self {
            gates: self.gates.iter().map(gate).collect(),
            tenants: self.tenants.clone(),
            providers: config.has_providers(),
        }
    }
}

/// Whether the providers of a configuration can be made: their files are read, and nothing is started.
///
/// # Errors
/// When one of them cannot be made.
pub fn check_files(config: &Config) -> Result<(), ProvidersError> {
    // No fleet is asked: it does not exist yet.
    let asker = asker(&config.orchestrator.name, Brokers::default());
    let settings = settings::chain(config, &asker)?;
    Ok(Chain::check(settings)?)
}

impl Authentication {
    /// Makes the providers of a configuration; `asker` asks the brokers of a fleet.
    ///
    /// # Errors
    /// When one of them cannot be made.
    pub fn start(config: &Config, tenants: Tenancy, asker: FleetAsker) -> Result<Self, ProvidersError> {
        let settings = settings::chain(config, &asker)?;
        let chain = Chain::start(settings)?;
        let policy = RwLock::new(Arc::new(Policy::of(config, tenants)));
        Ok(Self { chain, asker, policy, exchanges: Exchanges::default() })
    }

    /// Makes the providers of another configuration, with all their files read again, and changes nothing.
    ///
    /// # Errors
    /// When anything of it is wrong.
    fn prepare(&self, config: &Config) -> Result<Next, ProvidersError> {
        let settings = settings::chain(config, &self.asker)?;
        let providers = self.chain.prepare(settings)?;
        Ok(Next { providers, policy: self.policy().after_reload(config) })
    }

    /// Puts them in force.
    fn commit(&self, next: Next) -> Differences {
        let differences = self.chain.commit(next.providers);
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next.policy);
        differences
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.chain.counters()
    }

    /// Decides about a CONNECT, or about a client that re-authenticates. The outcome is given at once or later, on
    /// another thread.
    pub fn decide(
        &self,
        request: AuthRequest,
        facts: &ConnectionFacts,
        place: ConnectionAddress,
        give: impl FnOnce(AuthOutcome) + Send + 'static,
    ) {
        let policy = self.policy();
        let Some(gate) = policy.gates.get(usize::from(request.listener.0)) else {
            let refusal = Refusal::new(RefusalKind::NotAuthorized, "", "the listener is gone");
            give(arrival::refuse(&request.client_id, "", facts.peer, &refusal));
            return;
        };
        let again = request.again;
        let arrival = Arrival::new(request, facts, gate);
        if arrival.request.enhanced.is_some() {
            give(self.begin(&policy, Box::new(arrival), again, place));
            return;
        }
        if let Some(decision) = without_providers(&policy, gate, &arrival) {
            give(judge(&policy, &arrival, decision, None));
            return;
        }
        let anonymous = gate.allow_anonymous && arrival.says_no_name();
        let question = Arc::clone(&arrival.request);
        let answer = move |decision| {
            let decision = if anonymous { or_anonymous(decision) } else { decision };
            give(judge(&policy, &arrival, decision, None));
        };
        self.chain.decide(question, Box::new(answer));
    }

    /// Takes a client's answer to a challenge.
    pub fn answer_challenge(&self, place: ConnectionAddress, data: &[u8]) -> AuthOutcome {
        let Some((exchange, arrival)) = self.exchanges.take(place) else {
            let refusal = Refusal::new(RefusalKind::Unavailable, "", "the exchange took too long");
            return arrival::refuse("", "", None, &refusal);
        };
        self.step(&self.policy(), exchange, arrival, data, place)
    }

    fn begin(&self, policy: &Policy, arrival: Box<Arrival>, again: bool, place: ConnectionAddress) -> AuthOutcome {
        let request = &arrival.request;
        let begun = if again {
            let current = Identity { user_name: request.user_name.clone(), ..Identity::default() };
            self.chain.begin_reauthentication(request, current)
        } else {
            self.chain.begin_enhanced(request)
        };
        let data = request.enhanced.as_ref().map(|enhanced| enhanced.data.clone()).unwrap_or_default();
        match begun {
            Ok(exchange) => self.step(policy, exchange, arrival, &data, place),
            Err(refusal) => judge(policy, &arrival, Decision::Deny(refusal), None),
        }
    }

    fn step(
        &self,
        policy: &Policy,
        mut exchange: Exchange,
        arrival: Box<Arrival>,
        data: &[u8],
        place: ConnectionAddress,
    ) -> AuthOutcome {
        match exchange.step(data) {
            Step::Done(decision, last) => judge(policy, &arrival, decision, last),
            Step::Continue(challenge) => match self.exchanges.put(place, exchange, arrival) {
                Ok(()) => AuthOutcome::Challenge(challenge),
                Err(arrival) => {
                    let why = "too many clients authenticate in several steps";
                    let refusal = Refusal::new(RefusalKind::Unavailable, "", why);
                    judge(policy, &arrival, Decision::Deny(refusal), None)
                }
            },
        }
    }

    fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Decisions without a provider: names from certificates, and anonymous clients.
fn without_providers(policy: &Policy, gate: &Gate, arrival: &Arrival) -> Option<Decision> {
    let accept = |user_name: Option<String>| Some(Decision::Allow(Identity { user_name, ..Identity::default() }));
    let refuse = |why: &str| Some(Decision::Deny(Refusal::new(RefusalKind::NotAuthorized, "", why)));
    match (gate.certificate, &arrival.certificate_name) {
        (IdentityRole::Username, Some(name)) => return accept(Some(name.clone())),
        (IdentityRole::ClientId, Some(name)) if *name != arrival.request.client_id => {
            return refuse("the client id is not what the certificate says");
        }
        // The certificate names the client; a client that also names a user still has to prove that.
        (IdentityRole::ClientId, Some(_)) if !policy.providers || arrival.says_no_name() => return accept(None),
        _ => {}
    }
    if policy.providers {
        let nothing_to_ask_about = arrival.says_no_name() && arrival.request.certificate.is_none();
        return if gate.allow_anonymous && nothing_to_ask_about { accept(None) } else { None };
    }
    if gate.certificate == IdentityRole::None || gate.allow_anonymous {
        // A name that cannot be proved does not count.
        accept(None)
    } else {
        refuse("the client shows no certificate with a name")
    }
}

/// Lets in a client without a name that no provider knows, if anonymous clients are allowed.
fn or_anonymous(decision: Decision) -> Decision {
    match decision {
        Decision::Deny(refusal) if refusal.provider.is_empty() && refusal.kind == RefusalKind::BadCredentials => {
            Decision::Allow(Identity::default())
        }
        decision => decision,
    }
}

/// The outcome for the engine.
fn judge(policy: &Policy, arrival: &Arrival, decision: Decision, data: Option<Vec<u8>>) -> AuthOutcome {
    let refusal = match decision {
        Decision::Allow(identity) => match policy.tenants.ask(|tenants| arrival.admit(tenants, identity)) {
            Ok(identity) => return AuthOutcome::Accept(Accepted { identity: Some(Arc::new(identity)), data }),
            Err(refusal) => refusal,
        },
        Decision::Deny(refusal) => refusal,
        Decision::Ignore => Refusal::new(RefusalKind::BadCredentials, "", "no provider knows this client"),
    };
    arrival::refuse(&arrival.request.client_id, &arrival.request.listener, arrival.request.peer, &refusal)
}
