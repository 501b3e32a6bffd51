//! `tidegate lab size`: the cheapest configuration that keeps a service level.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, FromArgMatches as _};
use tidegate_lab::run::{Live, Order};
use tidegate_lab::size::{Candidate, Chosen, Demand, Prices, SizeSearch, scenario, size};
use tidegate_lab::sweep::Level;

use super::flag_error::FlagError;
use super::run::{Args as RunArgs, Wrong, order};
use super::{guarded, report};
use tidegate_terminal::{Exit, print_and_exit, report as tell};

/// The flags of `tidegate lab size`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct SizeArgs {
    /// Devices that publish
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    devices: u32,

    /// Messages of each device in a second
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, value_parser = positive)]
    rate: f64,

    /// The service level: the latency of 99 % of the deliveries, and the share that is delivered, in percent
    #[arg(long, value_name = "LEVEL", default_value = "p99=50ms,delivered=100", value_parser = level)]
    slo: Level,

    /// Bytes of a message
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    bytes: u32,

    /// QoS of the messages
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,

    /// Numbers of brokers that share the devices evenly; one of them is measured
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2")]
    brokers: Vec<u32>,

    /// CPU time of a broker, in thousandths of a core
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "50,100,200,400,800,1600")]
    millicores: Vec<u32>,

    /// Memory of a broker, in MiB
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "32,64,128,256,512")]
    memory: Vec<u32>,

    /// The price of a core
    #[arg(long, value_name = "PRICE", default_value_t = 1.0, value_parser = positive)]
    price_core: f64,

    /// The price of a GiB of memory
    #[arg(long, value_name = "PRICE", default_value_t = 0.125, value_parser = positive)]
    price_gib: f64,

    /// The price of a broker without its resources
    #[arg(long, value_name = "PRICE", default_value_t = 0.05, value_parser = positive)]
    price_broker: f64,

    /// Seconds of a run, without its warm-up
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,

    /// A broker (`tidegate lab peers`)
    #[arg(long, value_name = "PEER", default_value = "tidegate")]
    peer: String,

    /// The directory of results; finished runs are not made again
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Why the runs of a search cannot be ordered.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    /// The file of the scenario.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The flags of a run.
    #[error(transparent)]
    Flags(#[from] clap::Error),
    /// The broker or the scenario.
    #[error(transparent)]
    Run(#[from] Wrong),
}

fn positive(text: &str) -> Result<f64, FlagError> {
    let number: f64 = text.parse().map_err(|_| FlagError::Number)?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err(FlagError::Positive) }
}

/// A level such as `p99=50ms,delivered=99.9`.
fn level(text: &str) -> Result<Level, FlagError> {
    let mut level = Level { p99: Duration::from_millis(50), delivered: 100.0 };
    for part in text.split(',') {
        match part.split_once('=') {
            Some(("p99", value)) => level.p99 = tidegate_units::duration::read_flag(value)?,
            Some(("delivered", value)) => level.delivered = positive(value.trim_end_matches('%'))?,
            _ => return Err(FlagError::Level(part.to_owned())),
        }
    }
    Ok(level)
}

impl SizeArgs {
    const fn asked(&self) -> Demand {
        Demand { devices: self.devices, rate: self.rate, bytes: self.bytes, qos: self.qos }
    }

    const fn prices(&self) -> Prices {
        Prices { core: self.price_core, gibibyte: self.price_gib, broker: self.price_broker }
    }

    /// The order of the runs with this number of brokers.
    fn order(&self, brokers: u32) -> Result<Order, OrderError> {
        let share = self.devices.div_ceil(brokers.max(1));
        let file = self.out.join(format!("{share}-devices.toml"));
        let written =
            fs::create_dir_all(&self.out).and_then(|()| fs::write(&file, scenario(&self.asked(), share, self.seconds)));
        written.map_err(|source| OrderError::Write { path: file.clone(), source })?;
        let words = ["run", &file.to_string_lossy(), "--peer", &self.peer, "--out", &self.out.to_string_lossy()];
        let matches = RunArgs::augment_args(clap::Command::new("run")).try_get_matches_from(words);
        let args = matches.and_then(|matches| RunArgs::from_arg_matches(&matches))?;
        Ok(order(&args)?)
    }
}

pub(crate) fn run(args: &SizeArgs) -> Exit {
    let (prices, mut brokers) = (args.prices(), args.brokers.clone());
    brokers.retain(|count| *count > 0);
    let orders: Result<Vec<(u32, Order)>, OrderError> =
        brokers.iter().map(|count| Ok((*count, args.order(*count)?))).collect();
    let orders = match orders {
        Ok(orders) => orders,
        Err(wrong) => {
            tell(&wrong);
            return Exit::Usage;
        }
    };
    let Some((_, first)) = orders.first() else { return Exit::Usage };
    let (stop, _watchdog) = match guarded(&first.place) {
        Ok(guarded) => guarded,
        Err(exit) => return exit,
    };
    let search = SizeSearch::new(&brokers, &args.millicores, &args.memory, prices);
    let mut make = |candidate: Candidate| {
        let Candidate { brokers, millicores, mebibytes } = candidate;
        let order = orders.iter().find(|(count, _)| *count == brokers).map_or(first, |(_, order)| order);
        let mut order = order.clone();
        order.out = args.out.join(format!("{brokers}-brokers-{millicores}m-{mebibytes}MiB"));
        Ok(order)
    };
    let chosen = match size(&mut make, search, prices, &args.slo, (&mut Live::default(), &stop)) {
        Ok(chosen) => chosen,
        Err(error) => {
            tell(&error);
            return Exit::Failure;
        }
    };
    if let Some(results) = &chosen.results
        && let Err(error) = report::write(&args.out, results, true)
    {
        tell(&error);
        return Exit::Failure;
    }
    let exit = if chosen.complete && chosen.best.is_some() { Exit::Ok } else { Exit::Failure };
    print_and_exit(&shown(&chosen, prices), exit)
}

/// All runs, and the proposed size.
fn shown(chosen: &Chosen, prices: Prices) -> String {
    let mut text = String::new();
    for tried in &chosen.tried {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", tried.sentence(prices));
    }
    let Some(best) = chosen.best else {
        text.push_str("no size holds\n");
        return text;
    };
    let Candidate { brokers, millicores, mebibytes } = best;
    let (shards, cost) = (best.shards(), best.cost(prices));
    let known = if chosen.complete { "the cheapest" } else { "the cheapest so far" };
    let _ = writeln!(
        text,
        "{known}: {brokers} brokers, each with {millicores} millicores, {mebibytes} MiB and {shards} shards; cost {cost:.3}"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_a_latency_and_a_share() {
        let read = level("p99=20ms,delivered=99.9%").unwrap();
        assert_eq!((read.p99, read.delivered), (Duration::from_millis(20), 99.9));
        for wrong in ["p99", "p99=soon", "delivered=-1", "p50=1ms"] {
            assert!(level(wrong).is_err(), "{wrong}");
        }
    }
}
