//! The gateway and the services of a process.

mod applications;
mod figures;
mod host;
mod idle_keys;
mod services;

use std::io;
use std::sync::Arc;

use tidegate_bus::{Address, AddressError, Bus, BusError, Settings};
use tidegate_context::RecordLimits;
use tidegate_context::service::{
    Bell, Courier, DefinerSettings, GatewaySettings, ManagerSettings, Running, ServiceError, start_definer,
    start_gateway, start_manager,
};
use tidegate_engine::ListenerId;
use tidegate_node::Node;

use tidegate_administration::BrokerStatus;
use tidegate_config::Config;
use tidegate_config::bus_access::{BusAccess, lease_on};
use tidegate_config::context::{
    GroupsError, WrongKey, are_on_bus, bus_of, gateway_name, points, read_definitions, topics,
};
use tidegate_config::sections::context::{Context, CoreServices};

use figures::CorePart;
use host::NodeHost;
pub use services::{Lack, Services};

/// Why the core does not start.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// The address of the bus is wrong.
    #[error("context.bus: {0}")]
    Address(AddressError),
    /// The bus cannot be used.
    #[error("the bus {address}: {source}")]
    Bus {
        /// The bus.
        address: String,
        /// The cause.
        source: BusError,
    },
    /// The topics of contexts are wrong.
    #[error("the topics of contexts are none")]
    Topics,
    /// The points of access are wrong.
    #[error(transparent)]
    Points(#[from] WrongKey),
    /// The files of groups are wrong.
    #[error(transparent)]
    Groups(#[from] GroupsError),
    /// A service does not start.
    #[error("a service of the core: {0}")]
    Service(#[from] ServiceError),
    /// The service for messages to applications does not start.
    #[error("the records of applications: {0}")]
    Applications(ServiceError),
    /// The gateway has no thread.
    #[error("cannot start a thread for the gateway: {0}")]
    Thread(io::Error),
}

/// The running parts of the core in this process. Dropping it ends them.
#[derive(Debug)]
pub struct Core {
    /// The gateway before the services, so that it is the first to go.
    _running: Vec<Running>,
}

/// Starts the services of the configuration beside a broker.
///
/// # Errors
/// When a key, a file or the bus cannot be used, or the system gives no thread.
pub fn start(config: &Config, node: &Node, status: &Arc<BrokerStatus>) -> Result<Option<Core>, CoreError> {
    let context = &config.context;
    if !context.enabled {
        return Ok(None);
    }
    let courier = open(config)?;
    status.parts().register(Arc::new(CorePart(Arc::clone(courier.counters()))));
    let mut running = vec![gateway(config, node, status, &courier)?];
    let member = member_name(&gateway_name(config));
    if are_on_bus(config) {
        running.push(applications::start(config, node, &courier, &member)?);
    }
    let here = match context.services {
        CoreServices::Auto => context.bus.is_none(),
        CoreServices::Here => true,
        CoreServices::Elsewhere => false,
    };
    idle_keys::tell_idle_keys(config, here);
    if here {
        running.extend(services(context, &member, &courier, &[Service::Points, Service::Groups])?);
    }
    Ok(Some(Core { _running: running }))
}

/// A name as members of groups may have it.
fn member_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(64).collect()
}

/// A service of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Service {
    /// The manager of points of access: which node at which gateway
    Points,
    /// The group definers, one for each file of groups
    Groups,
}

/// Starts services without a broker.
///
/// # Errors
/// When a key, a file or the bus cannot be used, or the system gives no thread.
pub fn start_services(config: &Config, member: &str, which: &[Service]) -> Result<(Core, Services), CoreError> {
    idle_keys::tell_idle_keys(config, which.contains(&Service::Points));
    let courier = open(config)?;
    let running = services(&config.context, &member_name(member), &courier, which)?;
    let watches = running.iter().map(Running::watch).collect();
    let counters = Arc::clone(courier.counters());
    let services = Services::new(courier.bus().clone(), address_of(config)?.to_string(), watches, counters);
    Ok((Core { _running: running }, services))
}

