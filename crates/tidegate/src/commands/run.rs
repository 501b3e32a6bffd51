//! `tidegate` and `tidegate run`: the broker, from its start to its end.

#[cfg_attr(not(feature = "coap"), path = "run/coap_absent.rs")]
mod coap;
#[cfg_attr(not(feature = "http"), path = "run/http_absent.rs")]
mod http;
mod memory;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tidegate_auth::FleetAsker;
use tidegate_node::{AccessFactory, Brokers, LocalAddress, Node, NodeSettings, release_program_pages};

use crate::cluster::{self, ClusterNode, Joining, NotJoined};
use crate::durable::Kept;
use crate::mirror::{Closing, Mirrored};
use crate::observer::BrokerObserver;
use tidegate_administration::console::{self, Admin};
use tidegate_administration::control::answer_others;
use tidegate_administration::metering::Metering;
use tidegate_administration::{BrokerStatus, LoginsPart, StorePart};
use tidegate_config::Config;
use tidegate_config::finding::Findings;
use tidegate_config::hub::{FilesOf, check_files};
use tidegate_config::orchestrator::RELAY_LISTENER;
use tidegate_config::reload::Reloadable;
use tidegate_config::tls_settings;
use tidegate_config_cli::args::ConfigArgs;
use tidegate_connectors::bridges::Bridges;
use tidegate_connectors::hub::{Door, Pipelines};
use tidegate_identity::access::{self, Names, Tenancy};
use tidegate_identity::authentication::{self, Authentication, Visitors};
use tidegate_identity::tenant_numbers::Agree;
use tidegate_logging::Log;
use tidegate_placement::Follower;
use tidegate_process::signals::{Asked, BrokerSignals};
use tidegate_process::{StartError, service_manager};
use tidegate_reload::{
    AccessRules, AdminToken, AdmissionRules, BrokerOperations, LimitKeys, LogLevels, Reloader, TenantSections, TlsFiles,
};
use tidegate_terminal::{Exit, complain, report};

use coap::CoapListeners;
use http::{HttpListeners, ToNode};

/// How long goodbyes may take of a broker whose place another has taken: it has nothing else to say, and its clients
/// are served elsewhere.
const GOODBYES: Duration = Duration::from_secs(1);

/// How long a signal may wait while the store is opened.
const STOP_IS_SEEN_WITHIN: Duration = Duration::from_millis(100);

/// Runs the broker until it gets a signal to stop.
pub(crate) fn run(sources: &ConfigArgs) -> Exit {
    let config = match tidegate_config_cli::load(sources) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let log = match Log::of_command(config.log.level, config.log.format) {
        Ok(log) => log,
        Err(exit) => return exit,
    };
    let outcome = serve(sources, &config, &log);
    log.flush();
    outcome.unwrap_or_else(|error| {
        match error.downcast_ref::<Findings>() {
            Some(findings) => complain(findings),
            None => report(&error),
        }
        Exit::Failure
    })
}

