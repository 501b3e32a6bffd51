//! The tenants in force: their clients, names and quotas. A reload replaces clients and names and changes the quotas;
//! connected clients stay in their tenants.

use std::sync::{Arc, PoisonError, RwLock};

use tidegate_context::level_of;
use tidegate_engine::{ListenerId, TenantId, Tenants};
use tidegate_mirror::MirrorDisk;
use tidegate_node::{TenantCounts, TenantHoldings};

use crate::tenant_numbers::{self, Agree};
use tidegate_config::Config;
use tidegate_config::engine_settings::tenant_quotas;

use super::tenant_table::TenantTable;
use super::tenants::{TenantMap, Traits};

/// The tenants in force, shared by all who ask. Shards ask for the tenant of a listener or a user a few times per
/// connection. An orchestrator asks for the name and the number of a tenant for each of its messages, which takes no
/// lock.
#[derive(Clone, Debug)]
pub struct Tenancy {
    /// Names of listeners by their numbers, which change with a restart only.
    listeners: Arc<[String]>,
    in_force: Arc<RwLock<Arc<InForce>>>,
    /// Names of tenants that are gone stay.
    names: Arc<TenantTable>,
    counts: Arc<TenantCounts>,
    agree: Option<Agreement>,
    mirror: Option<KeptOnBus>,
}

/// The copy of the tenants' numbers on the bus, beside the store's directory.
#[derive(Clone)]
struct KeptOnBus(Arc<MirrorDisk>);

impl std::fmt::Debug for KeptOnBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeptOnBus")
    }
}

/// How numbers of new tenants are agreed on in a cluster.
#[derive(Clone)]
struct Agreement(Arc<Agree>);

impl std::fmt::Debug for Agreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Agreement")
    }
}

/// The tenants of a configuration.
#[derive(Debug)]
struct InForce {
    map: TenantMap,
    /// By the numbers of listeners.
    of_listeners: Vec<TenantId>,
    /// Whether a user name is proven, so that it may lead to a tenant.
    by_user: bool,
}

impl InForce {
    fn of(config: &Config, listeners: &[String]) -> Self {
        let map = TenantMap::of(config);
        let of_listener = |name: &String| {
            let client = Traits { listener: name, ..Traits::default() };
            map.resolve(&client).unwrap_or(TenantId::DEFAULT)
        };
        let of_listeners = listeners.iter().map(of_listener).collect();
        Self { map, of_listeners, by_user: !config.auths.is_empty() }
    }
}

impl Tenancy {
    /// The tenants of a configuration that lists them in the order of their numbers.
    pub fn of(config: &Config) -> Self {
        let listeners: Arc<[String]> = config.listeners.iter().map(|listener| listener.name.clone()).collect();
        let in_force = InForce::of(config, &listeners);
        let counts = Arc::new(TenantCounts::default());
        counts.set_quotas(&tenant_quotas(&config.tenants));
        let names = Arc::new(TenantTable::default());
        names.add_all(config.tenants.iter().map(|tenant| &*tenant.name));
        let in_force = Arc::new(RwLock::new(Arc::new(in_force)));
        Self { listeners, in_force, names, counts, agree: None, mirror: None }
    }

    /// The same on a node of a cluster, which gives new tenants numbers only together with the other nodes.
    #[must_use]
    pub fn agreeing(self, agree: Option<Arc<Agree>>) -> Self {
        Self { agree: agree.map(Agreement), ..self }
    }

    /// The same where the files of the store are on the bus, with the numbers of tenants.
    #[must_use]
    pub fn kept_by(self, mirror: Option<Arc<MirrorDisk>>) -> Self {
        Self { mirror: mirror.map(KeptOnBus), ..self }
    }

    /// Puts the tenants of another configuration in force, for new clients.
    pub fn put_in_force(&self, config: &Config) {
        let in_force = Arc::new(InForce::of(config, &self.listeners));
        self.names.add_all(config.tenants.iter().map(|tenant| &*tenant.name));
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = in_force;
        self.counts.set_quotas(&tenant_quotas(&config.tenants));
    }

    /// A configuration with its tenants in the order of the numbers that they have, and new ones behind.
    ///
    /// # Errors
    /// When the numbers of new ones cannot be kept.
    pub fn numbered(&self, config: &Config) -> Result<Config, tenant_numbers::NumbersError> {
        let agree = self.agree.as_ref().map(|agreement| &*agreement.0);
        let mirror = self.mirror.as_ref().map(|mirror| &*mirror.0);
        tenant_numbers::settle_again(config, &self.names(), agree, mirror)
    }

    /// Asks who belongs to which tenant.
    pub fn ask<T>(&self, question: impl FnOnce(&TenantMap) -> T) -> T {
        question(&self.in_force().map)
    }

