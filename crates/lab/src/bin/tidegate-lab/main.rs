//! `tidegate-lab`: measures any message broker from outside. `tidegate lab` starts it.

mod compare;
mod criteria;
mod draw;
mod flag_error;
mod gateways;
mod link;
mod list;
mod peers;
mod probe;
mod report;
mod results_error;
mod run;
mod serve;
mod size;
mod soak;
mod sweep;
mod watch;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tidegate_lab::peer::{PeerPaths, Watchdog};
use tidegate_lab::stop::Stop;
use tidegate_terminal::help::flowing;
use tidegate_terminal::{Exit, report as tell};

const RUN: &str = "\
Examples:
  tidegate lab run smoke --peer tidegate --peer mosquitto --out smoke
  tidegate lab run pi-ladder --peer tidegate --peer mosquitto --out pi --time-scale 0.1
  tidegate lab run lavva-2 --peer tidegate --only '1000 devices' --repeat 5 --out lavva
  tidegate lab run all --cases 1 --peer tidegate --out all --time-scale 0.02
  tidegate lab run smoke --peer edge=mqtt://192.0.2.1:1883 --out edge

DIR gets report.html, results.json and results.csv. An interrupted series continues when the
same command is given again. Exit codes: 0 all runs were made, 1 some were not, 2 the command line is
wrong. More: docs/lab.md.";

const PEERS: &str = "\
Examples:
  tidegate lab peers                    which there are, and whether they are installed
  tidegate lab peers install mosquitto";

const SWEEP: &str = "\
Examples:
  tidegate lab sweep suite-point-to-point --only 'QoS 1' --peer tidegate --peer mosquitto --out knee
  tidegate lab sweep middleware-latency --only 'QoS 0' --peer tidegate --p99 5ms --repeat 3 --out knee

The rate is doubled as long as the level holds, then halved in between, until what broke is within --within
of the highest that held. With --repeat 3, two of three runs decide about a rate, and the line says where they disagree.
A line for each broker says what held and what did not, and why; where the generator reached its own limit
first, it says that.";

const SIZE: &str = "\
Examples:
  tidegate lab size --devices 1000 --rate 1 --slo p99=50ms,delivered=100 --out size
  tidegate lab size --devices 500 --millicores 100,200,400 --memory 32,64 --brokers 1 --out size

Brokers with limits for CPU time and memory are tried until no cheaper one can hold. A size with less of
everything than one that did not hold is not tried, nor one that costs more than one that did. Limits need control groups. Exit codes:
0 a size was found, 1 none holds or a run was not made, 2 the command line is wrong.";

const SOAK: &str = "\
Examples:
  tidegate lab soak suite-point-to-point --only '1000 in a second, QoS 1' --peer tidegate --for 8h --out night

One run of each case that is chosen, with each broker. Memory, open files, threads, CPU, latency and throughput
are looked at for trends that noise does not explain. Exit codes: 0 nothing got worse, 1 something did, or a run
was not made, 2 the command line is wrong.";

const COMPARE: &str = "\
Examples:
  tidegate lab compare before now     has anything got worse? Exit code 1 when it has
  tidegate lab compare run            do the brokers of one series differ?

Each case, broker and measure is compared by the exact test of Mann and Whitney on the repetitions; four on
each side are the least that can show anything.";

const CRITERIA: &str = "\
Examples:
  tidegate lab criteria                                     how each criterion is answered
  tidegate lab criteria mosquitto=mqtt://127.0.0.1:1883     the results of a probe
  tidegate lab run middleware-criteria --peer tidegate --peer mosquitto --out criteria     as a report";

const DRAW: &str = r#"
Example:
  tidegate lab draw charts.json

  [{"file": "growth.svg", "title": "Growth", "x": "seconds", "y": "brokers",
    "steps": [{"name": "allocated", "points": [[0, 1], [60, 3]]}]},
   {"file": "time.svg", "title": "Time", "x": "brokers", "y": "seconds",
    "bars": {"series": ["1", "2"], "groups": [["mosquitto", [128, 66]], ["rabbitmq", [140, null]]]}}]

`lines` in place of `steps` connects the points; `stacked` in place of `bars` puts values on each other."#;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate-lab",
    bin_name = "tidegate lab",
    version,
    about = "Measure any message broker from outside: load, sampling, reports"
)]
struct Cli {
    #[command(subcommand)]
    command: LabCommand,
}

