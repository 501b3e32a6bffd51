//! The addresses of a node of a cluster: those it listens on, and those it advertises.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use tidegate_bus::Address;
use tidegate_cluster::Addresses;
use tidegate_node::{AddressError, HostPort, ListenAddress, LocalAddress, Node};
use zeroize::Zeroizing;

use crate::Config;
use crate::feature::bus_problem;
use crate::finding::Findings;
use crate::origins::Origins;
use crate::sections::Listener;
use crate::sections::cluster::{Cluster, LinkEncryption};
use crate::sections::orchestrator::Orchestrator;
use crate::value::Problem;

/// Longest file with a secret, bytes.
const MAX_SECRET_FILE: u64 = 64 << 10;

/// Checks the section as a whole.
pub fn check(config: &Config, findings: &mut Findings) {
    let cluster = &config.cluster;
    let mut find = |key, problem: Problem| findings.push(problem, config.origins.source_of("cluster", key).clone());
    if cluster.name.is_empty() {
        if cluster.bus.is_some() {
            find(
                "bus",
                Problem::new("names the bus of a cluster, but this node has no name in it")
                    .hint("add --node NAME, or cluster.name"),
            );
        }
        return;
    }
    if let Err(error) = tidegate_node::NodeName::new(&cluster.name) {
        find("name", Problem::new(error.to_string()));
    }
    match cluster.bus.as_deref().map(str::parse::<Address>) {
        None => find(
            "name",
            Problem::new("names a node of a cluster, but no bus")
                .hint("add --bus embedded://DIRECTORY for nodes of one machine, or --bus nats://HOST:PORT"),
        ),
        Some(Ok(Address::Embedded)) => find(
            "bus",
            Problem::new("is within one process, and no other node can be on it")
                .hint("use embedded://DIRECTORY, nats:// or kafka://, or no cluster"),
        ),
        Some(parsed) => {
            if let Some(problem) = bus_problem(&parsed) {
                find("bus", problem);
            }
        }
    }
    if cluster.bus_certificate.is_some() != cluster.bus_key.is_some() {
        let (key, other) =
            if cluster.bus_key.is_some() { ("bus_key", "bus_certificate") } else { ("bus_certificate", "bus_key") };
        find(key, Problem::new(format!("a certificate and its key go together; add cluster.{other}")));
    }
    for (key, file) in
        [("tls_ca", &cluster.tls_ca), ("tls_certificate", &cluster.tls_certificate), ("tls_key", &cluster.tls_key)]
    {
        match (cluster.tls, file) {
            (LinkEncryption::Files, None) => {
                find("tls", Problem::new(format!("takes certificates from files; add cluster.{key}")));
            }
            (LinkEncryption::Off | LinkEncryption::Secret, Some(_)) => {
                find(key, Problem::new("has no effect").hint("set cluster.tls = \"files\""));
            }
            _ => {}
        }
    }
    if config.orchestrator.enabled {
        let shows_users = config.orchestrator.passes_clients_through();
        for (key, problem) in orchestrator_problems(&config.orchestrator, &cluster.name, shows_users) {
            findings.push(problem, config.origins.source_of("orchestrator", key).clone());
        }
    }
    let mut find = |key, problem: Problem| findings.push(problem, config.origins.source_of("cluster", key).clone());
    for (key, text) in [("listen", &cluster.listen), ("relay", &cluster.relay)] {
        if let Some(text) = text
            && parse(text).is_none()
        {
            find(key, Problem::new(format!("`{text}` is no ADDRESS:PORT")));
        }
    }
    // Clients that other nodes hand over come in as through the first listener; so may anybody who reaches that address.
    if let Some(first) = config.listeners.first().filter(|first| !config.asks_who(first)) {
        check_is_safe(cluster, &config.listeners, first, &config.origins, findings);
    }
}

/// Settings of an orchestrator that a member of the cluster `node` cannot have: the key and the problem of each.
fn orchestrator_problems(orchestrator: &Orchestrator, node: &str, shows_users: bool) -> Vec<(&'static str, Problem)> {
    let mut problems = Vec::new();
    if !orchestrator.name.is_empty() && orchestrator.name != node {
        let problem = Problem::new("is another name than the one in the cluster");
        problems.push(("name", problem.hint("give only one, by --node or --name")));
    }
    if shows_users {
        let text = "shows brokers the credentials of each user, whose sessions cannot move to another orchestrator";
        problems.push(("identity", Problem::new(text).hint("remove it, or [cluster]")));
    }
    problems
}

/// Checks that the relay address lets in no client without a name, which the first listener would not ask for one.
fn check_is_safe(
    cluster: &Cluster,
    listeners: &[Listener],
    first: &Listener,
    origins: &Origins,
    findings: &mut Findings,
) {
    let Ok(listen) = listen(cluster, listeners) else { return };
    let at = cluster.relay.as_deref().and_then(parse).unwrap_or(listen);
    if !at.ip().is_loopback() && !first.allow_anonymous {
        let text = format!(
            "the address {at}, where other nodes hand over clients, would let in everybody who reaches it, without a password"
        );
        let hint = "say who comes in, or add --allow-anonymous if you mean it";
        findings.push(Problem::new(text).hint(hint), origins.source_of("cluster", "name").clone());
    }
}

