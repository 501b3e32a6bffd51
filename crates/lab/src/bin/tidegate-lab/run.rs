//! `tidegate lab run`: a scenario against brokers.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use tidegate_lab::peer::{Catalogue, Peer, PeerError, PeerPaths, Ports};
use tidegate_lab::run::{Live, Order, RunError, run as run_series};
use tidegate_lab::scenario::{BOARDS, Board, Library, Scenario, ScenarioError};

use super::flag_error::FlagError;
use tidegate_units::duration::read_flag;

use super::{Folders, guarded, report};
use tidegate_terminal::{Exit, complain, report as tell};

/// The flags of `tidegate lab run`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// Its name (`tidegate lab list`), or the path of its file; several get a directory each, and `all` names all that
    /// are shipped
    #[arg(required = true)]
    scenario: Vec<String>,

    /// A broker: a name (`tidegate lab peers`), NAME:ADDRESS as in rabbitmq:amqp, NAME=mqtt://HOST:PORT, or that
    /// with #PID to sample a process; repeatable
    #[arg(long = "peer", value_name = "PEER", required = true)]
    peer: Vec<String>,

    /// Directory of results; runs with results there are not repeated
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Multiply all times of phases; rates of messages stay
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    time_scale: f64,

    /// The measured time of each run, such as 5m, in place of the scenario's and of --time-scale
    #[arg(long, value_name = "TIME", value_parser = read_flag)]
    window: Option<Duration>,

    /// Runs of each case with each broker
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// Only cases with this in their name
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Limit brokers to the resources of a small board: raspberry-pi-2, raspberry-pi-3 or raspberry-pi-zero
    #[arg(long, value_name = "BOARD", value_parser = board)]
    board: Option<Board>,

    /// The broker that the report's ratios are against [default: tidegate, or the first by name]
    #[arg(long, value_name = "PEER")]
    base: Option<String>,

    /// Only the first cases of each scenario, up to this number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cases: Option<u32>,

    /// The seed of all chance: the order of runs, and the load [default: the time]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Processes of the load generator at least; more than 19,900 clients always take more
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    processes: u32,

    /// An address that clients connect from; repeatable, and taken in turn: each has about 28,000 ports
    #[arg(long = "source", value_name = "IP")]
    sources: Vec<IpAddr>,

    /// Ports that brokers may get
    #[arg(long, value_name = "FROM-TO", default_value = "21000-29999", value_parser = ports)]
    ports: RangeInclusive<u16>,

    #[command(flatten)]
    folders: Folders,
}

fn factor(text: &str) -> Result<f64, FlagError> {
    let factor: f64 = text.parse().map_err(|_| FlagError::Number)?;
    if (0.001..=100.0).contains(&factor) { Ok(factor) } else { Err(FlagError::TimeScale) }
}

/// The scenario with so much measured time, whatever times of phases are multiplied by.
fn with_window(mut scenario: Scenario, window: Duration, time_scale: f64) -> Scenario {
    if scenario.check.is_none() {
        let wanted = window.div_f64(time_scale).as_millis();
        let wanted = toml::Value::Integer(i64::try_from(wanted).unwrap_or(i64::MAX));
        scenario.load.insert("duration_ms".to_owned(), wanted);
    }
    scenario
}

fn board(name: &str) -> Result<Board, FlagError> {
    Board::named(name).ok_or_else(|| FlagError::Board(BOARDS.map(|board| board.name).join(", ")))
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, FlagError> {
    let ends = text.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    match ends {
        Some((from, to)) if from <= to && from > 0 => Ok(from..=to),
        _ => Err(FlagError::Ports),
    }
}

/// The reason why nothing is run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Wrong {
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error("this command takes one scenario")]
    Several,
    #[error("the base `{base}` is not a peer: name one of {}", peers.join(", "))]
    Base { base: String, peers: Vec<String> },
    #[error("two peers are called `{0}`: give one of them another name, as in NAME=mqtt://HOST:PORT")]
    Twice(String),
}

