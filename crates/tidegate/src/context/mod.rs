//! The core for mobile nodes: this broker as a gateway, and the services where they run here. `crates/context` decides.

mod applications;
mod check;
mod host;
mod idle_keys;
mod machine;
mod services;

use std::sync::Arc;

use tidegate_bus::{Address, Bus, Settings};
use tidegate_context::groups::{Definition, read_groups};
use tidegate_context::ranking::{ConnectionsInverse, Ranking, ResourceWeights, ScoreExpression, WeightedResources};
use tidegate_context::service::{
    Bell, Courier, DefinerSettings, GatewaySettings, ManagerSettings, Running, start_definer, start_gateway,
    start_manager,
};
use tidegate_context::{
    ContextTopics, Points, PointsError, PointsSettings, ReallocationSettings, ReconfigError, ReconfigSettings,
    RecordLimits,
};
use tidegate_engine::ListenerId;
use tidegate_node::Node;

use crate::bus_access::{BusAccess, lease_on};
use crate::config::Config;
use crate::config::sections::context::{Context, CoreServices, RankingName};
use crate::status::BrokerStatus;

pub(crate) use applications::are_on_bus;
pub(crate) use check::check;
use host::NodeHost;
pub(crate) use services::{Lack, Services};

/// What runs of the core in this process. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Core {
    /// The gateway before the services, so that it is the first to go.
    _running: Vec<Running>,
}

/// Starts what the configuration asks for beside a broker.
///
/// # Errors
/// In words for people.
pub(crate) fn start(config: &Config, node: &Node, status: &Arc<BrokerStatus>) -> Result<Option<Core>, String> {
    let context = &config.context;
    if !context.enabled {
        return Ok(None);
    }
    let courier = open(config)?;
    status.serves_mobile_nodes(Arc::clone(courier.counters()));
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

/// The bus of the core: its own, or that of the cluster; nothing is one within this process.
fn bus_of(config: &Config) -> Option<&str> {
    config.context.bus.as_deref().or(config.cluster.bus.as_deref())
}

/// Whether the bus of the core is one that other processes are on, too.
pub(crate) fn has_shared_bus(config: &Config) -> bool {
    bus_of(config).and_then(|bus| bus.parse::<Address>().ok()).is_some_and(|bus| bus != Address::Embedded)
}

/// Where nodes of this gateway say something of themselves; nowhere where it is none.
pub(crate) fn topics(config: &Config) -> Option<ContextTopics> {
    let context = &config.context;
    let topics = || ContextTopics::new(&config.addresses.prefix, &context.topics.0, &context.property_topics.0);
    // What is no pattern was refused with the configuration.
    if context.enabled { topics().ok() } else { None }
}

/// A name as members of groups may have it.
fn member_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(64).collect()
}

/// A service of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Service {
    /// The manager of points of access: which node at which gateway
    Points,
    /// The group definers, one for each file of groups
    Groups,
}

/// Starts services without a broker.
///
/// # Errors
/// In words for people.
pub(crate) fn start_services(config: &Config, member: &str, which: &[Service]) -> Result<(Core, Services), String> {
    idle_keys::tell_idle_keys(config, which.contains(&Service::Points));
    let courier = open(config)?;
    let running = services(&config.context, &member_name(member), &courier, which)?;
    let watches = running.iter().map(Running::watch).collect();
    let counters = Arc::clone(courier.counters());
    let services = Services::new(courier.bus().clone(), address_of(config)?.to_string(), watches, counters);
    Ok((Core { _running: running }, services))
}