fn parse(text: &str) -> Option<SocketAddr> {
    let address: ListenAddress = format!("tcp://{text}").parse().ok()?;
    resolve(address.host_port()?)
}

fn resolve(at: &HostPort) -> Option<SocketAddr> {
    at.resolve().ok()?.first().copied()
}

/// Why a node cannot be set up for its cluster.
#[derive(Debug, thiserror::Error)]
pub enum NodeSetupError {
    /// A key has no address.
    #[error("{key}: `{text}` is no address")]
    Address {
        /// The key.
        key: &'static str,
        /// Its value.
        text: String,
    },
    /// A key has an address that no listener can have.
    #[error("cluster.relay: {0}")]
    Relay(AddressError),
    /// The file with the secret cannot be read.
    #[error("cluster.secret_file {path}: {source}")]
    Secret {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The node has no listener for other nodes.
    #[error("the node does not listen for others")]
    NoListener,
    /// The node has no listener for clients that others relay.
    #[error("the node does not listen for clients that others hand over")]
    NoRelay,
    /// `cluster.advertise` names a host without an address.
    #[error("cluster.advertise: `{0}` has no address")]
    Advertise(String),
    /// The listener is on all addresses of the machine, and the configuration names none.
    #[error("other nodes cannot connect to {0}: set cluster.advertise to an address of this machine that they reach")]
    Unspecified(SocketAddr),
}

/// The address for links of other nodes: the configured one, or a free port at the first listener's address.
///
/// # Errors
/// When `cluster.listen` is no address.
pub fn listen(cluster: &Cluster, listeners: &[Listener]) -> Result<SocketAddr, NodeSetupError> {
    if let Some(text) = &cluster.listen {
        return parse(text).ok_or_else(|| NodeSetupError::Address { key: "cluster.listen", text: text.clone() });
    }
    let first = listeners.iter().find_map(|listener| resolve(listener.address.host_port()?));
    Ok(SocketAddr::new(first.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |at| at.ip()), 0))
}

/// The content of the file with the secret.
///
/// # Errors
/// When the file cannot be read.
pub fn secret(cluster: &Cluster) -> Result<Option<Zeroizing<Vec<u8>>>, NodeSetupError> {
    let Some(path) = &cluster.secret_file else { return Ok(None) };
    let failed = |source| NodeSetupError::Secret { path: path.clone(), source };
    let text = tidegate_setting_file::read(Path::new(path), MAX_SECRET_FILE).map(Zeroizing::new).map_err(failed)?;
    Ok(Some(Zeroizing::new(text.trim_ascii().to_vec())))
}

/// The configuration with a listener for clients that other nodes hand over.
///
/// # Errors
/// When there is no address for it.
pub fn with_relay(config: Config) -> Result<Config, NodeSetupError> {
    if config.cluster.name.is_empty() {
        return Ok(config);
    }
    let at = match config.cluster.relay.as_deref() {
        Some(text) => {
            parse(text).ok_or_else(|| NodeSetupError::Address { key: "cluster.relay", text: text.to_owned() })?
        }
        None => SocketAddr::new(listen(&config.cluster, &config.listeners)?.ip(), 0),
    };
    let address = format!("tcp://{at}").parse().map_err(NodeSetupError::Relay)?;
    let networks = config.cluster.networks.clone();
    Ok(crate::orchestrator::with_relay_at(config, address, networks))
}

/// The addresses of this node for others.
///
/// # Errors
/// When there is no address that other nodes can reach.
pub fn advertised(cluster: &Cluster, node: &Node, admin: Option<String>) -> Result<Addresses, NodeSetupError> {
    let bound = node.handle().cluster_address().ok_or(NodeSetupError::NoListener)?;
    // The listener for clients that are handed over is the last one.
    let relay = node.local_addresses().iter().rev().find_map(|address| match address {
        LocalAddress::Tcp(at) => Some(*at),
        _ => None,
    });
    let relay = relay.ok_or(NodeSetupError::NoRelay)?;
    let told = |at: SocketAddr| match &cluster.advertise {
        Some(host) => parse(&format!("{host}:{}", at.port())).ok_or_else(|| NodeSetupError::Advertise(host.clone())),
        None if at.ip().is_unspecified() => Err(NodeSetupError::Unspecified(at)),
        None => Ok(at),
    };
    let first = node.local_addresses().iter().find_map(|address| match address {
        LocalAddress::Tcp(at) if *at != relay => Some(at.to_string()),
        _ => None,
    });
    Ok(Addresses {
        cluster: told(bound)?.to_string(),
        relay: told(relay)?.to_string(),
        mqtt: cluster.client_address.clone().or(first).unwrap_or_default(),
        admin: admin.unwrap_or_default(),
    })
}
