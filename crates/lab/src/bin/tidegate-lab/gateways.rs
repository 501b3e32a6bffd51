//! `tidegate lab gateways`: several gateways and their bus as one process, for experiments; it is started by the lab
//! itself.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args as ClapArgs, ValueEnum};
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tidegate_lab::contextnet::{Gateways, Part, Requests};
use tidegate_lab::peer::broker_of;

use super::stop_on_signals;
use tidegate_terminal::{Exit, report};

/// Lease of gateways on every bus, so that a death is noticed equally fast: the bus is one server, which is not killed.
const LEASE: &str = "10s";

/// How long gateways that have met are left to themselves before anything is asked of them.
const SETTLE: Duration = Duration::from_secs(10);

/// The flags of `tidegate lab gateways`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// The directory of the processes' files
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,

    /// The bus that the gateways share
    #[arg(long, value_name = "URL")]
    bus: String,

    /// The command that serves the bus; without it the lab uses a bus that runs already
    #[arg(long, value_name = "COMMAND")]
    bus_command: Option<String>,

    /// The address of a gateway; one for each gateway
    #[arg(long, value_name = "HOST:PORT", required = true)]
    listen: Vec<String>,

    /// Gateways that are brokers of their own and report to a core, which hands nodes over between them or does not;
    /// without it they are a cluster
    #[arg(long, value_name = "HOW")]
    points: Option<Points>,

    /// The address that accepts connections once all of them are ready
    #[arg(long, value_name = "HOST:PORT")]
    gate: String,
}

/// How points of access are looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Points {
    /// Nodes are handed over.
    Managed,
    /// Nodes stay.
    Unmanaged,
}

/// Requests by signals.
#[derive(Debug, Default)]
struct Asked {
    kill: Arc<AtomicBool>,
    start: Arc<AtomicBool>,
}

impl Requests for Asked {
    fn kill(&mut self) -> bool {
        self.kill.swap(false, Ordering::Relaxed)
    }

    fn start(&mut self) -> bool {
        self.start.swap(false, Ordering::Relaxed)
    }
}

pub(crate) fn run(args: &Args) -> Exit {
    let (stop, mut asked) = match stop_on_signals().and_then(|stop| Ok((stop, asked()?))) {
        Ok(both) => both,
        Err(error) => {
            report(&format_args!("cannot catch signals: {error}"));
            return Exit::Failure;
        }
    };
    let executable = match std::env::current_exe() {
        Ok(path) => broker_of(&path).display().to_string(),
        Err(error) => {
            report(&format_args!("this program does not know where it is: {error}"));
            return Exit::Failure;
        }
    };
    match gateways(args, &executable).run(&stop, &mut asked) {
        Ok(()) => Exit::Ok,
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn asked() -> std::io::Result<Asked> {
    let asked = Asked::default();
    let (kill, start) = (Arc::clone(&asked.kill), Arc::clone(&asked.start));
    let mut signals = Signals::new([SIGUSR1, SIGUSR2])?;
    thread::Builder::new().name("gateway-signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let flag = if signal == SIGUSR1 { &kill } else { &start };
            flag.store(true, Ordering::Relaxed);
        }
    })?;
    Ok(asked)
}

fn gateways(args: &Args, executable: &str) -> Gateways {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let bus = args.bus_command.as_ref().map(|command| Part {
        name: "the bus".to_owned(),
        command: words(command),
        accepts: args.bus.split_once("://").map(|(_, at)| at.to_owned()),
    });
    let numbered = (1..).zip(&args.listen);
    let gateways = numbered.map(|(number, at)| gateway(args, executable, number, at)).collect();
    let services = if args.points.is_some() { vec![core(args, executable)] } else { Vec::new() };
    Gateways { bus, gateways, services, directory: args.directory.clone(), gate: args.gate.clone(), settle: SETTLE }
}

fn gateway(args: &Args, executable: &str, number: u32, at: &str) -> Part {
    let name = format!("gateway-{number}");
    let mut command =
        [executable, "run", "--listen", at, "--admin", "off", "--log", "warn"].map(str::to_owned).to_vec();
    let folder = args.directory.join(&name);
    let mut settings = vec!["addresses.enabled=true".to_owned(), format!("store.directory={}", folder.display())];
    if let Some(points) = args.points {
        settings.extend(
            ["context.enabled=true", "context.load_period=1s", "context.connection_period=1s"].map(str::to_owned),
        );
        settings.push(format!("context.name={name}"));
        settings.push(format!("context.bus={}", args.bus));
        settings.push(format!("context.lease={LEASE}"));
        settings.push(format!("context.balance={}", points == Points::Managed));
    } else {
        command.extend(["--node", &name, "--bus", &args.bus].map(str::to_owned));
        settings.push("cluster.leave_timeout=1s".to_owned());
        settings.push(format!("cluster.lease={LEASE}"));
    }
    command.extend(settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]));
    Part { name, command, accepts: Some(at.to_owned()) }
}

fn core(args: &Args, executable: &str) -> Part {
    let mut command = [executable, "core", "--bus", &args.bus, "--member", "core-1"].map(str::to_owned).to_vec();
    command.extend(["--set".to_owned(), format!("context.lease={LEASE}")]);
    if args.points == Some(Points::Unmanaged) {
        command.extend(["--set", "context.balance=false"].map(str::to_owned));
    }
    Part { name: "the core".to_owned(), command, accepts: None }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn each_gateway_has_a_name_and_a_folder_and_all_have_one_bus() {
        let line = "x --directory /d --bus nats://h:4222 --bus-command serve --listen h:1 --listen h:2 --gate h:9";
        let made = |line: &str| gateways(&Line::parse_from(line.split(' ')).args, "tidegate");
        let gateways = made(line);
        assert_eq!(gateways.bus.and_then(|bus| bus.accepts), Some("h:4222".to_owned()));
        let second = gateways.gateways[1].command.join(" ");
        assert!(second.contains("--node gateway-2 --bus nats://h:4222") && second.contains("/d/gateway-2"), "{second}");
        assert!(second.contains("cluster.lease=10s"), "{second}");
        assert!(gateways.services.is_empty());
        let apart = made(&format!("{line} --points unmanaged"));
        let second = apart.gateways[1].command.join(" ");
        assert!(!second.contains("--node") && second.contains("context.balance=false"), "{second}");
        assert_eq!(apart.services.len(), 1);
    }
}
