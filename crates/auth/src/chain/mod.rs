//! The chain: the order of providers, the threads that ask them, and the cache of decisions.

mod cache;
mod counters;
mod differences;
mod error;
mod provider_set;
mod turns;
mod workers;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use crate::clock::{Clock, SystemClock};
use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::mark::Mark;
use crate::provider::Exchange;
use crate::request::Request;
use crate::settings::ChainSettings;

pub use counters::Counters;
pub use differences::Differences;
pub use error::SettingsError;

use cache::{Cache, CacheKey};
use counters::Tally;
use provider_set::ProviderSet;
use turns::Turns;

/// Takes the answer of a chain, on any thread.
pub type Answer = Box<dyn FnOnce(Decision) + Send>;

/// An ordered chain of providers with threads of its own. When it is dropped, requests that wait are refused as
/// unavailable.
#[derive(Debug)]
pub struct Chain {
    shared: Arc<Shared>,
    /// One set of providers comes in force at a time.
    committing: Mutex<()>,
}

/// Providers that were made and wait to be put in force by [`Chain::commit`].
#[derive(Debug)]
pub struct Prepared(ProviderSet);

/// State shared by the threads.
#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    current: RwLock<Arc<ProviderSet>>,
    /// The epoch of the providers that are in force, to be read without a lock.
    epoch: Arc<AtomicU64>,
    state: Mutex<State>,
    /// There is a job, or it is time to stop.
    wake: Condvar,
    stopping: AtomicBool,
    tally: Tally,
}

/// Pending requests and remembered decisions.
#[derive(Default)]
struct State {
    queue: Turns,
    /// The requests that wait, by the answer that they need.
    waiting: HashMap<CacheKey, Vec<Waiter>>,
    /// How many wait in all.
    waiters: usize,
    /// Bytes of their requests.
    waiting_bytes: usize,
    cache: Cache,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("queue", &self.queue.len())
            .field("waiters", &self.waiters)
            .finish_non_exhaustive()
    }
}

/// A client that waits for an answer.
struct Waiter {
    answer: Answer,
    /// The size of the request, which also bounds its answer.
    bytes: usize,
}

/// A request that waits for a thread.
struct Job {
    key: CacheKey,
    request: Arc<Request>,
    entered_ms: u64,
}

impl Chain {
    /// Makes the providers and starts the threads.
    ///
    /// # Errors
    /// When a provider cannot be created: a missing or broken file, an invalid URL. The caller must then refuse all
    /// clients.
    pub fn start(settings: ChainSettings) -> Result<Self, SettingsError> {
        Self::start_with(settings, Arc::new(SystemClock::default()))
    }