/// From the first open socket to the last closed one. A failure at the start is an error in words for people; later
/// ones are logged.
fn serve(sources: &ConfigArgs, config: &Config, log: &Log) -> Result<Exit, StartError> {
    // Before anything is there to be stopped, so that no signal finds it half done.
    let mut signals = BrokerSignals::catch().map_err(|error| format!("cannot catch signals: {error}"))?;
    let status = Arc::new(BrokerStatus::starting());
    let operations = Arc::new(BrokerOperations::default());
    let console = console::start(config, &status, Some(Arc::clone(&operations) as _))?;
    let rules = access::load(config)?;
    // It waits for the bus where the store may be, too.
    let joining = match cluster::join(config, &status, &mut signals) {
        Ok(joining) => joining,
        Err(NotJoined::Stopped) => return Ok(Exit::Ok),
        Err(NotJoined::Failed(error)) => return Err(error.into()),
    };
    let Some(Kept { store, mirrored }) = open_store(config, &status, &mut signals)? else { return Ok(Exit::Ok) };
    // A reload compares with the written configuration; everything else needs the numbers that tenants have.
    let written = config;
    let agree = joining.as_ref().map(Joining::tenant_agreement);
    let (config, door) = &settle(written, mirrored.as_ref(), agree.as_deref())?;
    let brokers = Brokers::default();
    let asker = tidegate_identity::authentication::asker(&config.orchestrator.name, brokers.clone());
    let access = rules.clone().map(|rules| access::factory(rules, Names::of(config)));
    let tenancy = Tenancy::of(config).agreeing(agree).kept_by(mirrored.as_ref().map(Mirrored::disk));
    let authentication = start_authentication(config, &tenancy, asker, &status)?;
    status.set_tenancy(tenancy.clone());
    let entrances = (authentication.clone(), door.clone(), Visitors::default());
    let mut settings = node_settings(config, &tenancy, access, entrances.clone(), brokers);
    place_node(&mut settings, joining.as_ref());
    let mut node = start_node(config, settings, store, &status)?;
    register_store(&node, mirrored.as_ref(), &status);
    if config.orchestrator.enabled {
        status.parts().register_orchestrator(config.clone());
    }
    let admin = console.as_ref().map(|admin| admin.address.to_string());
    let cluster = joining
        .map(|joining| joining.begin(config, &node, admin, mirrored.as_ref().map(|it| it.for_cluster(config))))
        .transpose()?;
    let placement = cluster.as_ref().map(|cluster| cluster::register(cluster, &status)).unwrap_or_default();
    let (has_rules, serving) = (rules.is_some(), tenancy.clone());
    let mut parts = reloadable(config, log, &node, &tenancy, authentication, rules, console.as_ref());
    parts.extend(cluster.as_ref().map(ClusterNode::sections));
    #[cfg(feature = "mobile")]
    let core = tidegate_gateway::core::start(config, &node, &status)?;
    let gateway = ToNode::new(config, &node, &serving, (entrances.2, cluster.is_some()));
    let beside = (HttpListeners::start(config, &gateway, &status)?, CoapListeners::start(config, gateway, &status)?);
    let pipelines = Pipelines::start(config, &node, door.as_ref(), placement.clone(), &status)?;
    operations.ready(Reloader::new(sources.sources(), written, tenancy, parts));
    let metering = start_metering(config, serving, &mut node, pipelines.sink_deliveries(), &status)?;
    status.ready();
    if cfg!(feature = "admin") {
        answer_others(&status, &(Arc::clone(&operations) as _), &node.handle())?;
    }
    let placed = Arc::new((Bridges::start(config, &node, placement, &status)?, pipelines));
    tell_of_doors(config, has_rules);
    let mut follower = Follower::default();
    if cluster.as_ref().is_none_or(|cluster| cluster.wait_until_ready(&mut signals)) {
        follower = follow(&placed)?;
        tell_ready(&node, config, console.as_ref(), &urls(&beside, config));
    }
    let end = wait_for_the_end(&mut signals, &operations, mirrored.as_ref(), cluster.as_ref());
    status.stopping();
    follower.stop();
    stop_services(beside, &placed, config.shutdown.grace);
    #[cfg(feature = "mobile")]
    drop(core);
    leave(cluster.as_ref(), config, end);
    let exit = stop(node, metering, console, mirrored, config, end)?;
    if end == End::Astray { Err(astray(cluster.as_ref()).into()) } else { Ok(exit) }
}

/// Sets the node's links in the cluster, and where clients are served before there is a table.
fn place_node(settings: &mut NodeSettings, joining: Option<&Joining>) {
    if let Some(joining) = joining {
        settings.cluster = Some(joining.settings());
        settings.homes = Some(joining.homes_at_start());
    }
}

/// Ends the membership in the cluster.
fn leave(cluster: Option<&ClusterNode>, config: &Config, end: End) {
    match cluster {
        // No node takes partitions from a node that cannot keep them.
        Some(cluster) if end != End::Asked => cluster.end(),
        Some(cluster) => cluster.leave(config.cluster.leave_timeout),
        None => {}
    }
}

/// Opens the books of usage.
fn start_metering(
    config: &Config,
    tenancy: Tenancy,
    node: &mut Node,
    sink_deliveries: impl Fn() -> BTreeMap<String, u64> + Send + Sync + 'static,
    status: &BrokerStatus,
) -> Result<Metering, StartError> {
    let metering = Metering::start(config, tenancy, (node.handle(), node.take_left_usage()), sink_deliveries)?;
    status.set_meter(metering.meter());
    Ok(metering)
}