/// The address of the bus of the core.
fn address_of(config: &Config) -> Result<Address, CoreError> {
    bus_of(config).unwrap_or("embedded").parse().map_err(CoreError::Address)
}

/// How the bus of the core is spoken to.
fn settings(config: &Config, address: &Address) -> Settings {
    let context = &config.context;
    let lease = lease_on(address, context.lease);
    BusAccess::of_context(context, &config.cluster).put(Settings {
        prefix: context.bus_prefix.clone(),
        replicas: context.bus_replicas,
        lease,
        max_release_time: lease / 4,
        ..Settings::default()
    })
}

fn open(config: &Config) -> Result<Courier, CoreError> {
    let context = &config.context;
    let address = address_of(config)?;
    let settings = settings(config, &address);
    let bus = Bus::open(&address, settings, Arc::new(|_| {}))
        .map_err(|source| CoreError::Bus { address: address.to_string(), source })?;
    let limits = RecordLimits { keep_for: context.records_keep, max_bytes: context.records_max_bytes.0 };
    Ok(Courier::new(bus, u32::from(context.partitions)).with_limits(limits))
}

fn gateway(config: &Config, node: &Node, status: &Arc<BrokerStatus>, courier: &Courier) -> Result<Running, CoreError> {
    let context = &config.context;
    let address = context.address.clone().unwrap_or_else(|| {
        let for_nodes = |id: ListenerId| config.listeners.get(usize::from(id.0)).is_some_and(|it| it.mobile_nodes);
        let listened = node.socket_of(for_nodes);
        if listened.is_none_or(|at| at.ip().is_unspecified()) {
            let todo = "set context.address to the HOST:PORT at which nodes reach this gateway";
            let told = listened.map(|at| at.to_string()).unwrap_or_default();
            tracing::warn!(told, todo, "the address that this gateway announces to mobile nodes is not reachable");
        }
        listened.map(|at| at.to_string()).unwrap_or_default()
    });
    let settings = GatewaySettings {
        name: gateway_name(config),
        address,
        load_period: context.load_period,
        connection_period: context.connection_period,
        max_connections: u64::from(config.limits.max_connections),
        clustered: !config.cluster.name.is_empty(),
    };
    let bell = Bell::default();
    let topics = topics(config).ok_or(CoreError::Topics)?;
    let host = NodeHost::new(node.handle(), &config.addresses.prefix, topics, Arc::clone(status), &bell);
    start_gateway(courier.clone(), settings, Box::new(host), bell).map_err(CoreError::Thread)
}

fn services(context: &Context, member: &str, courier: &Courier, which: &[Service]) -> Result<Vec<Running>, CoreError> {
    // Before anything runs, so that a mistake is reported at once.
    let definitions = if which.contains(&Service::Groups) { read_definitions(context)? } else { Vec::new() };
    let mut running = Vec::new();
    if which.contains(&Service::Points) {
        // Once here, so that a mistake is an error at the start.
        points(context)?;
        let (context, settings) =
            (context.clone(), ManagerSettings { member: member.to_owned(), cycle: context.cycle });
        running.push(start_manager(courier.clone(), &settings, move || points(&context).ok())?);
    }
    for definition in definitions {
        let settings = DefinerSettings { member: member.to_owned() };
        let started = start_definer(courier.clone(), &settings, Arc::new(definition));
        running.push(started?);
    }
    Ok(running)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::value::Lease;

    #[test]
    fn a_wrong_bus_is_named() {
        let mut config = Config::default();
        config.context.bus = Some("http://127.0.0.1".to_owned());
        assert!(open(&config).unwrap_err().to_string().contains("context.bus"));
    }

    #[test]
    fn the_core_on_kafka_has_a_longer_default_lease() {
        let mut config = Config::default();
        let lease = |config: &Config, bus: &str| settings(config, &bus.parse().unwrap()).lease.as_secs();
        assert_eq!((lease(&config, "kafka://h"), lease(&config, "nats://h"), lease(&config, "embedded")), (30, 10, 10));
        config.context.lease = Lease::For(std::time::Duration::from_secs(2));
        assert_eq!(lease(&config, "kafka://h"), 2);
    }
}