    /// Checks whether a chain can be created from these settings: reads every file, and contacts no server.
    ///
    /// # Errors
    /// As [`Chain::start`].
    pub fn check(settings: ChainSettings) -> Result<(), SettingsError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        ProviderSet::make(settings, None, 1, &clock).map(drop)
    }

    /// Starts a chain with a clock of one's own.
    ///
    /// # Errors
    /// As [`Chain::start`].
    pub fn start_with(settings: ChainSettings, clock: Arc<dyn Clock>) -> Result<Self, SettingsError> {
        let set = ProviderSet::make(settings, None, 1, &clock)?;
        Self::over(set, clock)
    }

    fn over(set: ProviderSet, clock: Arc<dyn Clock>) -> Result<Self, SettingsError> {
        let threads = set.settings.threads.max(1);
        let state = State { cache: Cache::new(set.settings.cache), ..State::default() };
        let shared = Arc::new(Shared {
            clock,
            epoch: Arc::new(AtomicU64::new(set.epoch)),
            current: RwLock::new(Arc::new(set)),
            state: Mutex::new(state),
            wake: Condvar::new(),
            stopping: AtomicBool::new(false),
            tally: Tally::default(),
        });
        // From here on, dropping it stops the threads started so far.
        let chain = Self { shared, committing: Mutex::new(()) };
        workers::start(&chain.shared, threads)?;
        Ok(chain)
    }

    /// Decides about a request. The answer is given at once when it is remembered or when there is no room, else later
    /// on a thread of the chain; it is never [`Decision::Ignore`].
    pub fn decide(&self, request: impl Into<Arc<Request>>, answer: Answer) {
        let request = request.into();
        let set = self.shared.set();
        if set.is_empty() {
            answer(Decision::Deny(Refusal::by_chain(RefusalKind::NotAuthorized, "no provider is configured")));
            return;
        }
        let key = set.key(&request);
        let entered_ms = self.shared.clock.monotonic_ms();
        let mut state = self.shared.lock();
        if let Some(decision) = state.cache.get(&key, entered_ms) {
            drop(state);
            self.shared.tally.remembered(&decision);
            answer(decision);
            return;
        }
        let bytes = request.bytes();
        let full = state.waiters >= set.settings.queue || state.waiting_bytes + bytes > set.settings.queue_bytes;
        if full || self.shared.stopping.load(Ordering::Relaxed) {
            drop(state);
            let refusal = Refusal::by_chain(RefusalKind::Unavailable, "too many clients wait for authentication");
            let decision = Decision::Deny(refusal);
            self.shared.tally.overflowed(&decision);
            answer(decision);
            return;
        }
        state.waiters += 1;
        state.waiting_bytes += bytes;
        let waiter = Waiter { answer, bytes };
        if let Some(others) = state.waiting.get_mut(&key) {
            others.push(waiter);
            drop(state);
            self.shared.tally.coalesced();
            return;
        }
        state.waiting.insert(key, vec![waiter]);
        state.queue.push(Job { key, request, entered_ms });
        drop(state);
        self.shared.wake.notify_one();
    }

    /// Begins enhanced authentication (MQTT 5, 4.12). The Authentication Data of CONNECT goes to the first
    /// [`Exchange::step`].
    ///
    /// # Errors
    /// When no provider of the listener supports the method.
    pub fn begin_enhanced(&self, request: &Request) -> Result<Exchange, Refusal> {
        self.begin(request, None)
    }

    /// Begins enhanced authentication of a client that is connected (MQTT 5, 4.12.1). It must turn out to be the same
    /// user. That the method is the same as at CONNECT is for the caller to check [MQTT-4.12.1-1].
    ///
    /// # Errors
    /// When no provider of the listener supports the method.
    pub fn begin_reauthentication(&self, request: &Request, current: Identity) -> Result<Exchange, Refusal> {
        self.begin(request, Some(current))
    }

    fn begin(&self, request: &Request, current: Option<Identity>) -> Result<Exchange, Refusal> {
        let set = self.shared.set();
        let method = request.enhanced.as_ref().map_or("", |enhanced| enhanced.method.as_str());
        let (mechanism, provider) = set.begin(request).ok_or_else(|| {
            Refusal::by_chain(RefusalKind::BadMethod, format!("no provider speaks the method {method:?}"))
        })?;
        Ok(Exchange::new(mechanism, provider, current, Arc::clone(&self.shared.epoch)))
    }

    /// Whether the provider that has accepted an identity in another process would still accept it on a listener.
    /// `is_mark` knows the mark of the credential. No file is read and no server asked: a client that a server had accepted
    /// stays accepted while the settings that decide are the same. The end of a proof is for the caller to check.
    pub fn still_accepts(&self, listener: &str, identity: &Identity, is_mark: &dyn Fn(Mark) -> bool) -> bool {
        self.shared.set().still_accepts(listener, identity, is_mark)
    }

    /// Whether clients that this process has accepted by a provider stay connected through all reloads of its settings:
    /// the provider is still configured, and has no list of users.
    pub fn keeps_clients_of(&self, provider: &str) -> bool {
        self.shared.set().keeps_clients_of(provider)
    }

    /// Whether any provider supports a method of enhanced authentication on this listener.
    pub fn speaks(&self, request: &Request) -> bool {
        self.shared.set().begin(request).is_some()
    }

    /// Creates new providers from their settings and files, without activating them.
    ///
    /// # Errors
    /// As [`Chain::start`].
    pub fn prepare(&self, settings: ChainSettings) -> Result<Prepared, SettingsError> {
        let before = self.shared.set();
        ProviderSet::make(settings, Some(&before), before.epoch, &self.shared.clock).map(Prepared)
    }

    /// Puts providers in force, all at once, and empties the cache. The number of threads stays.
    pub fn commit(&self, prepared: Prepared) -> Differences {
        let _one = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.shared.set();
        let Prepared(mut after) = prepared;
        after.epoch = before.epoch + 1;
        let after = Arc::new(after);
        let differences = Differences::between(&before, &after);
        let cache = Cache::new(after.settings.cache);
        *self.shared.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&after);
        self.shared.epoch.store(after.epoch, Ordering::Release);
        self.replace_cache(cache);
        differences
    }

    /// Replaces all providers: creates them again from their files, and activates them only if all succeed.
    ///
    /// # Errors
    /// As [`Chain::start`]; everything stays as it was.
    pub fn reload(&self, settings: ChainSettings) -> Result<Differences, SettingsError> {
        Ok(self.commit(self.prepare(settings)?))
    }

    /// Forgets all decisions, so that everybody is asked about again.
    pub fn forget(&self) {
        let settings = self.shared.set().settings.cache;
        self.replace_cache(Cache::new(settings));
    }

    /// The old one is freed outside the lock, for which shards wait.
    fn replace_cache(&self, cache: Cache) {
        let old = std::mem::replace(&mut self.shared.lock().cache, cache);
        drop(old);
    }

    /// The counters since the start.
    pub fn counters(&self) -> Counters {
        let (waiting, remembered) = {
            let state = self.shared.lock();
            (state.waiters, state.cache.len())
        };
        self.shared.tally.read(waiting, remembered)
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // Under the lock, so that no thread misses it between looking and waiting.
        let state = self.shared.lock();
        self.shared.stopping.store(true, Ordering::Relaxed);
        drop(state);
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn set(&self) -> Arc<ProviderSet> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
