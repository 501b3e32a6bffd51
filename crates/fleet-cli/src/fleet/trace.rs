//! `tidegate fleet trace`: loads for the simulator.

use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand};
use tidegate_fleet::simulate::Trace;
use tidegate_fleet::simulate::generate::{Day, Ramp, ShapeError, Spikes};
use tidegate_fleet::simulate::taxi::{Import, Imported, Taxis};

use super::arguments::{fraction, seconds};
use tidegate_terminal::{Exit, complain, print, print_and_exit, report};

/// The longest line that an import looks at, in bytes; a record has about 80.
const LINE_BYTES_MAX: u64 = 4096;
/// Records that are written at once.
const RECORDS_AT_ONCE: usize = 10_000;

const EXAMPLES: &str = "\
Examples:
  tidegate fleet trace ramp --low 50 --high 700 --rise 10m --hold 20m > ramp.csv
  tidegate fleet trace spikes --base 50 --height 150 --length 30s > spikes.csv
  tidegate fleet trace day --low 100 --high 20000 --days 2 --noise 5% > day.csv
  tidegate fleet trace taxi --records 400000 > taxi.txt
  tidegate fleet trace import taxi_february.txt --speed 60 > rome.csv";

/// The kind of load.
#[derive(Debug, Subcommand)]
#[command(about = "Make a trace for the simulator: a CSV on standard output", after_help = EXAMPLES)]
pub enum TraceCommand {
    /// Low, a rise, high, a fall, and low again
    Ramp(RampArgs),
    /// Peaks over a load that needs nothing
    Spikes(SpikesArgs),
    /// Days, low at 4:00 and high at 16:00
    Day(DayArgs),
    /// Taxi positions, made up, in the format of the CRAWDAD roma/taxi data set: one publish per line
    Taxi(TaxiArgs),
    /// A copy of the CRAWDAD roma/taxi data set as a trace of records per second
    Import(ImportArgs),
}

#[derive(Debug, ClapArgs)]
pub struct RampArgs {
    /// Messages per second before and after
    #[arg(long, default_value_t = 50.0, allow_negative_numbers = true)]
    low: f64,
    /// Messages per second at the top
    #[arg(long, default_value_t = 700.0, allow_negative_numbers = true)]
    high: f64,
    /// How long it rises and falls; 0 makes steps
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = seconds)]
    rise: u64,
    /// How long it stays low, high and low again
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = seconds)]
    hold: u64,
}

#[derive(Debug, ClapArgs)]
pub struct SpikesArgs {
    /// Messages per second between spikes
    #[arg(long, default_value_t = 50.0, allow_negative_numbers = true)]
    base: f64,
    /// Messages per second in a spike
    #[arg(long, default_value_t = 150.0, allow_negative_numbers = true)]
    height: f64,
    /// How long a spike lasts
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = seconds)]
    length: u64,
    /// From one spike to the next
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = seconds)]
    every: u64,
    /// Its duration
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = seconds)]
    duration: u64,
}

#[derive(Debug, ClapArgs)]
pub struct DayArgs {
    /// Messages per second at night
    #[arg(long, default_value_t = 100.0, allow_negative_numbers = true)]
    low: f64,
    /// Messages per second in the afternoon
    #[arg(long, default_value_t = 2000.0, allow_negative_numbers = true)]
    high: f64,
    /// How many days
    #[arg(long, default_value_t = 1)]
    days: u64,
    /// From one row to the next
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = seconds)]
    step: u64,
    /// Deviation of the noise
    #[arg(long, value_name = "FRACTION", default_value = "0", value_parser = fraction)]
    noise: f64,
    /// The seed of the noise
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, ClapArgs)]
pub struct TaxiArgs {
    /// How many taxis: each is a topic
    #[arg(long, default_value_t = 316)]
    taxis: u32,
    /// How many lines
    #[arg(long, default_value_t = 400_000)]
    records: u64,
    /// The seed of the records
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, ClapArgs)]
pub struct ImportArgs {
    /// The file, or `-` for standard input
    file: PathBuf,
    /// How many times as fast as it was
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    speed: f64,
    /// Seconds from one row to the next
    #[arg(long, default_value_t = 1)]
    step: u32,
}

