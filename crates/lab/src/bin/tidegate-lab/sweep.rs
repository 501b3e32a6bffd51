//! `tidegate lab sweep`: how much a broker carries before a service level breaks.

use std::time::Duration;

use clap::Args as ClapArgs;
use tidegate_lab::run::Live;
use tidegate_lab::sweep::{Level, Search, SweepError, sweep};

use super::run::{Args as RunArgs, order};
use super::{guarded, report};
use tidegate_terminal::{Exit, print_and_exit, report as tell};

/// The flags of `tidegate lab sweep`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    run: RunArgs,

    /// The value of the scenario that is raised
    #[arg(long, value_name = "NAME", default_value = "rate")]
    over: String,

    /// The value to begin with
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    from: u64,

    /// The greatest value to try
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    to: u64,

    /// End when the lowest failed rate is within this factor of the highest that held
    #[arg(long, value_name = "FACTOR", default_value_t = 1.15)]
    within: f64,

    /// The level: 99 % of deliveries take no longer than this
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = tidegate_units::duration::read_flag)]
    p99: Duration,

    /// The level: at least this percentage of the due messages is delivered
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0)]
    delivered: f64,
}

pub(crate) fn run(args: &SweepArgs) -> Exit {
    let order = match order(&args.run) {
        Ok(order) => order,
        Err(wrong) => {
            tell(&wrong);
            return Exit::Usage;
        }
    };
    let (stop, _watchdog) = match guarded(&order.place) {
        Ok(guarded) => guarded,
        Err(exit) => return exit,
    };
    let level = Level { p99: args.p99, delivered: args.delivered };
    let search = Search::new(args.from, args.to, args.within);
    let (knees, results) = match sweep(&order, &args.over, &search, &level, &mut Live::default(), &stop) {
        Ok(found) => found,
        Err(SweepError::Run(error)) => {
            tell(&error);
            return Exit::Failure;
        }
        Err(error) => {
            tell(&error);
            return Exit::Usage;
        }
    };
    if let Err(error) = report::write(&order.out, &results, true) {
        tell(&error);
        return Exit::Failure;
    }
    let lines = knees.iter().map(|knee| format!("{}: {}\n", knee.peer, knee.sentence(&args.over)));
    print_and_exit(&lines.collect::<String>(), if stop.is_asked() { Exit::Failure } else { Exit::Ok })
}