/// The address of the bus of the core.
fn address_of(config: &Config) -> Result<Address, String> {
    bus_of(config).unwrap_or("embedded").parse().map_err(|error| format!("context.bus: {error}"))
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

fn open(config: &Config) -> Result<Courier, String> {
    let context = &config.context;
    let address = address_of(config)?;
    let settings = settings(config, &address);
    let bus = Bus::open(&address, settings, Arc::new(|_| {})).map_err(|error| format!("the bus {address}: {error}"))?;
    let limits = RecordLimits { keep_for: context.records_keep, max_bytes: context.records_max_bytes.0 };
    Ok(Courier::new(bus, u32::from(context.partitions)).with_limits(limits))
}

fn gateway_name(config: &Config) -> String {
    let names = [&config.context.name, &config.cluster.name, &config.node.name];
    names.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default()
}

fn gateway(config: &Config, node: &Node, status: &Arc<BrokerStatus>, courier: &Courier) -> Result<Running, String> {
    let context = &config.context;
    let address = context.address.clone().unwrap_or_else(|| {
        let for_nodes = |id: ListenerId| config.listeners.get(usize::from(id.0)).is_some_and(|it| it.mobile_nodes);
        let listened = node.socket_of(for_nodes);
        if listened.is_none_or(|at| at.ip().is_unspecified()) {
            let todo = "set context.address to the HOST:PORT at which nodes reach this gateway";
            let told = listened.map(|at| at.to_string()).unwrap_or_default();
            tracing::warn!(told, todo, "mobile nodes are told an address of this gateway that leads nowhere");
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
    let topics = topics(config).ok_or("the topics of contexts are none")?;
    let host = NodeHost::new(node.handle(), &config.addresses.prefix, topics, Arc::clone(status), &bell);
    start_gateway(courier.clone(), settings, Box::new(host), bell)
        .map_err(|error| format!("cannot start a thread for the gateway: {error}"))
}

fn services(context: &Context, member: &str, courier: &Courier, which: &[Service]) -> Result<Vec<Running>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("a service of the core: {error}");
    // Before anything runs, so that a mistake is told at once.
    let definitions = if which.contains(&Service::Groups) { definitions(context)? } else { Vec::new() };
    let mut running = Vec::new();
    if which.contains(&Service::Points) {
        // Once here, so that a mistake is an error at the start.
        points(context).map_err(|error| error.to_string())?;
        let (context, settings) =
            (context.clone(), ManagerSettings { member: member.to_owned(), cycle: context.cycle });
        running.push(start_manager(courier.clone(), &settings, move || points(&context).ok()).map_err(|e| failed(&e))?);
    }
    for definition in definitions {
        let settings = DefinerSettings { member: member.to_owned() };
        let started = start_definer(courier.clone(), &settings, Arc::new(definition));
        running.push(started.map_err(|error| failed(&error))?);
    }
    Ok(running)
}

fn definitions(context: &Context) -> Result<Vec<Definition>, String> {
    let read = |path: &std::path::PathBuf| {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("context.groups: {shown}: {error}"))?;
        read_groups(&text).map_err(|error| format!("context.groups: {shown}: {error}"))
    };
    let definitions: Vec<Definition> = context.groups.0.iter().map(read).collect::<Result<_, String>>()?;
    let mut names: Vec<&str> = definitions.iter().map(Definition::definer).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            Err(format!("context.groups: two files have the definer `{}`; each needs one of its own", pair[0]))
        }
        None => Ok(definitions),
    }
}

/// A key of the section whose value the manager cannot work with.
#[derive(Debug, thiserror::Error)]
#[error("context.{key}: {what}")]
struct WrongKey {
    key: &'static str,
    what: String,
}

/// The files of groups can be read.
///
/// # Errors
/// In words for people, with the file.
pub(crate) fn check_files(config: &Config) -> Result<(), String> {
    definitions(&config.context).map(drop)
}

impl WrongKey {
    fn new(key: &'static str, what: &dyn std::fmt::Display) -> Self {
        Self { key, what: what.to_string() }
    }
}

/// What scores gateways. Weights and expression are checked whichever of them counts, so that a mistake is not found
/// only when it does.
fn ranking(context: &Context) -> Result<Box<dyn Ranking>, WrongKey> {
    let weights = ResourceWeights::of(context.weights.0.iter().map(String::as_str));
    let resources = weights.and_then(WeightedResources::new).map_err(|error| WrongKey::new("weights", &error))?;
    let score = context.score.as_deref().map(ScoreExpression::new).transpose();
    let score = score.map_err(|error| WrongKey::new("score", &error))?;
    let missing = || WrongKey::new("ranking", &"`expression` needs context.score");
    let ranking: Box<dyn Ranking> = match context.ranking {
        RankingName::Connections => Box::new(ConnectionsInverse),
        RankingName::Resources => Box::new(resources),
        RankingName::Expression => Box::new(score.ok_or_else(missing)?),
    };
    Ok(ranking)
}

