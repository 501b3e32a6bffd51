//! `tidegate up`: a fleet from its file, with all its needs, until it is stopped.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use tidegate_fleet::manage::driver::Driver;

use crate::local::{After, AtItsEnd, Session, SessionArgs, text_of};
use tidegate_process::service_manager;
use tidegate_terminal::{Exit, complain, report};

const EXAMPLES: &str = "\
Examples:
  tidegate up examples/fleet/tidegate.toml
  tidegate up fleet.toml --log info

One line on standard output says when the fleet is ready, with the addresses for clients; the addresses of the brokers follow.
Until then standard error names the cause of the wait, after 5 s for the first time.
SIGTERM and SIGINT (Ctrl-C) stop all of it: orchestrators, then brokers. The stores of orchestrators stay, and the next start
continues with them. A further signal a second later ends this process in the middle of the stop: `fleet status` then lists the stopped processes, and the next
`up` or `manager` finishes the stop before it starts anything. When this process is killed the fleet runs on, and the next `up` or
`manager` takes it over.
While it runs: tidegate fleet status. More: docs/manager.md.";

/// The flags of `tidegate up`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Run a fleet: its manager, orchestrators and brokers, as processes of this machine", after_help = EXAMPLES)]
pub struct Args {
    /// The fleet file
    #[arg(value_name = "FLEET.toml")]
    fleet: PathBuf,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the fleet until it is stopped.
pub fn run(args: &Args) -> Exit {
    let session = match Session::open(&args.fleet, &args.session, AtItsEnd::Stop) {
        Ok(session) => session,
        Err(no) => return no.into(),
    };
    let addresses = session.addresses();
    let failures = session.failures() + 1;
    let (mut told, mut failed) = (false, false);
    let mut patience = Patience::new();
    let (ended, exit) = session.work(|driver| {
        if !told && driver.manager().is_started() && has_endpoints(driver) {
            told = true;
            service_manager::tell_ready("fleet", &ready(driver, &addresses));
        }
        if !told && let Some(waited) = patience.is_over() {
            complain(format_args!("not ready after {} s: {}\n", waited.as_secs(), waits_for(driver)));
        }
        match driver.manager().last_failure() {
            // A single failure may be another program on its port.
            Some(why) if !told && driver.manager().book().totals.failed > failures => {
                report(&format_args!("the fleet does not start: {why}"));
                failed = true;
                After::Stop
            }
            _ => After::Work,
        }
    });
    match (ended.stop_all(), exit) {
        (Exit::Ok, Exit::Ok) if failed => Exit::Failure,
        (Exit::Ok, exit) => exit,
        (stopped, _) => stopped,
    }
}

/// The times of reports about a waiting start: after 5 s, then after twice as long each time.
struct Patience {
    started: Instant,
    next: Duration,
}

impl Patience {
    /// How long a user waits at a terminal without a line.
    const FIRST: Duration = Duration::from_secs(5);

    fn new() -> Self {
        Self { started: Instant::now(), next: Self::FIRST }
    }

    /// How long the start takes already, when it is time to say so.
    fn is_over(&mut self) -> Option<Duration> {
        let waited = self.started.elapsed();
        (waited >= self.next).then(|| {
            self.next = waited * 2;
            waited
        })
    }
}

/// The current actions and the processes that they wait for.
fn waits_for(driver: &Driver) -> String {
    let status = driver.status();
    let actions = status["actions"].as_array().into_iter().flatten().filter_map(|action| {
        let step = action["steps"].as_array()?.last()?;
        let told = text_of(&step["note"]);
        let note = if told.is_empty() { "under way" } else { &told };
        let (kind, level) = (text_of(&action["action"]), text_of(&action["level"]));
        Some(format!("{kind} of {level}: {}, {note}", text_of(&step["step"])))
    });
    let actions: Vec<String> = actions.collect();
    if actions.is_empty() { "nothing is under way".to_owned() } else { actions.join("; ") }
}

/// Whether clients can connect: after a rest, orchestrators start again although the fleet has been started before.
fn has_endpoints(driver: &Driver) -> bool {
    driver.manager().endpoints().next().is_some()
}

/// The line that scripts wait for, then the brokers for people.
fn ready(driver: &Driver, addresses: &str) -> String {
    let endpoints: Vec<&str> = driver.manager().endpoints().map(|endpoint| endpoint.address.as_str()).collect();
    let mut text = format!("tidegate {} fleet ready: {} {addresses}\n", env!("CARGO_PKG_VERSION"), endpoints.join(" "));
    let status = driver.status();
    for broker in status["levels"]["broker"]["resources"].as_array().into_iter().flatten() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {} {}", text_of(&broker["name"]), text_of(&broker["address"]));
    }
    text
}
