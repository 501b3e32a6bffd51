//! `conformance`: runs the suite against any broker and prints its results.

use clap::Parser;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;
use tidegate_conformance::{Case, CaseOutcome, Manifest, Options, Report, Result, Status, Version, cases, run_with};

/// Checks whether an MQTT broker does what the specifications of MQTT 3.1, 3.1.1 and 5.0 demand.
///
/// The suite connects as a client like any other, under client identifiers and topics of its own, writes exact bytes
/// and judges the answers. It cleans up after itself. Cases of features that the broker does not offer are skipped.
#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(name = "conformance", disable_version_flag = true, after_help = EXAMPLES)]
struct Arguments {
    /// Address of the broker's TCP listener
    #[arg(long, value_name = "HOST:PORT", required_unless_present_any = ["list", "manifest_report"])]
    broker: Option<String>,

    /// Address of its WebSocket listener; without it the cases about WebSocket are skipped
    #[arg(long, value_name = "HOST:PORT[/PATH]")]
    websocket: Option<String>,

    /// User name for all connections but those about credentials
    #[arg(long, value_name = "NAME")]
    username: Option<String>,

    /// Password that goes with it
    #[arg(long, value_name = "TEXT", requires = "username")]
    password: Option<String>,

    /// Run only cases whose name contains this, or that prove this statement; may be repeated
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,

    /// Leave out cases whose name contains this; may be repeated
    #[arg(long, value_name = "PATTERN")]
    except: Vec<String>,

    /// Speak only this version of MQTT: 5, 311 or 31; may be repeated
    #[arg(long = "version", visible_alias = "mqtt", value_name = "VERSION")]
    versions: Vec<Version>,

    /// Cases that run at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    jobs: usize,

    /// How long to wait for an answer that does not come
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    timeout: f32,

    /// Also demand what Tidegate promises where the specification leaves a choice
    #[arg(long)]
    strict: bool,

    /// Print every case as it ends, not only failures
    #[arg(long, short)]
    verbose: bool,

    /// List the cases with their versions and statements, and end
    #[arg(long)]
    list: bool,

    /// Print how each statement of the specifications is proved, and end
    #[arg(long)]
    manifest_report: bool,
}

const EXAMPLES: &str = "\
Examples:
  conformance --broker 127.0.0.1:1883                    everything
  conformance --broker 127.0.0.1:1883 --version 5        MQTT 5.0 alone
  conformance --broker 127.0.0.1:1883 --only will        cases with `will` in their name
  conformance --broker 127.0.0.1:1883 --only 4.7.2-1     cases that prove [MQTT-4.7.2-1]
  conformance --list                                     what there is

A failure shows the expected behaviour, the broken statements, and the packets of all clients of the case in
hexadecimal, oldest first. The exit code is 0 when nothing failed, 1 when something did, 2 when nothing could run.";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        return list(&arguments);
    }
    if arguments.manifest_report {
        return manifest_report();
    }
    let verbose = arguments.verbose;
    let options = options(arguments);
    let marks = std::io::stderr().is_terminal();
    let told = |result: &Result| tell(result, verbose, marks);
    match run_with(&options, &told) {
        Ok(report) => conclude(&report),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn options(arguments: Arguments) -> Options {
    let mut options = Options::new(arguments.broker.unwrap_or_default());
    options.websocket = arguments.websocket;
    options.user_name = arguments.username;
    options.password = arguments.password;
    options.only = arguments.only;
    options.except = arguments.except;
    options.versions = arguments.versions;
    options.jobs = arguments.jobs;
    // Negative and absurd values would make waiting meaningless; a tenth of a second is the least that a network needs.
    options.patience = Duration::from_secs_f32(arguments.timeout.clamp(0.1, 600.0));
    options.strict = arguments.strict;
    options
}

/// Progress goes to the error stream, so that the table can be piped.
fn tell(result: &Result, verbose: bool, marks: bool) {
    match (&result.outcome, verbose) {
        (CaseOutcome::Failed { .. }, _) | (CaseOutcome::Skipped(_), true) => eprint!("{}", result.explain()),
        (CaseOutcome::Passed, true) => {
            let seconds = result.duration.as_secs_f32();
            eprintln!("passed  {} (MQTT {}) in {seconds:.2} s", result.case.name, result.version);
        }
        (CaseOutcome::Passed, false) if marks => eprint!("."),
        (CaseOutcome::Skipped(_), false) if marks => eprint!("s"),
        _ => {}
    }
}

fn conclude(report: &Report) -> ExitCode {
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    if report.results.is_empty() {
        eprintln!("error: no case fits these options; `conformance --list` shows what there is");
        return ExitCode::from(2);
    }
    let mut text = report.summary();
    if report.is_success() {
        show(&text);
        return ExitCode::SUCCESS;
    }
    text.push_str("\nfailed:\n");
    for result in report.failures() {
        let _ = writeln!(text, "  {} (MQTT {})", result.case.name, result.version);
    }
    show(&text);
    ExitCode::FAILURE
}

/// Prints to the output; a reader that has seen enough, such as `head`, is no error.
fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn list(arguments: &Arguments) -> ExitCode {
    let chosen = |case: &&Case| {
        let named = arguments.only.is_empty() || arguments.only.iter().any(|pattern| case.is_chosen_by(pattern));
        named && !arguments.except.iter().any(|pattern| case.is_chosen_by(pattern))
    };
    let mut text = String::new();
    for case in cases().filter(chosen) {
        let versions: Vec<_> = case.versions.iter().map(|version| version.label()).collect();
        let _ = writeln!(text, "{}  ({})", case.name, versions.join(", "));
        for version in [Version::V311, Version::V5] {
            let statements = case.statements(version);
            if !statements.is_empty() {
                let _ = writeln!(text, "    {version:6} {}", statements.join(" "));
            }
        }
    }
    show(&text);
    ExitCode::SUCCESS
}

fn manifest_report() -> ExitCode {
    let manifest = match Manifest::in_tree() {
        Ok(manifest) => manifest,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let mut text = String::new();
    for (version, statement, row) in manifest.rows() {
        let told = if row.tests.is_empty() { row.reason.clone().unwrap_or_default() } else { row.tests.join(" ") };
        let _ = writeln!(text, "{version:6} {statement:16} {:10} {told}", row.status);
    }
    let _ = writeln!(text);
    for version in [Version::V311, Version::V5] {
        let counts = Status::ALL.map(|status| format!("{} {status}", manifest.count(version, status)));
        let _ = writeln!(text, "MQTT {version}: {}", counts.join(", "));
    }
    show(&text);
    let problems = manifest.problems();
    for problem in &problems {
        eprintln!("error: {problem}");
    }
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
