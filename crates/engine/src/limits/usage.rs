//! The usage of each tenant, and of each user where that is asked for, on a shard: plain integers by the number of the
//! payer, counted where the engine counts messages and bytes anyway.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::ids::TenantId;
use crate::now::Millis;
use crate::summed;

summed! {
    /// The usage of a tenant on one shard. The counters only grow; `sessions`, `connections`, `retained_bytes` and
    /// `stored_bytes` are the values at this moment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Usage {
        /// Application messages received from the tenant's clients.
        pub messages_in: u64,
        /// Application messages sent to the tenant's clients.
        pub messages_out: u64,
        /// Bytes of the whole packets that the tenant's clients have sent.
        pub bytes_in: u64,
        /// Bytes handed to the transports of the tenant's clients.
        pub bytes_out: u64,
        /// Time for which clients were connected, milliseconds, added up over connections.
        pub connection_ms: u64,
        /// Connected clients.
        pub connections: u64,
        /// Sessions, connected or not.
        pub sessions: u64,
        /// Bytes of the retained messages whose home this shard is.
        pub retained_bytes: u64,
        /// Bytes of the messages that wait for sessions, in memory or in the store.
        pub stored_bytes: u64,
    }
}

/// Users with a meter of their own on a shard. Users beyond that have the meter of clients without a user name.
pub const MAX_METERED_USERS: usize = 10_000;

/// The number of a payer on a shard: a tenant, or one of its users where users are metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payer(u32);

impl Payer {
    /// No payer: broker links, pipelines of the hub, and clients that are not accepted.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// The counters of one payer, and since when its connection time is counted up.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    usage: Usage,
    counted_until: Millis,
    /// Whether [`Meters::changed`] has its number.
    is_changed: bool,
}

impl Meter {
    /// Counts connection time up to now. Called before the number of connections changes.
    fn count_time(&mut self, now: Millis) {
        self.usage.connection_ms += self.usage.connections * now.since(self.counted_until);
        self.counted_until = now;
    }
}

/// The meters of a shard, by the number of the payer.
#[derive(Debug)]
pub(crate) struct Meters {
    of: Vec<Meter>,
    /// The tenant and the user of each number.
    names: Vec<(TenantId, Rc<str>)>,
    /// The numbers, by tenant and user. Clients that are not metered by user have the empty name.
    payers: BTreeMap<TenantId, BTreeMap<Rc<str>, Payer>>,
    /// Payers with a user name.
    users: usize,
    /// Payers whose counters have changed since they were last taken for the store.
    changed: Vec<Payer>,
    unpaid: Meter,
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            of: Vec::new(),
            names: Vec::new(),
            payers: BTreeMap::new(),
            users: 0,
            changed: Vec::new(),
            // It never comes to the store.
            unpaid: Meter { is_changed: true, ..Meter::default() },
        }
    }
}

impl Meters {
    /// The counters of a payer.
    #[inline]
    pub(crate) fn of(&mut self, payer: Payer) -> &mut Usage {
        &mut self.meter(payer).usage
    }

    #[inline]
    fn meter(&mut self, payer: Payer) -> &mut Meter {
        let meter = match self.of.get_mut(payer.0 as usize) {
            Some(meter) => meter,
            None => &mut self.unpaid,
        };
        if !meter.is_changed {
            meter.is_changed = true;
            self.changed.push(payer);
        }
        meter
    }

    /// Whether counters have changed since [`Self::take_changed`].
    #[inline]
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Visits the counters that have changed since the last call, with connection time up to now, by tenant and user.
    pub(crate) fn take_changed(&mut self, now: Millis, visit: &mut dyn FnMut(TenantId, &str, &Usage)) {
        for payer in self.changed.drain(..) {
            let place = payer.0 as usize;
            let (Some(meter), Some((tenant, user))) = (self.of.get_mut(place), self.names.get(place)) else { continue };
            meter.is_changed = false;
            let mut meter = *meter;
            meter.count_time(now);
            visit(*tenant, user, &meter.usage);
        }
    }