fn points(context: &Context) -> Result<Points, WrongKey> {
    let wrong = WrongKey::new;
    let factors = context.ping_factors.0.iter().map(|text| text.parse()).collect::<Result<_, ReconfigError>>();
    let settings = PointsSettings {
        missed_windows: context.missed_windows,
        ping_interval: context.ping_interval,
        ping_window: context.ping_window,
        reconfig: ReconfigSettings {
            enabled: context.ping_reconfigure,
            factors: factors.map_err(|error| wrong("ping_factors", &error))?,
            floor: context.ping_window_min,
            ceiling: context.ping_window_max,
            ..ReconfigSettings::default()
        },
        reallocation: ReallocationSettings {
            cooldown: context.handover_cooldown,
            max_per_cycle: context.handovers_per_cycle as usize,
            ..ReallocationSettings::default()
        },
        balance: context.balance,
        list_period: context.list_period,
        ..PointsSettings::default()
    };
    Points::new(settings, ranking(context)?).map_err(|error| match error {
        PointsError::Reconfig(ReconfigError::Bounds) => wrong("ping_window_min", &error),
        PointsError::Reconfig(_) => wrong("ping_factors", &error),
        _ => wrong("balance", &error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::Lease;

    #[test]
    fn mistakes_are_told_with_the_key() {
        let mut config = Config::default();
        let context = &mut config.context;
        context.ranking = RankingName::Expression;
        assert!(points(context).err().unwrap().to_string().contains("needs context.score"));
        context.score = Some("gateway.name".to_owned());
        assert!(points(context).err().unwrap().to_string().contains("context.score: the expression gives"));
        context.score = Some("gateway.capacity".to_owned());
        assert!(points(context).is_ok());
        context.ranking = RankingName::Resources;
        assert!(points(context).is_ok());
        context.weights.0 = vec!["cpu: 0".to_owned()];
        assert!(points(context).err().unwrap().to_string().contains("context.weights: a weight is negative"));
        context.weights.0.push("disk: 3".to_owned());
        assert!(points(context).err().unwrap().to_string().contains("context.weights: `disk: 3` is no weight"));
        context.ranking = RankingName::Connections;
        assert!(points(context).err().unwrap().to_string().contains("context.weights: `disk: 3` is no weight"));
        context.weights = Context::default().weights;
        context.score = Some("gateway.".to_owned());
        assert!(points(context).err().unwrap().to_string().contains("context.score: the expression cannot be read"));
        context.score = None;
        context.ping_window_min = std::time::Duration::from_secs(60);
        assert!(points(context).err().unwrap().to_string().contains("shortest ping window"));
        context.ping_factors.0 = vec!["50%: 2".to_owned(), "20%: 1".to_owned()];
        assert!(points(context).err().unwrap().to_string().contains("do not ascend"));
        context.ping_factors.0.push("fast".to_owned());
        assert!(points(context).err().unwrap().to_string().contains("context.ping_factors: `fast` is no ping rate"));
        context.groups.0.push("no-such-file.toml".into());
        assert!(definitions(context).unwrap_err().contains("no-such-file.toml"));
        context.bus = Some("http://127.0.0.1".to_owned());
        assert!(open(&config).unwrap_err().contains("context.bus"));
    }

    #[test]
    fn the_core_on_kafka_has_a_longer_lease_unless_it_is_told_one() {
        let mut config = Config::default();
        let lease = |config: &Config, bus: &str| settings(config, &bus.parse().unwrap()).lease.as_secs();
        assert_eq!((lease(&config, "kafka://h"), lease(&config, "nats://h"), lease(&config, "embedded")), (30, 10, 10));
        config.context.lease = Lease::For(std::time::Duration::from_secs(2));
        assert_eq!(lease(&config, "kafka://h"), 2);
    }

    #[test]
    fn each_definer_has_one_file() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/context/groups-city.toml");
        let mut context = Context::default();
        context.groups.0 = vec![file.into()];
        assert_eq!(definitions(&context).unwrap()[0].definer(), "city");
        context.groups.0.push(file.into());
        assert!(definitions(&context).unwrap_err().contains("two files have the definer `city`"));
    }
}
