//! Admission of clients: limits of addresses, user names and listeners, bans, and overload.
//!
//! An address is checked at accept, before the connection costs memory; a client and its user name are checked at
//! CONNECT. All shards share one [`Admission`]. Each of its tables is split into parts with a lock each, held for a
//! look-up and taken a few times per connection, never per message. The module reads no clock.

mod addresses;
mod bans;
mod bounded;
mod bucket;
mod lag;
mod own;
mod settings;
mod source;
pub(crate) mod stored_bans;
#[cfg(test)]
mod tests;
mod users;
mod window;

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tidegate_engine::{ListenerId, Millis, Now, Reason, TenantId};

use self::addresses::{Addresses, SourceLimits};
use self::bans::Bans;
pub(crate) use self::bounded::OldestOut;
use self::bucket::TokenBucket;
use self::lag::Overload;
use self::own::OwnSockets;
use self::users::{UserName, Users};
use self::window::Window;

pub use self::bans::{Ban, BanChange, BanError, BanOrigin, BanRecord, BanTarget, MAX_BAN_TEXT, RecordError};
pub use self::bucket::Rate;
pub(crate) use self::lag::{LoopLag, TooLong};
pub use self::own::{OwnAddress, OwnSocket};
pub use self::settings::AdmissionSettings;
pub(crate) use self::source::unmapped;
pub use self::source::{Network, NetworkError, Source};
pub use self::users::{USERS_ANNOUNCEMENT, UserExchange};
pub use self::window::{MAX_THRESHOLD, Threshold};

/// Parts of a shared table. More than shards, so that two of them seldom want the same one.
const PARTS: u32 = 64;

/// A table cut into parts by the hash of its keys. The hash has a random seed: peers choose the keys.
#[derive(Debug)]
pub(crate) struct Parts<T> {
    parts: Box<[Mutex<T>]>,
    hash: RandomState,
}

impl<T> Parts<T> {
    fn new(make: impl Fn() -> T) -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::new(make())).collect(), hash: RandomState::new() }
    }

    /// The part of a key, and its number.
    fn of(&self, key: &impl Hash) -> (u32, &Mutex<T>) {
        let number = (self.hash.hash_one(key) % u64::from(PARTS)) as u32;
        (number, &self.parts[number as usize])
    }

    fn all(&self) -> impl Iterator<Item = &Mutex<T>> {
        self.parts.iter()
    }
}

/// Locks a table. A poisoned lock is fine: each change is complete or has not begun.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The slot of a connection in the count of its address; released with [`Admission::release`] when the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat(u32);

impl Seat {
    /// Of a connection that is counted for no address.
    pub(crate) const NONE: Self = Self(u32::MAX);
    /// Of a connection that the broker itself has opened, for a bridge or a pipeline. Bans of addresses and limits are for
    /// clients: they do not hold for it.
    pub(crate) const OWN: Self = Self(u32::MAX - 1);
}

/// The state and the counters of admission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionReport {
    /// Bans.
    pub bans: u64,
    /// Bans added since the start, in the order of [`BanOrigin::ALL`].
    pub bans_added: [u64; BanOrigin::ALL.len()],
    /// Addresses that are remembered, with or without connections.
    pub addresses: u64,
    /// Addresses that were forgotten to make room for others.
    pub addresses_forgotten: u64,
    /// User names whose connections are counted.
    pub users: u64,
    /// Whether new connections are refused because the shards' turns take too long.
    pub overloaded: bool,
}

/// Decides who is let in. Shared by all shards and by the control plane.
pub struct Admission {
    settings: RwLock<Arc<AdmissionSettings>>,
    addresses: Parts<Addresses>,
    own: OwnSockets,
    listeners: Box<[Mutex<TokenBucket>]>,
    users: Users,
    failures_by_address: Mutex<OldestOut<Source, Window>>,
    failures_by_user: Mutex<OldestOut<UserName, Window>>,
    connects: Mutex<OldestOut<(TenantId, Box<str>), Window>>,
    bans: Mutex<Bans>,
    /// Whether any ban exists, so that without bans the lock is not taken.
    any_bans: AtomicBool,
    bans_added: [AtomicU64; BanOrigin::ALL.len()],
    overload: Overload,
    /// The mark of the settings, where every turn of every shard finds it without a lock.
    lag_mark_ms: AtomicU64,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("settings", &self.settings()).finish_non_exhaustive()
    }
}