    /// The name of a listener.
    pub fn listener(&self, listener: ListenerId) -> &str {
        self.listeners.get(usize::from(listener.0)).map_or("", String::as_str)
    }

    /// The tenant of a name; the empty name is the default one's.
    pub fn named(&self, name: &str) -> Option<TenantId> {
        if name.is_empty() {
            return Some(TenantId::DEFAULT);
        }
        self.names.find(&level_of(name))
    }

    /// The name of a tenant; empty for the default tenant and for an unknown tenant.
    pub fn name(&self, tenant: TenantId) -> String {
        self.names.name(tenant).unwrap_or_default().to_owned()
    }

    /// The names of all tenants by their numbers, from 1 on.
    pub fn names(&self) -> Vec<String> {
        self.names.iter().map(|(_, name)| name.to_owned()).collect()
    }

    /// The counters of the holdings of tenants, for all shards.
    pub fn counts(&self) -> &Arc<TenantCounts> {
        &self.counts
    }

    /// The holdings of each tenant, by name.
    pub fn holdings(&self) -> Vec<(String, TenantHoldings)> {
        self.names.iter().map(|(tenant, name)| (name.to_owned(), self.counts.holdings(tenant))).collect()
    }

    fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tenants for Tenancy {
    fn of_listener(&self, listener: ListenerId) -> Option<TenantId> {
        self.in_force().of_listeners.get(usize::from(listener.0)).copied()
    }

    fn of_user(&self, listener: TenantId, user_name: &str) -> Option<TenantId> {
        let in_force = self.in_force();
        if in_force.by_user { in_force.map.of_user(listener, user_name) } else { None }
    }

    fn topic_level_of(&self, tenant: TenantId) -> Option<&str> {
        self.names.level(tenant)
    }

    fn of_topic_level(&self, level: &str) -> Option<TenantId> {
        self.names.find(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::Inputs;
    use tidegate_config::source::FileText;

    fn config(tenants: &str) -> Config {
        let text =
            format!("[[listener]]\nname = 'door'\n[[auth]]\nfile = 'users'\n[access]\ndefault = 'allow'\n{tenants}");
        let file = FileText::new("t.toml", text);
        Config::load(Inputs { file: Some(file), ..Inputs::default() }).map_err(|findings| findings.to_string()).unwrap()
    }

    #[test]
    fn a_tenant_keeps_its_number_whatever_comes_goes_and_moves() {
        let tenancy = Tenancy::of(&config("[[tenant]]\nname = 'a'\nlisteners = ['door']\n[[tenant]]\nname = 'b'\n"));
        assert_eq!(tenancy.of_listener(ListenerId(0)), Some(TenantId(1)));
        let next = config("[[tenant]]\nname = 'c'\nusers = ['u']\n[[tenant]]\nname = 'b'\nlisteners = ['door']\n");
        tenancy.put_in_force(&tenancy.numbered(&next).unwrap());
        assert_eq!([tenancy.named("a"), tenancy.named("b"), tenancy.named("c")], [1, 2, 3].map(|n| Some(TenantId(n))));
        assert_eq!((tenancy.named(""), tenancy.named("d")), (Some(TenantId::DEFAULT), None));
        assert_eq!(tenancy.name(TenantId(3)), "c");
        assert_eq!(tenancy.of_listener(ListenerId(0)), Some(TenantId(2)));
        assert_eq!(tenancy.of_user(TenantId(2), "u"), Some(TenantId(3)));
        tenancy.put_in_force(&tenancy.numbered(&config("")).unwrap());
        assert_eq!(tenancy.of_listener(ListenerId(0)), Some(TenantId::DEFAULT));
        assert_eq!(tenancy.name(TenantId(1)), "a", "its stored records are still its own");
    }

    #[test]
    fn names_of_tenants_are_found_while_a_reload_holds_the_lock() {
        let tenancy = Tenancy::of(&config("[[tenant]]\nname = 'a'\nlisteners = ['door']\n"));
        let reload = tenancy.in_force.write();
        let level = tenancy.topic_level_of(TenantId(1)).expect("a level");
        assert_eq!(tenancy.of_topic_level(level), Some(TenantId(1)));
        assert_eq!((tenancy.topic_level_of(TenantId(2)), tenancy.of_topic_level("")), (None, None));
        drop(reload);
    }

    #[test]
    fn quotas_change_with_the_configuration() {
        let tenancy = Tenancy::of(&config("[[tenant]]\nname = 'a'\nmax_sessions = 5\n"));
        let quota = || tenancy.holdings()[0].1.quotas[1];
        assert_eq!(quota(), 5);
        tenancy.put_in_force(&tenancy.numbered(&config("[[tenant]]\nname = 'a'\nmax_sessions = 7\n")).unwrap());
        assert_eq!(quota(), 7);
        tenancy.put_in_force(&tenancy.numbered(&config("")).unwrap());
        assert_eq!(quota(), 0);
    }
}
