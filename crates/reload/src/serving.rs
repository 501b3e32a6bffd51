//! The listeners that clients reach until a restart, also where a new configuration no longer has them.

use tidegate_config::Config;
use tidegate_config::sections::Listener;
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
        "listener `{name}` at {address} stays open until a restart, and with the new configuration it would let in everybody who reaches it, without a password; keep the listener and its authentication in the configuration, or restart the broker"
    )]
    Admits { name: String, address: String },
    /// Clients could do anything.
    #[error(
        "listener `{name}` at {address} stays open until a restart, and the new configuration has neither this listener nor access rules for its clients; keep the listener and the rules in the configuration, or restart the broker"
    )]
    Permits { name: String, address: String },
    /// Clients would come to the topics of others.
    #[error(
        "listener `{name}` at {address} stays open until a restart, and with the new configuration its clients would leave tenant `{tenant}`; keep the listener and its tenant in the configuration, or restart the broker"
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
            let written = new.listeners.iter().find(|listener| listener.name == entrance.listener.name);
            // A section for TLS has no certificate for a listener without it, and the other way round.
            let written = written.filter(|it| it.address.is_tls() == entrance.listener.address.is_tls());
            let is_current = written.is_some();
            let next = Entrance { is_current, ..Entrance::of(in_force(&entrance.listener, written), new) };
            let Entrance { listener, .. } = &next;
            // Openness and tenants are explicit settings only for the address that they are written for.
            let same_place = written.is_some_and(|written| written.address == listener.address);
            let is_chosen = same_place && (listener.allow_anonymous || listener.address.is_local());
            let (name, address) = (listener.name.clone(), listener.address.to_string());
            if entrance.asks && !next.asks && !is_chosen {
                return Err(Exposed::Admits { name, address });
            }
            if self.has_rules && !has_rules && !same_place {
                return Err(Exposed::Permits { name, address });
            }
            if let Some(tenant) = entrance.tenant.clone().filter(|_| entrance.tenant != next.tenant && !same_place) {
                return Err(Exposed::Mixes { name, address, tenant });
            }
            entrances.push(next);
        }
        Ok(Self { entrances, has_rules })
    }
}

impl Entrance {
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

/// A listener in force with the keys of its section in a new configuration. Its address and the keys of devices change
/// with a restart only, and decide about its protection.
fn in_force(listener: &Listener, written: Option<&Listener>) -> Listener {
    let Some(written) = written else { return listener.clone() };
    let (address, psk_file) = (listener.address.clone(), listener.psk_file.clone());
    Listener { address, psk_file, ..written.clone() }
}
