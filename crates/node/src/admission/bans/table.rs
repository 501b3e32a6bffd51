//! The list of bans: found by address, client id and user name, bounded, and in order of their ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use tidegate_engine::{Millis, Now, TenantId};

use super::{Ban, BanChange, BanEnds, BanError, BanOrigin, BanTarget, MAX_BAN_TEXT, encode, key_of};
use crate::admission::source::Network;

/// Called with each change, in their order.
pub(crate) type OnChange = Box<dyn Fn(&BanChange) + Send + Sync>;

/// All bans.
#[derive(Default)]
pub(crate) struct Bans {
    pub(super) limit: usize,
    pub(super) by_target: HashMap<BanTarget, Ban>,
    /// Bans with an end, in the order of their ends.
    ends: BTreeSet<(Millis, BanTarget)>,
    /// Prefix lengths of banned networks and how many there are of each, so that an address is looked up once for each.
    prefixes: BTreeMap<u8, usize>,
    on_change: Option<OnChange>,
    /// Bans of operators that were ended or have expired.
    pub(super) ended: BanEnds,
}

impl Bans {
    /// A list of at most `limit` bans; 0 allows none.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Makes another limit hold. Bans beyond it stay until they end.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Sets the callback for changes from now on.
    pub(crate) fn on_change(&mut self, hook: OnChange) {
        self.on_change = Some(hook);
    }

    /// Adds a ban or replaces the ban of the same target. An automatic ban never weakens an existing one. When the list
    /// is full, the automatic ban that ends first is dropped; if the list has no automatic ban, the new ban is refused.
    pub(crate) fn add(&mut self, now: Now, ban: Ban) -> Result<(), BanError> {
        if ban.reason.len() > MAX_BAN_TEXT || ban.target.name().len() > MAX_BAN_TEXT {
            return Err(BanError::TooLong);
        }
        self.expire(now);
        if let Some(there) = self.by_target.get(&ban.target) {
            if there.origin == BanOrigin::Configuration && ban.origin != BanOrigin::Configuration {
                return Err(BanError::Configured);
            }
            if ban.origin.is_automatic() && !there.origin.is_automatic() {
                return Ok(());
            }
        } else {
            self.make_room()?;
        }
        self.take_out(&ban.target);
        if ban.origin != BanOrigin::Configuration {
            let (key, value) = encode(now, &ban);
            self.tell(&BanChange::Put { key, value });
        }
        self.put(ban);
        Ok(())
    }

    fn make_room(&mut self) -> Result<(), BanError> {
        if self.by_target.len() < self.limit {
            return Ok(());
        }
        let automatic = |(_, target): &&(Millis, BanTarget)| {
            self.by_target.get(target).is_some_and(|ban| ban.origin.is_automatic())
        };
        let first = self.ends.iter().find(automatic).map(|(_, target)| target.clone());
        let first = first.ok_or(BanError::Full(self.limit))?;
        self.end(&first);
        Ok(())
    }

    /// Adds a stored ban without calling the hook. One that has ended meanwhile is deleted.
    pub(crate) fn restore(&mut self, now: Now, ban: Ban) -> Result<(), BanError> {
        if ban.until <= now.monotonic {
            self.note_expired(now, &ban);
            self.tell(&BanChange::Delete { key: key_of(&ban.target) });
        } else if !self.by_target.contains_key(&ban.target) {
            self.make_room()?;
            self.put(ban);
        }
        Ok(())
    }

    fn put(&mut self, ban: Ban) {
        if let BanTarget::Address(network) = &ban.target {
            *self.prefixes.entry(network.prefix()).or_default() += 1;
        }
        if ban.until != Millis::NEVER {
            self.ends.insert((ban.until, ban.target.clone()));
        }
        self.by_target.insert(ban.target.clone(), ban);
    }

    fn take_out(&mut self, target: &BanTarget) -> Option<Ban> {
        let ban = self.by_target.remove(target)?;
        self.ends.remove(&(ban.until, target.clone()));
        if let BanTarget::Address(network) = target
            && let Some(count) = self.prefixes.get_mut(&network.prefix())
        {
            *count -= 1;
            if *count == 0 {
                self.prefixes.remove(&network.prefix());
            }
        }
        Some(ban)
    }