impl Admission {
    /// Admission for this number of listeners.
    pub fn new(now: Now, settings: AdmissionSettings, listeners: usize) -> Self {
        let tracked = settings.tracked as usize;
        let mut bans = Bans::new(settings.max_bans as usize);
        bans.configure(now, settings.banned.clone());
        Self {
            addresses: Parts::new(|| Addresses::new(tracked.div_ceil(PARTS as usize))),
            own: OwnSockets::default(),
            listeners: (0..listeners).map(|_| Mutex::default()).collect(),
            users: Users::new(),
            failures_by_address: Mutex::new(OldestOut::new(tracked)),
            failures_by_user: Mutex::new(OldestOut::new(tracked)),
            connects: Mutex::new(OldestOut::new(tracked)),
            any_bans: AtomicBool::new(bans.len() > 0),
            bans: Mutex::new(bans),
            bans_added: Default::default(),
            overload: Overload::default(),
            lag_mark_ms: AtomicU64::new(settings.loop_lag_mark_ms),
            settings: RwLock::new(Arc::new(settings)),
        }
    }

    /// The current settings.
    pub fn settings(&self) -> Arc<AdmissionSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Applies other settings to new connections. `tracked` keeps its value.
    pub fn reconfigure(&self, now: Now, settings: AdmissionSettings) {
        let mut bans = lock(&self.bans);
        bans.configure(now, settings.banned.clone());
        bans.set_limit(settings.max_bans as usize);
        self.note_bans(&bans);
        self.lag_mark_ms.store(settings.loop_lag_mark_ms, Ordering::Relaxed);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self.users.wake();
    }

    /// Whether connections are counted by their address, which then has to be the client's real one.
    #[cfg(feature = "quic")]
    pub(crate) fn counts_addresses(&self) -> bool {
        let settings = self.settings();
        settings.max_connections_per_address != 0 || settings.address_rate.is_limited()
    }

    /// Admits a new connection, or returns the reason why not. Unknown facts are left out: where a proxy sends the
    /// address later, this is called with the listener first and with the address then.
    ///
    /// # Errors
    /// With the limit that refuses it.
    pub(crate) fn admit(
        &self,
        now: Now,
        listener: Option<ListenerId>,
        address: Option<IpAddr>,
    ) -> Result<Seat, Reason> {
        let settings = self.settings();
        if listener.is_some() && settings.loop_lag_mark_ms != 0 && self.overload.holds(now.monotonic) {
            return Err(Reason::LoopLag);
        }
        let seat = match address {
            Some(address) => self.admit_address(now, &settings, address)?,
            None => Seat::NONE,
        };
        // Last, so that a refusal for the address takes no token of the listener.
        let bucket = listener.and_then(|listener| self.listeners.get(usize::from(listener.0)));
        if settings.listener_rate.is_limited()
            && let Some(bucket) = bucket
            && !lock(bucket).take(now.monotonic, settings.listener_rate)
        {
            self.release(seat);
            return Err(Reason::ListenerRateExceeded);
        }
        Ok(seat)
    }

    /// The broker itself connects from this address. The caller drops the result when it closes the socket.
    pub fn expect_own(&self, address: OwnAddress) -> OwnSocket {
        self.own.add(address)
    }

    /// Whether a connection from this address is the broker's own.
    pub(crate) fn is_own(&self, address: OwnAddress) -> bool {
        self.own.has(address)
    }

    fn admit_address(&self, now: Now, settings: &AdmissionSettings, address: IpAddr) -> Result<Seat, Reason> {
        if self.any_bans.load(Ordering::Acquire) && self.with_bans(|bans| bans.of_address(now, address).is_some()) {
            return Err(Reason::Banned);
        }
        let limits = SourceLimits { connections: settings.max_connections_per_address, rate: settings.address_rate };
        let limited = limits.connections != 0 || limits.rate.is_limited();
        if !limited || is_exempt(settings, address) {
            return Ok(Seat::NONE);
        }
        let source = Source::of(address);
        let (part, table) = self.addresses.of(&source);
        let place = lock(table).admit(now.monotonic, source, limits)?;
        Ok(Seat(place * PARTS + part))
    }

    /// A connection that was let in has ended.
    pub(crate) fn release(&self, seat: Seat) {
        if ![Seat::NONE, Seat::OWN].contains(&seat)
            && let Some(table) = self.addresses.parts.get((seat.0 % PARTS) as usize)
        {
            lock(table).release(seat.0 / PARTS);
        }
    }