pub(crate) fn run(args: &Args) -> Exit {
    let orders = match orders(args) {
        Ok(orders) => orders,
        Err(wrong) => {
            tell(&wrong);
            return Exit::Usage;
        }
    };
    let Some(first) = orders.first() else { return Exit::Ok };
    let (stop, _watchdog) = match guarded(&first.place) {
        Ok(guarded) => guarded,
        Err(exit) => return exit,
    };
    let (mut missing, mut made) = (0, Vec::new());
    for order in &orders {
        let results = match run_series(order, &mut Live::default(), &stop) {
            Ok(results) => results,
            Err(error) => {
                tell(&error);
                let wrong = matches!(error, RunError::NoCase { .. } | RunError::Scenario(_));
                return if wrong { Exit::Usage } else { Exit::Failure };
            }
        };
        if let Err(error) = report::write(&order.out, &results, true) {
            tell(&error);
            return Exit::Failure;
        }
        missing += results.not_measured.len();
        made.push(results);
    }
    if orders.len() > 1
        && let Err(error) = report::write_overview(&args.out, &made)
    {
        tell(&error);
        return Exit::Failure;
    }
    complain(format_args!("{}\n", args.out.join("report.html").display()));
    if missing == 0 {
        return Exit::Ok;
    }
    tell(&format_args!("runs that were not made: {missing}; the same command makes them, the report says why"));
    Exit::Failure
}

/// The order of a command that takes one scenario.
pub(crate) fn order(args: &Args) -> Result<Order, Wrong> {
    let mut orders = orders(args)?;
    match (orders.pop(), orders.is_empty()) {
        (Some(order), true) => Ok(order),
        _ => Err(Wrong::Several),
    }
}

/// An order for each scenario: with one, its results go to the directory itself; with several, to one of its own in
/// there.
fn orders(args: &Args) -> Result<Vec<Order>, Wrong> {
    let catalogue = Catalogue::with_directory(args.folders.peers.as_deref())?;
    let library = Library::with_directory(args.folders.scenarios.as_deref())?;
    let peers: Result<Vec<Peer>, PeerError> = args.peer.iter().map(|text| Peer::read(text, &catalogue)).collect();
    let peers = peers?;
    let own = peers.iter().find_map(|peer| match peer {
        Peer::Template { template, .. } => template.slow_build(),
        Peer::Address { .. } => None,
    });
    if let Some(warning) = own {
        complain(format_args!("warning: {warning}\n"));
    }
    let named_before = |(place, peer): (usize, &Peer)| peers[..place].iter().any(|other| other.name() == peer.name());
    if let Some((_, peer)) = peers.iter().enumerate().find(|(place, peer)| named_before((*place, peer))) {
        return Err(Wrong::Twice(peer.name().to_owned()));
    }
    if let Some(base) = args.base.as_ref().filter(|base| peers.iter().all(|peer| peer.name() != **base)) {
        let peers = peers.iter().map(|peer| peer.name().to_owned()).collect();
        return Err(Wrong::Base { base: base.clone(), peers });
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let scenarios = if args.scenario == ["all"] {
        library.all().to_vec()
    } else {
        args.scenario.iter().map(|name| library.get(name)).collect::<Result<_, _>>()?
    };
    let several = scenarios.len() > 1;
    let order = Order {
        scenario: scenarios.first().cloned().ok_or(Wrong::Several)?,
        peers,
        only: args.only.clone(),
        cases: args.cases,
        board: args.board,
        out: args.out.clone(),
        time_scale: args.time_scale,
        repeat: args.repeat,
        duration: None,
        keep_stopped: false,
        base: args.base.clone(),
        seed: args.seed.unwrap_or(now.as_secs()),
        processes: args.processes,
        sources: args.sources.clone(),
        place: PeerPaths::usual()?,
        host: "127.0.0.1".to_owned(),
        ports: Ports::new(args.ports.clone()),
        commit: option_env!("TIDEGATE_COMMIT").map(str::to_owned),
    };
    let one = |scenario: Scenario| {
        let scenario = match args.window {
            Some(window) => with_window(scenario, window, args.time_scale),
            None => scenario,
        };
        let out = if several { args.out.join(&scenario.name) } else { args.out.clone() };
        Order { scenario, out, ..order.clone() }
    };
    Ok(scenarios.into_iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_the_measured_time_at_any_scale() {
        let scenario = Library::shipped().unwrap().get("lavva-3").unwrap();
        for (scale, written) in [(1.0, 20_000), (0.1, 200_000)] {
            let scenario = with_window(scenario.clone(), Duration::from_secs(20), scale);
            assert_eq!(scenario.load["duration_ms"].as_integer(), Some(written));
        }
    }

    #[test]
    fn a_range_of_ports_has_two_ends_in_order() {
        assert_eq!(ports("21000-21099"), Ok(21_000..=21_099));
        for wrong in ["21000", "2-1", "0-5", "a-b", "1-70000"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_scale_is_a_sensible_factor() {
        assert_eq!(factor("0.1"), Ok(0.1));
        for wrong in ["0", "-1", "nan", "1000", "x"] {
            assert!(factor(wrong).is_err(), "{wrong}");
        }
    }
}