/// Stops the services beside the node that are its clients.
fn stop_services((http, coap): (HttpListeners, CoapListeners), placed: &(Bridges, Pipelines), grace: Duration) {
    http.stop(grace);
    coap.stop(grace);
    placed.0.stop(grace);
    placed.1.stop(grace);
}

/// Has bridges and pipelines run where their partitions are. A broker without any that may move gets no thread, since
/// a process that does nothing shall not wake up.
fn follow(placed: &Arc<(Bridges, Pipelines)>) -> Result<Follower, StartError> {
    if !placed.0.may_move() && !placed.1.may_move() {
        return Ok(Follower::default());
    }
    let placed = Arc::clone(placed);
    let look = move || {
        placed.0.follow();
        placed.1.follow();
    };
    look();
    Ok(Follower::begin(look)?)
}

/// The chain of providers, if the configuration needs one.
fn start_authentication(
    config: &Config,
    tenancy: &Tenancy,
    asker: FleetAsker,
    status: &BrokerStatus,
) -> Result<Option<Arc<Authentication>>, StartError> {
    let started = config.needs_authentication().then(|| Authentication::start(config, tenancy.clone(), asker));
    let started = started.transpose()?.map(Arc::new);
    if let Some(authentication) = &started {
        status.parts().register(Arc::new(LoginsPart(Arc::clone(authentication))));
    }
    Ok(started)
}

/// The last words of a node that did not serve its partitions.
fn astray(cluster: Option<&ClusterNode>) -> String {
    cluster.and_then(ClusterNode::astray).unwrap_or_default().to_owned()
}

/// Why a broker ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// An operator has asked for it.
    Asked,
    /// Nothing can be kept any more: mostly another process has its files.
    Lost,
    /// The node of a cluster does not serve its partitions, or has other numbers of tenants than the others.
    Astray,
}

/// Waits until the broker is to stop, and has it read its configuration again meanwhile. Says why it stops.
fn wait_for_the_end(
    signals: &mut BrokerSignals,
    operations: &BrokerOperations,
    mirrored: Option<&Mirrored>,
    cluster: Option<&ClusterNode>,
) -> End {
    let signal = loop {
        match signals.wait() {
            Asked::Stop(signal) => break signal,
            Asked::Reload => operations.reload_and_log(),
        }
    };
    if mirrored.is_some_and(Mirrored::is_lost) {
        tracing::info!("stopping: the store can keep nothing more");
        End::Lost
    } else if cluster.and_then(ClusterNode::astray).is_some() {
        tracing::info!("stopping: the node cannot work in its cluster");
        End::Astray
    } else {
        tracing::info!(signal, "stopping");
        End::Asked
    }
}

/// Opens the store; `None` when a signal stops the broker before that is done. A store on a bus that is away takes half
/// a minute to fail, and a large one its time to be read. A start given up in the middle leaves the same state as a crash.
fn open_store(
    config: &Config,
    status: &Arc<BrokerStatus>,
    signals: &mut BrokerSignals,
) -> Result<Option<Kept>, StartError> {
    let (tell, told) = mpsc::sync_channel(1);
    let (config, status) = (config.clone(), Arc::clone(status));
    let opening = move || drop(tell.send(crate::durable::open_store(&config, &status)));
    let begun = thread::Builder::new().name("store-opening".to_owned()).spawn(opening);
    begun.map_err(|error| format!("cannot start the thread that opens the store: {error}"))?;
    loop {
        match told.recv_timeout(STOP_IS_SEEN_WITHIN) {
            Ok(outcome) => return Ok(Some(outcome?)),
            Err(RecvTimeoutError::Timeout) if signals.stop_is_asked() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("the store could not be opened".into()),
        }
    }
}