    /// Whether the bans admit a client. Called before it is authenticated.
    ///
    /// # Errors
    /// With [`Reason::Banned`].
    pub fn check_client(
        &self,
        now: Now,
        tenant: TenantId,
        client_id: &str,
        user: Option<&str>,
        address: Option<IpAddr>,
    ) -> Result<(), Reason> {
        if !self.any_bans.load(Ordering::Acquire) {
            return Ok(());
        }
        let banned = self.with_bans(|bans| {
            bans.of_client(now, tenant, client_id).is_some()
                || user.is_some_and(|user| bans.of_user(now, tenant, user).is_some())
                || address.is_some_and(|address| bans.of_address(now, address).is_some())
        });
        if banned { Err(Reason::Banned) } else { Ok(()) }
    }

    /// Counts a connection of a user, once the user is known. The limit is that of all nodes of a cluster together, as far as they have
    /// announced their counts. `takes_over` means that another connection of this user ends for it, or that another node has
    /// counted this one: it is counted until then and causes no refusal. The slot is released with
    /// [`Admission::release_user`].
    ///
    /// # Errors
    /// With [`Reason::TooManyForUser`].
    pub fn claim_user(&self, tenant: TenantId, user: &str, takes_over: bool) -> Result<(), Reason> {
        let limit = self.settings().max_connections_per_user;
        let limit = if takes_over { 0 } else { limit };
        if self.users.claim(&(tenant, user.into()), limit) { Ok(()) } else { Err(Reason::TooManyForUser) }
    }

    /// A connection of a user has ended.
    pub fn release_user(&self, tenant: TenantId, user: &str) {
        self.users.release(&(tenant, user.into()));
    }

    /// A client has come in. Returns the ban when its client id did so too often.
    pub fn note_connect(&self, now: Now, tenant: TenantId, client_id: &str) -> Option<Ban> {
        let threshold = self.settings().flapping;
        if !threshold.is_on() {
            return None;
        }
        let name = (tenant, client_id.into());
        if !lock(&self.connects).named(&name, Window::default).note(now.monotonic, threshold) {
            return None;
        }
        let reason = format!("{} connects within {} s", threshold.count, threshold.within_ms / 1000);
        self.ban_for(now, BanTarget::Client(tenant, name.1), reason, BanOrigin::Flapping, threshold.ban_ms)
    }

    /// Counts refused credentials. Returns the resulting bans.
    pub fn note_failed_login(
        &self,
        now: Now,
        tenant: TenantId,
        user: Option<&str>,
        address: Option<IpAddr>,
    ) -> Vec<Ban> {
        let settings = self.settings();
        let mut bans = Vec::new();
        let of_address = settings.failed_logins_per_address;
        if let Some(address) = address.filter(|address| of_address.is_on() && !is_exempt(&settings, *address)) {
            let source = Source::of(address);
            if lock(&self.failures_by_address).named(&source, Window::default).note(now.monotonic, of_address) {
                bans.extend(self.ban_for_failures(now, BanTarget::Address(source.network()), of_address));
            }
        }
        let of_user = settings.failed_logins_per_user;
        if let Some(user) = user.filter(|_| of_user.is_on()) {
            let name: UserName = (tenant, user.into());
            if lock(&self.failures_by_user).named(&name, Window::default).note(now.monotonic, of_user) {
                bans.extend(self.ban_for_failures(now, BanTarget::User(tenant, name.1), of_user));
            }
        }
        bans
    }

    fn ban_for_failures(&self, now: Now, target: BanTarget, threshold: Threshold) -> Option<Ban> {
        let reason = format!("{} failed logins within {} s", threshold.count, threshold.within_ms / 1000);
        self.ban_for(now, target, reason, BanOrigin::FailedLogins, threshold.ban_ms)
    }

    fn ban_for(&self, now: Now, target: BanTarget, reason: String, origin: BanOrigin, length_ms: u64) -> Option<Ban> {
        let until = now.monotonic.plus(length_ms);
        let ban = Ban { target, reason: reason.into(), origin, since: now.unix, until };
        match self.ban(now, ban.clone()) {
            Ok(()) => Some(ban),
            // The configuration bans it already, or the list is full of an operator's bans.
            Err(error) => {
                tracing::warn!(target = %ban.target, %error, "not banned");
                None
            }
        }
    }

