//! Proves or refutes, from outside, that a broker keeps the messages that it has acknowledged. See
//! docs/durability-tests.md.
//!
//! - A run: `run` (cycles), `accounts` (their end), `world` (all clients), `workload`, `publisher`, `application`, `subscriber`, `mortal`, `session`,
//!   `wire`, `ledger` (the debts).
//! - Faults of a broker: `broker`, `member`, `fleet` and `ports` (processes), `power` (loss of power), `damage` (to files);
//!   `cluster` strikes nodes and their bus, `up` a manager and its fleet, `bridge` two brokers and the link between them.
//! - Measurements: `throughput` and `recovery`, with the fast clients of `bulk` and the costs of `process`.
//! - Results: `report`; `failure` is an error of the rig itself.

#![expect(clippy::cast_precision_loss, reason = "figures for people: counts stay far below 2^52")]

mod accounts;
mod application;
mod audience;
mod bridge;
mod broker;
mod bulk;
mod checks;
mod cluster;
mod damage;
mod failure;
mod fleet;
mod group_receipt;
mod ledger;
mod login;
mod member;
mod mortal;
mod peers;
mod ports;
mod power;
mod process;
mod publisher;
mod recovery;
mod report;
mod rng;
mod run;
mod session;
mod size;
mod subscriber;
mod throughput;
mod up;
mod wire;
mod workload;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use crate::bridge::BridgeArguments;
use crate::broker::Recipe;
use crate::cluster::ClusterArguments;
use crate::failure::Failure;
use crate::fleet::Fleet;
use crate::ledger::Findings;
use crate::login::Login;
use crate::ports::Ports;
use crate::recovery::Recovery;
use crate::run::{DiskFault, Fault, Settings};
use crate::throughput::{RawLimit, Throughput};
use crate::up::UpArguments;
use crate::world::Size;

/// Kills a broker over and over, and checks that nothing acknowledged was lost.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// Tortures a cluster, or measures something, instead.
    #[command(subcommand)]
    instead: Option<Instead>,
    /// The command that starts the broker in the foreground; {port}, {data} and {dir} (the parent of {data}) are filled
    /// in. Names with a configuration: mosquitto, mosquitto-each-second, mosquitto-each-change, nats, nats-as-shipped.
    #[arg(long, default_value = "tidegate --listen 127.0.0.1:{port} --admin off --data {data}")]
    broker: String,
    /// Starts this number of brokers for an orchestrator under test, on ports and in folders of their own; {fleet} in
    /// --broker is filled in with a `--broker NAME=mqtt://...` for each.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..100))]
    fleet: u16,
    /// The command that starts a broker of the fleet, as for --broker; of several each is taken in turn.
    #[arg(long, default_value = "tidegate --listen 127.0.0.1:{port} --admin off --data {data}")]
    fleet_broker: Vec<String>,
    /// How many times the broker is struck.
    #[arg(long, default_value_t = 20)]
    cycles: u64,
    /// Repeats a run's choices; random when absent.
    #[arg(long)]
    seed: Option<u64>,
    /// The fault of the broker.
    #[arg(long, value_enum, default_value = "kill9")]
    fault: FaultKind,
    /// How the disk misbehaves in every second cycle; may be given several times.
    #[arg(long, value_enum)]
    disk_fault: Vec<DiskFault>,
    /// Longest load of a cycle, in seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds_per_cycle: f64,
    /// Clients that publish.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..200))]
    publishers: u16,
    /// Clients that subscribe.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..200))]
    subscribers: u16,
    /// Clients that die with a will; two more subscribers watch for the wills.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..200))]
    mortals: u16,
    /// Subscribers that share a subscription; none with --only-v311.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(0..200))]
    members: u16,
    /// Members of that group whose sessions end with their connections; none in front of a fleet.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..200))]
    guests: u16,
    /// The user name and the password of all clients, NAME:PASSWORD.
    #[arg(long, value_parser = Login::parse)]
    user: Option<Login>,
    /// All clients speak MQTT 3.1.1, for a broker that knows no other version.
    #[arg(long)]
    only_v311: bool,
    /// Messages per second of all publishers.
    #[arg(long, default_value_t = 3000)]
    rate: u64,
    /// Seconds without news after which missing messages are lost.
    #[arg(long, default_value_t = 5.0)]
    patience: f64,
    /// Seconds that a start may take.
    #[arg(long, default_value_t = 30.0)]
    start_limit: f64,
    /// The folder for the broker's files; a temporary folder when absent, which is removed when nothing was found.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Writes the report as JSON to this file, `-` for standard output.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Says nothing per cycle.
    #[arg(long)]
    quiet: bool,
}