/// Starts the node, with the content of its store and the brokers of its fleet.
fn start_node(
    config: &Config,
    settings: NodeSettings,
    store: Option<tidegate_store::Store>,
    status: &BrokerStatus,
) -> Result<Node, StartError> {
    if tls_settings::needs_development_certificate(&config.listeners) {
        tidegate_certificates::development::prepare()?;
    }
    memory::tell(config);
    let node = match store {
        Some(store) => Node::start_with_store(settings, store),
        None => Node::start(settings),
    };
    let node = match node {
        // A file with a fault is shown with the line that names it.
        Err(error @ tidegate_node::StartError::Tls(_)) => {
            tidegate_config::tls_files::check(&config.listeners, &config.origins)?;
            return Err(error.into());
        }
        node => node?,
    };
    status.set_node(node.handle());
    crate::durable::tell_restored(&node);
    tidegate_config::orchestrator::add_brokers(&node.handle(), config)?;
    Ok(node)
}

/// Registers the store as a part of the status, if there is one.
fn register_store(node: &Node, mirrored: Option<&Mirrored>, status: &BrokerStatus) {
    let Some(store) = node.store_status() else { return };
    let mirror = mirrored.map(Mirrored::disk);
    let waits_for_bus = move || mirror.as_ref().is_some_and(|mirror| mirror.waits_for_bus());
    status.parts().register(Arc::new(StorePart::new(store, waits_for_bus)));
}

/// The configuration as it is used: with numbers for tenants, a name for an orchestrator, a listener for clients that
/// others relay, and one for pipelines.
fn settle(
    written: &Config,
    mirrored: Option<&Mirrored>,
    agree: Option<&Agree>,
) -> Result<(Config, Option<Door>), StartError> {
    let mirror = mirrored.map(Mirrored::disk);
    check_files(written, FilesOf::Broker)?;
    let config = tidegate_identity::tenant_numbers::settle(written, agree, mirror.as_deref())?;
    let config = tidegate_config::orchestrator::with_name(&config)?;
    let (config, door) = tidegate_connectors::hub::with_door(config)?;
    // A node tells others the address of its last listener.
    Ok((tidegate_config::cluster::with_relay(config)?, door))
}

/// Closes everything.
fn stop(
    node: Node,
    metering: Metering,
    console: Option<Admin>,
    mirrored: Option<Mirrored>,
    config: &Config,
    end: End,
) -> Result<Exit, StartError> {
    // The files may have been lost since it was said why the broker ends.
    let leaves_wills = end != End::Asked || mirrored.as_ref().is_some_and(Mirrored::is_lost);
    let grace = if leaves_wills { config.shutdown.grace.min(GOODBYES) } else { config.shutdown.grace };
    let closing = mirrored.map(|mirrored| mirrored.stop_within(grace)).transpose()?;
    let stopped = if leaves_wills { node.stop_replaced(grace) } else { node.stop(grace) };
    metering.finish(&stopped.usage, &stopped.users);
    // From here on a successor may read the directory.
    drop(stopped.store);
    if let Some(console) = console {
        console.running.stop();
    }
    if !stopped.drained && !leaves_wills {
        tracing::warn!("not all output was written within the stop timeout; the rest is lost");
    }
    tracing::info!("stopped");
    if let Some(lost) = closing.and_then(Closing::end) {
        return Err(crate::mirror::farewell(config, &lost).into());
    }
    Ok(if stopped.failed.is_empty() { Exit::Ok } else { Exit::Failure })
}

/// The parts that take a new configuration while the broker runs. Parts that may refuse it come before parts that
/// cannot.
fn reloadable(
    config: &Config,
    log: &Log,
    node: &Node,
    tenancy: &Tenancy,
    authentication: Option<Arc<Authentication>>,
    rules: Option<Arc<tidegate_acl::Rules>>,
    console: Option<&Admin>,
) -> Vec<Box<dyn Reloadable>> {
    let mut parts: Vec<Box<dyn Reloadable>> = vec![
        Box::new(TlsFiles::new(node.handle())),
        // Before tenants, so that no client of a new one is asked about by rules that do not know its name.
        Box::new(AccessRules::new(node.handle(), Names::of(config), rules)),
        Box::new(TenantSections::new(tenancy.clone())),
        Box::new(AdmissionRules::new(node.handle())),
        Box::new(LimitKeys::new(node.handle())),
        Box::new(LogLevels::new(log.clone())),
    ];
    if let Some(authentication) = authentication {
        parts.push(Box::new(authentication::Providers::new(authentication, node.handle())));
    }
    let token = console.and_then(|admin| AdminToken::of(&admin.access));
    parts.extend(token.map(|token| Box::new(token) as Box<dyn Reloadable>));
    parts
}