    /// The payer of a client. Without a user name, that is the tenant's payer for all such clients.
    pub(crate) fn payer(&mut self, tenant: TenantId, user: Option<&str>) -> Payer {
        if tenant == TenantId::BROKER_LINK {
            return Payer::NONE;
        }
        let of_tenant = self.payers.entry(tenant).or_default();
        let user = user.unwrap_or_default();
        if let Some(payer) = of_tenant.get(user) {
            return *payer;
        }
        let user: Rc<str> = if self.users < MAX_METERED_USERS { user.into() } else { "".into() };
        let number = u32::try_from(self.of.len()).unwrap_or(u32::MAX);
        let payer = *of_tenant.entry(Rc::clone(&user)).or_insert(Payer(number));
        if payer.0 == number {
            self.of.push(Meter::default());
            self.names.push((tenant, Rc::clone(&user)));
            self.users += usize::from(!user.is_empty());
        }
        payer
    }

    /// Counts packets that have arrived for the payer of their connection.
    #[inline]
    pub(crate) fn count_input(&mut self, payer: Option<Payer>, bytes: usize) {
        if let Some(payer) = payer {
            self.of(payer).bytes_in += bytes as u64;
        }
    }

    /// A client of the payer has connected.
    pub(crate) fn connect(&mut self, payer: Payer, now: Millis) {
        let meter = self.meter(payer);
        meter.count_time(now);
        meter.usage.connections += 1;
    }

    /// A client of the payer is not connected any more.
    pub(crate) fn disconnect(&mut self, payer: Payer, now: Millis) {
        let meter = self.meter(payer);
        meter.count_time(now);
        meter.usage.connections = meter.usage.connections.saturating_sub(1);
    }

    /// The counters of each payer with connection time up to now, by tenant and user. The user name is empty for clients
    /// that are not metered by user.
    pub(crate) fn read(&self, now: Millis) -> impl Iterator<Item = (TenantId, &str, Usage)> {
        let all =
            self.payers.iter().flat_map(|(tenant, users)| users.iter().map(|(user, payer)| (*tenant, user, payer)));
        all.filter_map(move |(tenant, user, payer)| {
            let mut meter = *self.of.get(payer.0 as usize)?;
            meter.count_time(now);
            Some((tenant, &**user, meter.usage))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_beyond_the_limit_share_the_meter_of_their_tenant() {
        let mut meters = Meters::default();
        let tenant = TenantId(3);
        for number in 0..MAX_METERED_USERS + 5 {
            let payer = meters.payer(tenant, Some(&number.to_string()));
            meters.of(payer).messages_in += 1;
        }
        let known = meters.payer(tenant, Some("7"));
        meters.of(known).messages_in += 1;
        let of =
            |user: &str| meters.read(Millis(0)).find(|(_, name, _)| *name == user).map(|(.., usage)| usage.messages_in);
        assert_eq!([of("7"), of(""), of("9999"), of("10000")], [Some(2), Some(5), Some(1), None]);
        assert_eq!(meters.read(Millis(0)).count(), MAX_METERED_USERS + 1);
    }

    #[test]
    fn counters_are_taken_for_the_store_once_they_have_changed() {
        let mut meters = Meters::default();
        let (quiet, busy) = (meters.payer(TenantId(1), None), meters.payer(TenantId(1), Some("busy")));
        assert!(!meters.has_changed());
        meters.of(Payer::NONE).messages_in += 1;
        assert!(!meters.has_changed(), "it has no payer");
        meters.connect(busy, Millis(0));
        meters.of(busy).messages_in += 2;
        let taken = |meters: &mut Meters, now| {
            let mut taken = Vec::new();
            meters.take_changed(now, &mut |tenant, user, usage| {
                taken.push((tenant.0, user.to_owned(), usage.messages_in, usage.connection_ms));
            });
            taken
        };
        assert_eq!(taken(&mut meters, Millis(70)), [(1, "busy".to_owned(), 2, 70)]);
        assert_eq!(taken(&mut meters, Millis(80)), []);
        meters.of(quiet).bytes_in += 1;
        assert_eq!(taken(&mut meters, Millis(90)).len(), 1);
    }
}
