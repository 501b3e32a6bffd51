//! `tidegate fleet simulate`: the decisions of policies about a load.

mod flags;
mod table;

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use serde_json::{Map, Value};
use tidegate_fleet::decide::PolicyName;
use tidegate_fleet::simulate::{Model, Report, Trace, TraceError, run as simulate, suite, svg};

use self::flags::ModelArgs;
use tidegate_terminal::{Exit, complain, print_and_exit, report};

/// The largest trace that is read, in bytes.
const TRACE_BYTES_MAX: u64 = 1 << 30;

const EXAMPLES: &str = "\
Examples:
  tidegate fleet simulate day.csv --capacity 5000                  all policies side by side
  tidegate fleet simulate day.csv --capacity 5000 --policy default  one, with each of its actions
  tidegate fleet simulate day.csv --capacity 5000 --svg day.svg --policy default --policy hpa
  tidegate fleet trace day --high 20000 | tidegate fleet simulate - --capacity 5000 --json
  tidegate fleet simulate --list                                   the policies
  tidegate fleet simulate --suite                                  spikes and rises that policies are compared by

A trace has the columns `time_s,rate` (messages per second); a rate holds until the next row. The same decisions that a
manager makes run on a virtual clock; docs/elasticity.md explains the computation.
Exit codes: 0 done, 1 the trace could not be read or is wrong, 2 the command line is wrong.";

/// The flags of `tidegate fleet simulate`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Show what policies would do about a load, on a virtual clock", after_help = EXAMPLES)]
pub struct Args {
    /// A CSV file with the columns `time_s,rate`, or `-` for standard input
    #[arg(value_name = "TRACE.csv", required_unless_present_any = ["list", "suite"])]
    trace: Option<PathBuf>,
    /// A policy to run; repeatable [default: all of them, for comparison]
    #[arg(long = "policy", value_name = "NAME", value_parser = str::parse::<PolicyName>)]
    policies: Vec<PolicyName>,
    /// Print an object from policy name to its results
    #[arg(long)]
    json: bool,
    /// Draw resources over time into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// List the policies
    #[arg(long, conflicts_with_all = ["trace", "policies", "json", "svg"])]
    list: bool,
    /// Run the suite of spikes and rises that policies are compared by, and print its tables
    #[arg(long, conflicts_with_all = ["list", "trace", "policies", "json", "svg"])]
    suite: bool,
    #[command(flatten)]
    model: ModelArgs,
}

/// Why a trace is not read.
#[derive(Debug, thiserror::Error)]
enum TraceFileError {
    /// The file or the standard input.
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// It is larger than [`TRACE_BYTES_MAX`].
    #[error("larger than 1 GiB: thin it out, such as to one row per second")]
    Size,
    /// It is not UTF-8.
    #[error("is not text: give a CSV file with the columns `time_s,rate`")]
    NoText(#[from] std::string::FromUtf8Error),
    /// A row is wrong.
    #[error(transparent)]
    Row(#[from] TraceError),
}

/// Runs the policies and prints their results.
pub(super) fn run(args: &Args) -> Exit {
    if args.list {
        return print_and_exit(&table::policies(), Exit::Ok);
    }
    if args.suite {
        return match suite::tables() {
            Ok(tables) => print_and_exit(&tables, Exit::Ok),
            Err(error) => failed(&error),
        };
    }
    let Some(path) = &args.trace else {
        report(&"a trace is needed: give TRACE.csv, or `-` for standard input");
        return Exit::Usage;
    };
    let model = match args.model.model() {
        Ok(model) => model,
        Err(problem) => {
            report(&problem);
            return Exit::Usage;
        }
    };
    match read(path) {
        Ok(trace) => on(&trace, &model, args),
        Err(error) => failed(&format_args!("{}: {error}", path.display())),
    }
}

fn failed(problem: &dyn std::fmt::Display) -> Exit {
    report(problem);
    Exit::Failure
}

fn on(trace: &Trace, model: &Model, args: &Args) -> Exit {
    let mut reports = Vec::new();
    for policy in chosen(&args.policies) {
        match simulate(trace, model, policy) {
            Ok(report) => reports.push(report),
            Err(error) => {
                report(&error);
                return Exit::Usage;
            }
        }
    }
    warn(trace, model);
    if let Some(path) = &args.svg {
        let drawing = svg::draw(trace, model.brokers.capacity, &reports);
        if let Err(error) = std::fs::write(path, drawing) {
            return failed(&format_args!("cannot write {}: {error}", path.display()));
        }
    }
    let text = if args.json { json(&reports) } else { table::compare(trace, &reports) };
    print_and_exit(&text, Exit::Ok)
}

/// The named policies, each once; all when none is named.
fn chosen(named: &[PolicyName]) -> Vec<PolicyName> {
    if named.is_empty() {
        return PolicyName::ALL.to_vec();
    }
    let mut chosen = Vec::new();
    for policy in named {
        if !chosen.contains(policy) {
            chosen.push(*policy);
        }
    }
    chosen
}

fn json(reports: &[Report]) -> String {
    let members = reports.iter().map(|report| (report.policy.name().to_owned(), report.to_json()));
    format!("{}\n", Value::Object(members.collect::<Map<String, Value>>()))
}

/// Says so when no policy could serve the trace.
fn warn(trace: &Trace, model: &Model) {
    let bounds = model.sla.bounds(tidegate_fleet::decide::Level::Broker);
    let most = bounds.most();
    let needed = (trace.highest_rate() / model.brokers.capacity).ceil();
    if needed > f64::from(most) {
        complain(format_args!("note: the highest rate keeps {needed} brokers fully busy, --max allows {most}\n"));
    }
}

fn read(path: &Path) -> Result<Trace, TraceFileError> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(TRACE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?.take(TRACE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > TRACE_BYTES_MAX {
        return Err(TraceFileError::Size);
    }
    Ok(Trace::parse(&String::from_utf8(bytes)?)?)
}