/// Logs the open and the closed doors.
fn tell_of_doors(config: &Config, has_rules: bool) {
    warn_of_open_listeners(config);
    tell_of_guarded_addresses(config, has_rules);
}

/// A listener that is open by an explicit setting is still worth a line in the log.
fn warn_of_open_listeners(config: &Config) {
    let open = config.listeners.iter().filter(|listener| !listener.address.is_local() && !config.asks_who(listener));
    for listener in open {
        let (name, address) = (&listener.name, &listener.address);
        tracing::warn!(listener = %name, %address, "this listener accepts clients without a password");
    }
}

/// A publisher of MQTT 3 gets no refusal of its message to a group, so the log warns at the start.
fn tell_of_guarded_addresses(config: &Config, has_rules: bool) {
    if config.addresses.enabled && config.addresses.guarded && !has_rules {
        tracing::info!(
            "no client may publish to groups of nodes or to all nodes: add access rules that allow it, or set addresses.guarded = false"
        );
    }
}

fn node_settings(
    config: &Config,
    tenancy: &Tenancy,
    access: Option<AccessFactory>,
    (authentication, door, visitors): (Option<Arc<Authentication>>, Option<Door>, Visitors),
    brokers: Brokers,
) -> NodeSettings {
    let shards = config.node.shards();
    let mut engine = config.engine_settings(shards);
    engine.tenants = Some(Arc::new(tenancy.clone()));
    engine.tenant_ledger = Some(Arc::clone(tenancy.counts()) as _);
    let mut settings = NodeSettings {
        shards,
        listeners: config.listeners.iter().map(|listener| listener.address.clone()).collect(),
        tls: tls_settings::of_listeners(&config.listeners),
        proxies: tls_settings::proxies(&config.listeners),
        owner_only: tls_settings::owner_only(&config.listeners),
        allowed_origins: tls_settings::allowed_origins(&config.listeners),
        tls_check: config.node.certificate_check,
        engine,
        access,
        presets: Some(access::presets(tenancy.clone())),
        max_connections: config.limits.max_connections,
        memory_ceiling: config.limits.ceiling(),
        homes: None,
        admission: config.admission_settings(),
        flight: config.flight.settings(),
        seed: None,
        identities: None,
        brokers,
        cluster: None,
        observer: Arc::new(BrokerObserver::new(authentication.clone(), None, door.clone(), visitors.clone())),
    };
    if let Some(identities) = config.identities(&settings) {
        settings.identities = Some(identities.inner_nodes());
        settings.observer = Arc::new(BrokerObserver::new(authentication, Some(identities), door, visitors));
    }
    settings
}

/// The addresses of listeners without MQTT.
fn urls((http, coap): &(HttpListeners, CoapListeners), config: &Config) -> Vec<String> {
    http.urls(config).into_iter().chain(coap.urls(config)).collect()
}

fn tell_ready(node: &Node, config: &Config, console: Option<&Admin>, urls: &[String]) {
    service_manager::tell_ready("broker", &ready_line(node, config, console, urls));
    release_program_pages();
}

/// The one line on standard output: scripts wait for it, and read the addresses from it.
fn ready_line(node: &Node, config: &Config, console: Option<&Admin>, urls: &[String]) -> String {
    let mut line = format!("tidegate {} ready:", env!("CARGO_PKG_VERSION"));
    // Only other orchestrators or nodes connect to the relay.
    let relay = config.listeners.iter().position(|listener| listener.name == RELAY_LISTENER);
    let relay = relay.and_then(|at| node.socket_of(|listener| usize::from(listener.0) == at)).map(LocalAddress::Tcp);
    for address in node.local_addresses() {
        let is_tcp = matches!(address, LocalAddress::Tcp(_));
        let before = if relay.as_ref() == Some(address) { "relay=" } else { ["", "mqtt://"][usize::from(is_tcp)] };
        let _ = write!(line, " {before}{address}");
    }
    for url in urls {
        let _ = write!(line, " {url}");
    }
    if let Some(admin) = console {
        let _ = write!(line, " admin=http://{}", admin.address);
    }
    line.push('\n');
    line
}
