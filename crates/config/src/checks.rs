//! Checks of several keys together: equal addresses, and addresses beyond this machine.

use tidegate_node::{ClientCertificates, ListenAddress};

use super::address::{AdminAddress, on_loopback};
use super::finding::Findings;
use super::origins::Origins;
use super::path::KeyPath;
use super::sections::orchestrator::Orchestrator;
use super::sections::{Admin, Listener, Store, StoreDurability};
use super::source::Source;
use super::value::Problem;
use super::{Config, MAX_LISTENERS, address_settings, tls_settings, waiting_settings};
use crate::hub::is_hub_listener;
use crate::orchestrator::RELAY_LISTENER;
use crate::orchestrator::same_place;

/// Checks the keys of a valid configuration together.
pub(crate) fn run(config: &Config, findings: &mut Findings) {
    let Config { listeners, admin, store, orchestrator, origins, .. } = config;
    if config.listeners.len() > MAX_LISTENERS {
        let text = format!("there are {} listeners; a broker has at most {MAX_LISTENERS}", config.listeners.len());
        findings.push(Problem::new(text), listener_source(origins, MAX_LISTENERS, "address"));
    }
    crate::feature::check(config, crate::feature::is_built, findings);
    for index in 0..config.listeners.len() {
        check_unique(listeners, admin, index, origins, findings);
        if let Some(listener) = listeners.get(index) {
            if !listener.address.is_local() && !listener.allow_anonymous && !config.asks_who(listener) {
                findings.push(open_to_all(listener, index, origins), listener_source(origins, index, "address"));
            }
            let problems = [
                tls_settings::problems,
                tls_settings::dtls_problems,
                tls_settings::proxy_problems,
                tls_settings::file_problems,
            ];
            for (key, problem) in problems.into_iter().flat_map(|of| of(listener)) {
                findings.push(problem, listener_source(origins, index, key));
            }
        }
    }
    check_admin_is_safe(admin, origins, findings);
    check_orchestrator(orchestrator, origins, findings);
    crate::cluster::check(config, findings);
    check_store(store, origins, findings);
    crate::mirror::check(&config.mirror, &config.cluster, store, origins, findings);
    crate::bus_access::check_usage(config, findings);
    if orchestrator.passes_clients_through() {
        crate::orchestrator::check_identity(listeners, &config.auths, store, origins, findings);
    }
    crate::access::check(config, findings);
    waiting_settings::check(&config.overflow, &config.priority, &config.dead_letter, origins, findings);
    address_settings::check(&config.addresses, orchestrator, origins, findings);
    crate::context::check(&config.context, &config.addresses, origins, findings);
    crate::authentication::check(&config.auths, listeners, orchestrator, origins, findings);
    crate::bridges::check(&config.bridges, listeners, origins, findings);
    #[cfg(feature = "pipelines")]
    crate::hub::check(config, findings);
}

fn listener_source(origins: &Origins, index: usize, key: &'static str) -> Source {
    let path = KeyPath { section: "listener", index, key };
    origins.source(&path).clone()
}

/// An orchestrator's brokers can be read, and have names of their own.
fn check_orchestrator(orchestrator: &Orchestrator, origins: &Origins, findings: &mut Findings) {
    let source = || origins.source_of("orchestrator", "brokers").clone();
    match orchestrator.fleet_brokers() {
        Err(error) => findings.push(Problem::new(error.to_string()), source()),
        Ok(brokers) => {
            let mut names = std::collections::BTreeSet::new();
            for broker in brokers.iter().filter(|broker| !names.insert(&broker.name)) {
                let text =
                    format!("two brokers have the name `{}`; give one of them another: NAME=ADDRESS", broker.name);
                findings.push(Problem::new(text), source());
            }
            for (index, broker) in brokers.iter().enumerate() {
                let before = brokers.iter().take(index).find(|other| same_place(&other.at, &broker.at));
                if let Some(other) = before.filter(|other| other.name != broker.name) {
                    let text = format!("brokers `{}` and `{}` have the address {}", other.name, broker.name, broker.at);
                    let hint = "name each broker once: one under two names would be given its share twice";
                    findings.push(Problem::new(text).hint(hint), source());
                }
            }
            if !brokers.is_empty() && !orchestrator.enabled {
                let problem = Problem::new("names brokers, but this is no orchestrator");
                findings.push(problem.hint("run `tidegate orchestrator`, or set orchestrator.enabled"), source());
            }
        }
    }
}

