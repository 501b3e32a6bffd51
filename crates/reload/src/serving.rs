//! The listeners that clients reach until a restart, also where a new configuration no longer has them.

use tidegate_config::Config;
use tidegate_config::sections::Listener;
use tidegate_config::sections::access::DefaultAccess;
use tidegate_identity::access;

/// The listeners in force, and the protection that clients meet there.
pub(crate) struct Serving {
    entrances: Vec<Entrance>,
    /// Whether access rules are in force.
    has_rules: bool,
}

/// A listener in force.
struct Entrance {
    listener: Listener,
    /// Whether it admits only clients that prove their identity.
    asks: bool,
    /// The tenant of its clients, where it has one.
    tenant: Option<String>,
    /// Whether it has the keys of the last configuration that can change without a restart.
    is_current: bool,
}

/// A new configuration that would take the protection of a listener in force.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Exposed {
    /// Clients would need no proof of their identity.
    #[error(
        "listener `{name}` at {address} stays open until a restart, and with the new configuration it would let in everybody who reaches it, without a password; keep the listener at this address with its authentication, write `allow_anonymous = true` in its section, or restart the broker"
    )]
    Admits { name: String, address: String },
    /// Clients could do anything.
    #[error(
        "listener `{name}` at {address} stays open until a restart, and the new configuration has no access rules for its clients; keep the rules, keep the listener at this address and write `default = \"allow\"` in [access], or restart the broker"
    )]
    Permits { name: String, address: String },
    /// Rules would be about the clients of another listener, or of none.
    #[error(
        "listener `{name}` at {address} has the name `{new}` in the new configuration, and access rules go by the old name until a restart; keep the name, or restart the broker"
    )]
    Renames { name: String, address: String, new: String },
    /// Clients would come to the topics of others.
    #[error(
        "listener `{name}` at {address} stays open until a restart, and with the new configuration its clients would leave tenant `{tenant}`; keep the listener at this address in its tenant, or restart the broker"
    )]
    Mixes { name: String, address: String, tenant: String },
}

impl Serving {
    /// The listeners in the order of their numbers, which parts of the broker go by.
    pub(crate) fn listeners(&self) -> Vec<Listener> {
        self.entrances.iter().map(|entrance| entrance.listener.clone()).collect()
    }

    /// The listeners of a configuration at the start.
    pub(crate) fn of(config: &Config) -> Self {
        let entrance = |listener: &Listener| Entrance::of(listener.clone(), config);
        Self { entrances: config.listeners.iter().map(entrance).collect(), has_rules: access::restricts(config) }
    }

    /// The number of each listener of a configuration; new ones come behind those in force.
    pub(crate) fn numbers(&self, config: &Config) -> Vec<usize> {
        let mut free = self.entrances.len()..;
        let position = |name: &str| self.entrances.iter().position(|entrance| entrance.listener.name == name);
        config.listeners.iter().filter_map(|listener| position(&listener.name).or_else(|| free.next())).collect()
    }

    /// Whether the listener with this number has the keys of the last configuration.
    pub(crate) fn is_current(&self, number: usize) -> bool {
        self.entrances.get(number).is_some_and(|entrance| entrance.is_current)
    }

    /// The same listeners with the protection of a new configuration.
    ///
    /// # Errors
    /// When it would leave one of them without the protection that it has.
    pub(crate) fn after(&self, new: &Config) -> Result<Self, Exposed> {
        let has_rules = access::restricts(new);
        let mut entrances = Vec::new();
        for entrance in &self.entrances {
            // A section is about its address: for another one its keys may ask for less, or have no TLS.
            let written = new.listeners.iter().find(|it| entrance.is(it));
            let is_current = written.is_some();
            let next = Entrance { is_current, ..Entrance::of(with_keys_of(&entrance.listener, written), new) };
            self.check(entrance, &next, new, has_rules)?;
            entrances.push(next);
        }
        Ok(Self { entrances, has_rules })
    }

    /// Whether a listener keeps its protection. A new configuration can open only listeners that it has.
    fn check(&self, entrance: &Entrance, next: &Entrance, new: &Config, has_rules: bool) -> Result<(), Exposed> {
        let Entrance { listener, is_current, .. } = next;
        let (name, address) = (listener.name.clone(), listener.address.to_string());
        if entrance.asks && !next.asks && !(*is_current && listener.allow_anonymous) {
            return Err(Exposed::Admits { name, address });
        }
        if self.has_rules && !has_rules && !(*is_current && new.access.default == DefaultAccess::Allow) {
            return Err(Exposed::Permits { name, address });
        }
        let is_renamed = |it: &&Listener| it.address == listener.address && !self.entrances.iter().any(|e| e.is(it));
        if let Some(it) = new.listeners.iter().find(is_renamed).filter(|_| has_rules && !is_current) {
            return Err(Exposed::Renames { name, address, new: it.name.clone() });
        }
        match entrance.tenant.clone().filter(|_| entrance.tenant != next.tenant && !is_current) {
            Some(tenant) => Err(Exposed::Mixes { name, address, tenant }),
            None => Ok(()),
        }
    }
}

impl Entrance {
    /// Whether a section is that of this listener.
    fn is(&self, section: &Listener) -> bool {
        section.name == self.listener.name && section.address == self.listener.address
    }

    fn of(listener: Listener, config: &Config) -> Self {
        let tenant = config.tenants.iter().find(|tenant| tenant.listeners.0.contains(&listener.name));
        Self {
            asks: config.asks_who(&listener),
            tenant: tenant.map(|tenant| tenant.name.clone()),
            is_current: true,
            listener,
        }
    }
}

/// A listener in force with the keys of its section in a new configuration. The keys of devices change with a restart
/// only, and decide about its protection.
fn with_keys_of(listener: &Listener, written: Option<&Listener>) -> Listener {
    let Some(written) = written else { return listener.clone() };
    Listener { psk_file: listener.psk_file.clone(), ..written.clone() }
}