/// The commands of the lab.
#[derive(Debug, Subcommand)]
enum LabCommand {
    /// List the scenarios
    List(list::Args),
    /// Run a scenario against brokers and write a report
    #[command(after_help = RUN)]
    Run(Box<run::Args>),
    /// Find out which features and limits of MQTT a broker really has
    #[command(after_help = "Example:\n  tidegate lab probe mqtt://192.0.2.1:1883 --json")]
    Probe(probe::Args),
    /// Probe brokers by the criteria of a survey of middleware
    #[command(after_help = CRITERIA)]
    Criteria(criteria::Args),
    /// Make the report of results again
    Report(report::Args),
    /// Draw charts of figures from elsewhere
    #[command(after_help = DRAW)]
    Draw(draw::Args),
    /// Raise the load until a service level breaks
    #[command(after_help = SWEEP)]
    Sweep(Box<sweep::SweepArgs>),
    /// Find the cheapest configuration that keeps a service level
    #[command(after_help = SIZE)]
    Size(Box<size::SizeArgs>),
    /// Keep a load up for hours, and report drifts
    #[command(after_help = SOAK)]
    Soak(Box<soak::SoakArgs>),
    /// Tell whether runs differ, by a statistical test
    #[command(after_help = COMPARE)]
    Compare(compare::Args),
    /// Run several gateways and their bus as one process
    #[command(hide = true)]
    Gateways(gateways::Args),
    /// List or install brokers to compare with
    #[command(after_help = PEERS)]
    Peers(peers::Args),
    /// Let runs be browsed
    #[command(after_help = "Example:\n  tidegate lab serve results")]
    Serve(serve::Args),
    /// Hold the network of a broker that the standard input names
    #[command(hide = true)]
    Link,
    /// End the brokers of a lab that was killed
    #[command(hide = true)]
    Watch(watch::Args),
    /// A worker of the load generator, with orders on the standard input
    #[command(hide = true)]
    Work,
}

/// Further directories of scenarios and templates of brokers, in addition to the shipped ones.
#[derive(Clone, Debug, Args)]
struct Folders {
    /// A directory with scenarios (*.toml), in addition to the shipped ones
    #[arg(long, value_name = "DIR")]
    scenarios: Option<PathBuf>,

    /// A directory with templates of brokers (*.toml), in addition to the shipped ones
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
}

fn main() -> ExitCode {
    let matches = flowing(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    run(&cli.command).into()
}

/// Runs the command of the command line.
fn run(command: &LabCommand) -> Exit {
    match command {
        LabCommand::Link => link::run(),
        LabCommand::List(args) => list::run(args),
        LabCommand::Run(args) => run::run(args),
        LabCommand::Probe(args) => probe::run(args),
        LabCommand::Criteria(args) => criteria::run(args),
        LabCommand::Report(args) => report::run(args),
        LabCommand::Draw(args) => draw::run(args),
        LabCommand::Sweep(args) => sweep::run(args),
        LabCommand::Size(args) => size::run(args),
        LabCommand::Compare(args) => compare::run(args),
        LabCommand::Gateways(args) => gateways::run(args),
        LabCommand::Peers(args) => peers::run(args),
        LabCommand::Soak(args) => soak::run(args),
        LabCommand::Serve(args) => serve::run(args),
        LabCommand::Watch(args) => watch::run(args),
        LabCommand::Work => work::run(),
    }
}

/// Prepares the end of brokers before they are started: a handler of signals, and a watchdog that ends them if this
/// process is killed.
fn guarded(place: &PeerPaths) -> Result<(Stop, Watchdog), Exit> {
    let failed = |attempt: &str, error: std::io::Error| {
        tell(&format_args!("cannot {attempt}: {error}"));
        Exit::Failure
    };
    let watchdog = Watchdog::start(place).map_err(|error| failed("start a process to watch over brokers", error))?;
    let stop = stop_on_signals().map_err(|error| failed("catch signals", error))?;
    Ok((stop, watchdog))
}

/// Asks to stop at SIGINT and SIGTERM. The started processes are then stopped in order; a second signal changes
/// nothing.
fn stop_on_signals() -> std::io::Result<Stop> {
    let stop = Stop::default();
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let asked = stop.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            asked.ask();
        }
    })?;
    Ok(stop)
}