/// A directory needs persistence, and persistence needs a directory.
fn check_store(store: &Store, origins: &Origins, findings: &mut Findings) {
    let source = origins.source_of("store", "durability");
    let problem = match (&store.directory, store.durability) {
        (Some(directory), StoreDurability::Memory) => {
            Problem::new(format!("`store.durability` is \"memory\", so nothing would be kept in {directory}"))
                .hint("leave `store.durability` out to keep everything there, or `store.directory` to keep nothing")
        }
        (None, StoreDurability::Relaxed) => {
            Problem::new("`store.durability` is \"relaxed\", and there is no directory to keep anything in")
                .hint("name one with `store.directory` or --data, or leave `store.durability` out")
        }
        _ => return,
    };
    findings.push(problem, source.clone());
}

/// No two listeners share a name or a place.
fn check_unique(listeners: &[Listener], admin: &Admin, index: usize, origins: &Origins, findings: &mut Findings) {
    let (before, rest) = listeners.split_at(index);
    let Some(listener) = rest.first() else {
        return;
    };
    if before.iter().any(|other| other.name == listener.name) {
        let text = format!("two listeners have the name `{}`", listener.name);
        findings.push(Problem::new(text), listener_source(origins, index, "name"));
    }
    if listener.name == RELAY_LISTENER || is_hub_listener(&listener.name) {
        let text =
            format!("the name `{}` is the broker's own: it marks a listener whose clients are trusted", listener.name);
        findings.push(Problem::new(text), listener_source(origins, index, "name"));
    }
    if before.iter().any(|other| meet(&other.address, &listener.address)) {
        let text = format!("two listeners have the address {}", listener.address);
        findings.push(Problem::new(text), listener_source(origins, index, "address"));
    }
    if let (Some(at), AdminAddress::At(taken)) = (listener.address.host_port(), &admin.address)
        && !matches!(listener.address, ListenAddress::Quic(_))
        && at.port != 0
        && at == taken
    {
        let text = format!("the admin listener has the address {at}, as listener `{}` has", listener.name);
        findings.push(Problem::new(text), origins.source_of("admin", "address").clone());
    }
}

fn meet(one: &ListenAddress, other: &ListenAddress) -> bool {
    let over_udp = |address: &ListenAddress| address.is_coap() || matches!(address, ListenAddress::Quic(_));
    match (one.host_port(), other.host_port()) {
        // Ports of TCP and of UDP are not the same.
        (Some(_), Some(_)) if over_udp(one) != over_udp(other) => false,
        (Some(one), Some(other)) => one.port != 0 && one == other,
        (None, None) => one == other,
        _ => false,
    }
}

/// The problem of a listener on the network that lets in clients without a name, and does not say so.
fn open_to_all(listener: &Listener, index: usize, origins: &Origins) -> Problem {
    let source = listener_source(origins, index, "address");
    let local = on_loopback(&listener.address);
    let hint = match source {
        Source::Flag(_) => format!("add --allow-anonymous if you mean it, or stay on this machine: --listen {local}"),
        Source::Environment(_) => {
            let path = KeyPath { section: "listener", index, key: "allow_anonymous" };
            format!("set {}=true if you mean it, or stay on this machine: {local}", path.environment())
        }
        Source::File(_) | Source::Default => {
            format!(
                "add `allow_anonymous = true` to this [[listener]] if you mean it, or stay on this machine: address = \"{local}\""
            )
        }
    };
    let text = format!(
        "listener `{}` at {} would let in everybody who reaches it, without a password",
        listener.name, listener.address
    );
    Problem::new(text).hint(hint)
}

impl Config {
    /// True if a listener admits only clients that name and prove their identity.
    pub fn asks_who(&self, listener: &Listener) -> bool {
        let certificate = listener.client_certificate == ClientCertificates::Required;
        let shows = (certificate && listener.address.is_tls()) || listener.psk_file.is_some();
        !listener.allow_anonymous && (self.has_providers() || shows)
    }
}

fn check_admin_is_safe(admin: &Admin, origins: &Origins, findings: &mut Findings) {
    let AdminAddress::At(at) = &admin.address else {
        return;
    };
    if at.is_loopback() || admin.allow_anonymous || admin.token_file.is_some() {
        return;
    }
    let source = origins.source_of("admin", "address").clone();
    let port = at.port;
    let hint = match source {
        Source::Flag(_) => {
            format!("add --allow-anonymous if you mean it, or stay on this machine: --admin 127.0.0.1:{port}")
        }
        _ => format!(
            "add `token_file` to [admin] with a file that holds a token, or `allow_anonymous = true` if you mean it, or stay on this machine: address = \"127.0.0.1:{port}\""
        ),
    };
    let text = format!("the admin listener at {at} would answer everybody who reaches it, without a password");
    findings.push(Problem::new(text).hint(hint), source);
}