    /// Ends a ban and calls the hook.
    fn end(&mut self, target: &BanTarget) -> bool {
        let Some(ban) = self.take_out(target) else { return false };
        if ban.origin != BanOrigin::Configuration {
            self.tell(&BanChange::Delete { key: key_of(target) });
        }
        true
    }

    /// Ends a ban; returns whether there was one.
    pub(crate) fn remove(&mut self, now: Now, target: &BanTarget) -> Result<bool, BanError> {
        self.expire(now);
        if self.by_target.get(target).is_some_and(|ban| ban.origin == BanOrigin::Configuration) {
            return Err(BanError::Configured);
        }
        Ok(self.end(target))
    }

    /// Ends expired bans.
    pub(crate) fn expire(&mut self, now: Now) {
        while let Some((until, target)) = self.ends.first().cloned()
            && until <= now.monotonic
        {
            if let Some(ban) = self.by_target.get(&target).cloned() {
                self.note_expired(now, &ban);
            }
            self.end(&target);
        }
    }

    /// A ban of an operator that has expired holds against older ones, which a node that was away may bring back.
    fn note_expired(&mut self, now: Now, ban: &Ban) {
        if ban.origin == BanOrigin::Operator {
            self.remember_end(now, &ban.target, ban.since);
        }
    }

    /// Replaces the bans of the configuration. They count towards the limit and are never refused for it.
    pub(crate) fn configure(&mut self, now: Now, targets: Vec<BanTarget>) {
        let old: Vec<BanTarget> = self
            .by_target
            .values()
            .filter(|ban| ban.origin == BanOrigin::Configuration)
            .map(|ban| ban.target.clone())
            .collect();
        for target in &old {
            self.take_out(target);
        }
        for target in targets {
            self.end(&target);
            let reason = "named in the configuration".into();
            self.put(Ban { target, reason, origin: BanOrigin::Configuration, since: now.unix, until: Millis::NEVER });
        }
    }

    /// The ban of an address, the narrowest first.
    pub(crate) fn of_address(&mut self, now: Now, address: IpAddr) -> Option<&Ban> {
        self.expire(now);
        let address = address.to_canonical();
        let banned = |prefix: &u8| {
            let target = BanTarget::Address(Network::new(address, *prefix));
            self.by_target.get(&target)
        };
        self.prefixes.keys().rev().find_map(banned)
    }

    /// The ban of a client id.
    pub(crate) fn of_client(&mut self, now: Now, tenant: TenantId, client_id: &str) -> Option<&Ban> {
        self.expire(now);
        self.by_target.get(&BanTarget::Client(tenant, client_id.into()))
    }

    /// The ban of a user name.
    pub(crate) fn of_user(&mut self, now: Now, tenant: TenantId, user: &str) -> Option<&Ban> {
        self.expire(now);
        self.by_target.get(&BanTarget::User(tenant, user.into()))
    }

    /// All bans, ordered by target.
    pub(crate) fn list(&mut self, now: Now) -> Vec<Ban> {
        self.expire(now);
        let mut all: Vec<Ban> = self.by_target.values().cloned().collect();
        all.sort_by(|one, other| one.target.cmp(&other.target));
        all
    }

    /// Number of bans, expired ones that were not removed yet included.
    pub(crate) fn len(&self) -> usize {
        self.by_target.len()
    }

    pub(super) fn tell(&self, change: &BanChange) {
        if let Some(hook) = &self.on_change {
            hook(change);
        }
    }
}

#[cfg(test)]
impl Bans {
    /// Whether the count of each prefix length is that of the banned networks.
    pub(crate) fn prefixes_are_exact(&self) -> bool {
        let mut counted: BTreeMap<u8, usize> = BTreeMap::new();
        for target in self.by_target.keys() {
            if let BanTarget::Address(network) = target {
                *counted.entry(network.prefix()).or_default() += 1;
            }
        }
        counted == self.prefixes
    }
}