/// A command instead of torturing one broker.
#[derive(Debug, Subcommand)]
enum Instead {
    /// Strike the nodes and the bus of a cluster, and compare `/readyz` with the service of clients.
    Cluster(ClusterArguments),
    /// Kill the manager, the orchestrators and the brokers of a fleet that `tidegate up` has started.
    Up(UpArguments),
    /// Strike two brokers with a bridge between them, and the link that it takes.
    Bridge(BridgeArguments),
    /// Messages per second, processor time and latency at QoS 1 between persistent sessions.
    Throughput(Throughput),
    /// Time to start with many retained messages or sessions.
    Recovery(Recovery),
    /// The limit of the disk: batches appended to a file, each synced.
    RawLimit(RawLimit),
}

/// The least time in seconds without news after which missing messages in front of a fleet are lost.
const FLEET_PATIENCE: f64 = 20.0;

/// Ports of a run without a fleet: a node of a cluster needs four and one for each server of its bus, which needs two.
const PORTS: u16 = 60;

/// The fault of the broker at the end of each cycle.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FaultKind {
    /// kill -9.
    Kill9,
    /// Power loss, simulated: unsynced writes are dropped, in part or in whole.
    Power,
    /// SIGTERM.
    Term,
    /// kill -9 of a broker of the fleet, which returns after a moment, while the orchestrator runs.
    Broker,
    /// SIGSTOP of the broker, or of a member of the fleet, for up to four seconds, then SIGCONT.
    Freeze,
    /// kill -9 of the orchestrator and of a broker of the fleet.
    Both,
    /// One of these at random for each cycle; with a fleet, the faults of brokers.
    Mixed,
    /// Damage to a file between two runs; each cycle starts from the same data.
    Damage,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(login) = &arguments.user {
        login.clone().use_for_all();
    }
    let result = match &arguments.instead {
        None | Some(Instead::Cluster(_) | Instead::Up(_) | Instead::Bridge(_)) => torture(&arguments),
        Some(instead) => measure(&arguments, instead).map(|()| Findings::default()),
    };
    match result {
        Ok(findings) if findings.total() == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("tidegate-torture: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Prints the figures as one line of JSON.
fn measure(arguments: &Arguments, instead: &Instead) -> Result<(), Failure> {
    let mut place = Workspace::new(arguments)?;
    let recipe = Recipe {
        command: peers::command(&arguments.broker, &place.folder, place.port, &mut place.ports)?,
        port: place.port,
        data: place.data.clone(),
        environment: Vec::new(),
    };
    let figures = match instead {
        Instead::Throughput(wanted) => throughput::run(wanted, &recipe)?,
        Instead::Recovery(wanted) => recovery::run(wanted, &recipe)?,
        Instead::RawLimit(wanted) => throughput::raw_limit(wanted, &place.data)?,
        Instead::Cluster(_) | Instead::Up(_) | Instead::Bridge(_) => return Ok(()),
    };
    println!("{figures}");
    place.remove(arguments)
}

/// The folder of all files of a run.
struct Workspace {
    seed: u64,
    folder: PathBuf,
    data: PathBuf,
    /// That of the broker under test.
    port: u16,
    /// All others.
    ports: Ports,
}

impl Workspace {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let seed = arguments.seed.unwrap_or_else(random_seed);
        let folder = arguments
            .folder
            .clone()
            .unwrap_or_else(|| std::env::temp_dir().join(format!("tidegate-torture-{seed}-{}", std::process::id())));
        let data = folder.join("data");
        std::fs::create_dir_all(&data).map_err(Failure::file("creating", &data))?;
        if std::fs::read_dir(&data).map_err(Failure::file("reading", &data))?.next().is_some() {
            return Err(Failure::Used(data));
        }
        // A broker of a fleet may need two.
        let mut ports = Ports::take(seed, PORTS + 2 * arguments.fleet)?;
        let port = ports.next()?;
        Ok(Self { seed, folder, data, port, ports })
    }

    /// Removes the files that the user has not asked to keep.
    fn remove(&self, arguments: &Arguments) -> Result<(), Failure> {
        if arguments.folder.is_some() {
            return Ok(());
        }
        std::fs::remove_dir_all(&self.folder).map_err(Failure::file("removing", &self.folder))
    }
}

fn torture(arguments: &Arguments) -> Result<Findings, Failure> {
    let mut place = Workspace::new(arguments)?;
    let Workspace { seed, folder, port, ports, .. } = &mut place;
    let faults = faults(arguments)?;
    // Messages lost by a broker of a fleet are sent again after ten seconds, unless another time is configured.
    let patience = if arguments.fleet > 0 || arguments.instead.is_some() {
        arguments.patience.max(FLEET_PATIENCE)
    } else {
        arguments.patience
    };
    let settings = Settings {
        cycles: arguments.cycles,
        seed: *seed,
        faults,
        load: Duration::from_secs_f64(arguments.seconds_per_cycle.clamp(0.01, 3600.0)),
        size: Size {
            publishers: arguments.publishers,
            subscribers: arguments.subscribers,
            mortals: arguments.mortals,
            members: if arguments.only_v311 { 0 } else { arguments.members },
            guests: if arguments.fleet > 0 { 0 } else { arguments.guests },
            applications: u16::from(uses(arguments, "addresses.enabled=true")),
            has_node_groups: uses(arguments, "context.enabled=true"),
            rate: arguments.rate,
            with_v5: !arguments.only_v311,
        },
        patience: Duration::from_secs_f64(patience.clamp(0.1, 3600.0)),
        start_limit: Duration::from_secs_f64(arguments.start_limit.clamp(0.1, 3600.0)),
        folder: folder.clone(),
        disk_faults: arguments.disk_fault.clone(),
        verbose: !arguments.quiet,
    };
    let mut command = peers::command(&arguments.broker, folder, *port, ports)?;
    let fleet = Fleet::new(arguments.fleet, &arguments.fleet_broker, folder, *seed, ports)?;
    command = command.replace("{fleet}", &fleet.flags());
    eprintln!("seed {seed}, port {port}, files in {}", folder.display());
    let findings = match (&arguments.instead, arguments.fault) {
        (Some(Instead::Cluster(cluster)), _) => cluster::run(settings, cluster, ports)?,
        (Some(Instead::Up(up)), _) => up::run(settings, up, ports)?,
        (Some(Instead::Bridge(bridge)), _) => bridge::run(settings, bridge, ports)?,
        (_, FaultKind::Damage) => damage::run(&settings, &command, *port)?,
        (_, _) => run::run(settings, command, *port, fleet)?,
    };
    report::print(&findings);
    if let Some(path) = &arguments.json {
        report::write_json(&findings, *seed, path)?;
    }
    if findings.total() == 0 {
        place.remove(arguments)?;
    }
    Ok(findings)
}

/// Whether the command of the broker under test has a setting that only clients of MQTT 5 can try.
fn uses(arguments: &Arguments, setting: &str) -> bool {
    let command = match &arguments.instead {
        Some(Instead::Cluster(cluster)) => cluster.node_command(),
        Some(_) => "",
        None => &arguments.broker,
    };
    command.contains(setting) && !arguments.only_v311
}

/// The possible faults at the end of a cycle.
fn faults(arguments: &Arguments) -> Result<Vec<Fault>, Failure> {
    let with_fleet = arguments.fleet > 0;
    let faults = match arguments.fault {
        FaultKind::Kill9 | FaultKind::Damage => vec![Fault::Kill],
        FaultKind::Power => vec![Fault::Power],
        FaultKind::Term => vec![Fault::Terminate],
        FaultKind::Broker => vec![Fault::Member],
        FaultKind::Freeze if with_fleet => vec![Fault::Freeze, Fault::FreezeMember],
        FaultKind::Freeze => vec![Fault::Freeze],
        FaultKind::Both => vec![Fault::Both],
        FaultKind::Mixed if with_fleet => {
            vec![
                Fault::Kill,
                Fault::Power,
                Fault::Terminate,
                Fault::Freeze,
                Fault::Member,
                Fault::FreezeMember,
                Fault::Both,
            ]
        }
        FaultKind::Mixed => vec![Fault::Kill, Fault::Power, Fault::Terminate, Fault::Freeze],
    };
    if !with_fleet && faults.iter().any(|fault| fault.is_for_a_fleet()) {
        return Err(Failure::Broker("--fault broker and both need --fleet N".to_owned()));
    }
    Ok(faults)
}

fn random_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64 ^ u64::from(std::process::id())) % 1_000_000_000
}