    /// Bans; a ban of the same target is replaced.
    ///
    /// # Errors
    /// When the list is full, or the configuration bans it already.
    pub fn ban(&self, now: Now, ban: Ban) -> Result<(), BanError> {
        let origin = ban.origin;
        self.with_bans(|bans| bans.add(now, ban))?;
        if let Some(count) = BanOrigin::ALL.iter().position(|it| *it == origin).and_then(|at| self.bans_added.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Ends a ban; returns whether there was one.
    ///
    /// # Errors
    /// When it is one of the configuration.
    pub fn unban(&self, now: Now, target: &BanTarget) -> Result<bool, BanError> {
        self.with_bans(|bans| bans.remove(now, target))
    }

    /// Takes in a change of a ban that all nodes of a cluster share, unless a later one is known. Returns whether it
    /// changed anything.
    ///
    /// # Errors
    /// When the ban is refused.
    pub fn apply_ban(&self, now: Now, record: BanRecord) -> Result<bool, BanError> {
        let bans = record.ban.is_some();
        let changed = self.with_bans(|bans| bans.apply(now, record))?;
        if changed && bans {
            let operator = BanOrigin::ALL.iter().position(|it| *it == BanOrigin::Operator);
            if let Some(count) = operator.and_then(|at| self.bans_added.get(at)) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(changed)
    }

    /// The time to give to the next change of a ban, milliseconds since 1970.
    pub fn next_ban_change(&self, now: Now, target: &BanTarget) -> u64 {
        lock(&self.bans).next_change(now, target)
    }

    /// Bans of operators and their ends, for other nodes.
    pub fn ban_records(&self, now: Now) -> Vec<BanRecord> {
        self.with_bans(|bans| bans.records(now))
    }

    /// All active bans, ordered by target.
    pub fn bans(&self, now: Now) -> Vec<Ban> {
        self.with_bans(|bans| bans.list(now))
    }

    /// Adds a stored ban, as [`BanChange::Put`] reported it. An expired one is deleted.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn restore_ban(&self, now: Now, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        if let Some((target, end)) = bans::decode_end(key, value) {
            self.with_bans(|bans| bans.restore_end(key, target, end));
            return Ok(());
        }
        let ban = bans::decode(now, key, value)?;
        if let Err(error) = self.with_bans(|bans| bans.restore(now, ban)) {
            tracing::warn!(%error, "a stored ban was skipped");
        }
        Ok(())
    }

    /// True if [`BanChange::Put`] reported the end of a ban.
    pub fn is_end_of_ban(key: &[u8], value: &[u8]) -> bool {
        bans::decode_end(key, value).is_some()
    }

    /// A ban as reported by [`BanChange::Put`].
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn read_ban(now: Now, key: &[u8], value: &[u8]) -> Result<Ban, RecordError> {
        bans::decode(now, key, value)
    }

    /// Sets the callback for every change of the bans, in their order and on the thread that makes it: `hook` must be
    /// quick. Bans of the configuration are not reported.
    pub fn on_ban_change(&self, hook: impl Fn(&BanChange) + Send + Sync + 'static) {
        lock(&self.bans).on_change(Box::new(hook));
    }

    fn with_bans<T>(&self, action: impl FnOnce(&mut Bans) -> T) -> T {
        let mut bans = lock(&self.bans);
        let result = action(&mut bans);
        self.note_bans(&bans);
        result
    }

    fn note_bans(&self, bans: &Bans) {
        self.any_bans.store(bans.len() > 0, Ordering::Release);
    }

    /// Mean length of turns above which a shard is overloaded, milliseconds; 0 is no mark.
    pub(crate) fn lag_mark_ms(&self) -> u64 {
        self.lag_mark_ms.load(Ordering::Relaxed)
    }

    /// A shard is overloaded until then.
    pub(crate) fn announce_overload(&self, until: Millis) {
        self.overload.announce(until);
    }

    /// Its state and counters.
    pub fn report(&self, now: Now) -> AdmissionReport {
        let mut report = AdmissionReport {
            bans: self.with_bans(|bans| {
                bans.expire(now);
                bans.len() as u64
            }),
            bans_added: std::array::from_fn(|at| self.bans_added[at].load(Ordering::Relaxed)),
            users: self.users.len() as u64,
            overloaded: self.settings().loop_lag_mark_ms != 0 && self.overload.holds(now.monotonic),
            ..AdmissionReport::default()
        };
        for part in self.addresses.all() {
            let part = lock(part);
            report.addresses += part.len() as u64;
            report.addresses_forgotten += part.evicted();
        }
        report
    }
}

fn is_exempt(settings: &AdmissionSettings, address: IpAddr) -> bool {
    settings.exempt.iter().any(|network| network.contains(address))
}
