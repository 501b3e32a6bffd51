//! The providers of one epoch.

use std::sync::Arc;
use std::time::Duration;

use ring::hmac;
use ring::rand::SystemRandom;

use super::cache::CacheKey;
use super::error::SettingsError;
use crate::clock::Clock;
use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::mark::Mark;
use crate::permits::Permits;
use crate::provider::{Context, Mechanism, Provider};
use crate::providers::{self, Workshop};
use crate::request::{Request, Secret};
use crate::settings::{ChainSettings, ProviderSettings};

/// Providers that take effect together.
#[derive(Debug)]
pub(super) struct ProviderSet {
    pub(super) settings: ChainSettings,
    /// How many sets there have been, this one included.
    pub(super) epoch: u64,
    pub(super) members: Vec<Member>,
    /// Turns requests into keys of the cache. Each set has its own.
    key: hmac::Key,
    looks_at_peer: bool,
    /// Bounds the concurrent hashing of all providers. A reload keeps it while the bounds stay the same.
    hashing: Arc<Permits>,
}

/// One provider with its settings.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) settings: ProviderSettings,
    pub(super) provider: Arc<dyn Provider>,
}

impl Member {
    fn serves(&self, listener: &str) -> bool {
        let listeners = &self.settings.listeners;
        listeners.is_empty() || listeners.iter().any(|other| other == listener)
    }
}

impl ProviderSet {
    /// Creates all providers. One with fetched state, such as keys, is kept from the previous set if its settings are
    /// unchanged.
    pub(super) fn make(
        settings: ChainSettings,
        before: Option<&Self>,
        epoch: u64,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, SettingsError> {
        let hashing = match before {
            Some(set)
                if (set.settings.hashing, set.settings.hash_memory) == (settings.hashing, settings.hash_memory) =>
            {
                Arc::clone(&set.hashing)
            }
            _ => Arc::new(Permits::with_bytes(settings.hashing, settings.hash_memory)),
        };
        let workshop = Workshop { clock: Arc::clone(clock), hashing: Arc::clone(&hashing) };
        let mut members: Vec<Member> = Vec::new();
        for one in &settings.providers {
            if members.iter().any(|other| other.settings.name == one.name) {
                return Err(SettingsError::SameName(one.name.clone()));
            }
            let kept = before.and_then(|set| set.members.iter().find(|member| member.settings == *one));
            let provider = match kept {
                Some(member) if providers::outlives_reload(&one.kind) => Arc::clone(&member.provider),
                _ => providers::make(one, &workshop)
                    .map_err(|problem| SettingsError::Provider { provider: one.name.clone(), problem })?,
            };
            members.push(Member { settings: one.clone(), provider });
        }
        Self::of(settings, members, epoch, hashing)
    }

    pub(super) fn of(
        settings: ChainSettings,
        members: Vec<Member>,
        epoch: u64,
        hashing: Arc<Permits>,
    ) -> Result<Self, SettingsError> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(|_| SettingsError::Random)?;
        let looks_at_peer = members.iter().any(|member| member.provider.looks_at_peer());
        Ok(Self { settings, epoch, members, key, looks_at_peer, hashing })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Everything that a decision depends on, as a keyed hash.
    pub(super) fn key(&self, request: &Request) -> CacheKey {
        let mut digest = Fields(hmac::Context::with_key(&self.key));
        digest.field(Some(&self.epoch.to_le_bytes()));
        digest.field(Some(request.listener.as_bytes()));
        digest.field(Some(&request.tenant.to_le_bytes()));
        digest.field(Some(request.client_id.as_bytes()));
        digest.field(request.user_name.as_deref().map(str::as_bytes));
        digest.field(request.password.as_ref().map(Secret::expose));
        digest.field(request.sni.as_deref().map(str::as_bytes));
        digest.field(request.certificate.as_ref().map(|certificate| certificate.fingerprint.as_bytes()));
        let address = request.peer.filter(|_| self.looks_at_peer).map(|peer| peer.ip().to_string());
        digest.field(address.as_deref().map(str::as_bytes));
        digest.finish()
    }

    /// Asks the providers in their order. With the decision comes how long it may be remembered at most.
    pub(super) fn decide(&self, request: &Request, deadline: &dyn Fn() -> Duration) -> (Decision, Option<Duration>) {
        let mut limit: Option<Duration> = None;
        for member in self.members.iter().filter(|member| member.serves(&request.listener)) {
            let left = deadline();
            if left.is_zero() {
                return (late(), None);
            }
            let decision = member.provider.decide(request, Context { left });
            limit = [limit, member.provider.cache_ttl()].into_iter().flatten().min();
            match decision {
                Decision::Allow(mut identity) => {
                    identity.provider.clone_from(&member.settings.name);
                    identity.mark = member.provider.mark(&identity);
                    return (Decision::Allow(identity), limit);
                }
                Decision::Deny(refusal) => return (Decision::Deny(refusal), limit),
                Decision::Ignore => {}
            }
        }
        let refusal = Refusal::by_chain(RefusalKind::BadCredentials, "no provider knows this client");
        (Decision::Deny(refusal), limit)
    }

    /// The first provider that supports the request's method, and the method at work.
    pub(super) fn begin(&self, request: &Request) -> Option<(Box<dyn Mechanism>, Arc<dyn Provider>)> {
        let mut serving = self.members.iter().filter(|member| member.serves(&request.listener));
        serving.find_map(|member| Some((member.provider.begin(request)?, Arc::clone(&member.provider))))
    }

    /// Whether the provider that has accepted an identity would still accept it on a listener.
    pub(super) fn still_accepts(&self, listener: &str, identity: &Identity, is_mark: &dyn Fn(Mark) -> bool) -> bool {
        let by = self.members.iter().find(|member| member.settings.name == identity.provider);
        by.is_some_and(|member| member.serves(listener) && member.provider.accepts(identity, is_mark))
    }

    /// Whether a reload ends no connections of a provider's clients one by one.
    pub(super) fn keeps_clients_of(&self, provider: &str) -> bool {
        let by = self.members.iter().find(|member| member.settings.name == provider);
        by.is_some_and(|member| member.provider.users().is_none())
    }
}

/// The refusal of a request whose time is over.
pub(super) fn late() -> Decision {
    Decision::Deny(Refusal::by_chain(RefusalKind::Unavailable, "authentication took longer than its deadline"))
}

/// Hashes fields so that no two lists of fields are the same bytes.
struct Fields(hmac::Context);

impl Fields {
    fn field(&mut self, bytes: Option<&[u8]>) {
        let length = bytes.map_or(u64::MAX, |bytes| bytes.len() as u64);
        self.0.update(&length.to_le_bytes());
        self.0.update(bytes.unwrap_or_default());
    }

    fn finish(self) -> CacheKey {
        let mut key = CacheKey::default();
        for (to, from) in key.iter_mut().zip(self.0.sign().as_ref()) {
            *to = *from;
        }
        key
    }
}