/// Makes a trace.
pub(super) fn run(command: &TraceCommand) -> Exit {
    match command {
        TraceCommand::Ramp(args) => {
            let RampArgs { low, high, rise, hold } = *args;
            shown(Ramp { low, high, rise_s: rise, hold_s: hold }.trace())
        }
        TraceCommand::Spikes(args) => {
            let SpikesArgs { base, height, length, every, duration } = *args;
            shown(Spikes { base, height, length_s: length, every_s: every, duration_s: duration }.trace())
        }
        TraceCommand::Day(args) => {
            let DayArgs { low, high, days, step, noise, seed } = *args;
            shown(Day { low, high, days, step_s: step, noise, seed }.trace())
        }
        TraceCommand::Taxi(args) => taxis(args),
        TraceCommand::Import(args) => import(args),
    }
}

fn shown(trace: Result<Trace, ShapeError>) -> Exit {
    match trace {
        Ok(trace) => print_and_exit(&trace.to_csv(), Exit::Ok),
        Err(error) => {
            report(&error);
            Exit::Usage
        }
    }
}

fn taxis(args: &TaxiArgs) -> Exit {
    let mut taxis = match Taxis::new(args.taxis, args.seed) {
        Ok(taxis) => taxis,
        Err(error) => {
            report(&error);
            return Exit::Usage;
        }
    };
    let mut left = args.records;
    while left > 0 {
        let mut text = String::new();
        for record in taxis.by_ref().take(RECORDS_AT_ONCE.min(usize::try_from(left).unwrap_or(usize::MAX))) {
            let _ = writeln!(text, "{record}");
            left -= 1;
        }
        // The reader may have closed the output.
        if print(&text).is_err() {
            break;
        }
    }
    Exit::Ok
}

fn import(args: &ImportArgs) -> Exit {
    let imported = read(&args.file).map_err(|error| format!("cannot read {}: {error}", args.file.display()));
    let imported = imported.and_then(|import| import.finish(args.speed, args.step).map_err(|error| error.to_string()));
    match imported {
        Ok(imported) => {
            summarise(&imported);
            print_and_exit(&imported.trace.to_csv(), Exit::Ok)
        }
        Err(problem) => {
            report(&problem);
            Exit::Failure
        }
    }
}

/// The counts of imported and skipped lines, on standard error.
fn summarise(imported: &Imported) {
    let Imported { records, taxis, bad, .. } = imported;
    complain(format_args!("{records} records of {taxis} taxis, {bad} lines passed over\n"));
    for line in &imported.bad_lines {
        complain(format_args!("  line {}: {}\n", line.line, line.problem));
    }
    if let Some(more) = bad.checked_sub(imported.bad_lines.len() as u64).filter(|more| *more > 0) {
        complain(format_args!("  and {more} more\n"));
    }
}

fn read(path: &Path) -> std::io::Result<Import> {
    let mut source: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(BufReader::new(std::fs::File::open(path)?))
    };
    let mut import = Import::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut source).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(import);
        }
        let whole = line.ends_with(b"\n") || (line.len() as u64) < LINE_BYTES_MAX;
        match std::str::from_utf8(&line) {
            Ok(text) if whole => import.push(text),
            Err(_) if whole => import.push_unreadable("not UTF-8"),
            _ => {
                skip_line(&mut source)?;
                import.push_unreadable("longer than 4096 bytes");
            }
        }
    }
}

/// Passes over the rest of a line.
fn skip_line(source: &mut dyn BufRead) -> std::io::Result<()> {
    loop {
        let buffer = source.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        source.consume(length);
        if end.is_some() {
            return Ok(());
        }
    }
}
