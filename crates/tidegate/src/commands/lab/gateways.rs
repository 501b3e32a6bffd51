//! `tidegate lab gateways`: several gateways and their bus as one process, for experiments; it is started by the lab itself.

use std::path::PathBuf;
use std::thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args as ClapArgs;
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use tidegate_lab::contextnet::{Gateways, Part, Requests};

use super::stop_on_signals;
use crate::exit::{Exit, report};

/// The flags of `tidegate lab gateways`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// Where the processes keep their files
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,

    /// The bus that the gateways share
    #[arg(long, value_name = "URL")]
    bus: String,

    /// The command that serves the bus; without it one that runs already is used
    #[arg(long, value_name = "COMMAND")]
    bus_command: Option<String>,

    /// Where a gateway listens; one for each gateway
    #[arg(long, value_name = "HOST:PORT", required = true)]
    listen: Vec<String>,

    /// Whether points of access are managed: gateways report their load, and nodes are handed over
    #[arg(long)]
    managed: bool,
}

/// What signals ask for.
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

pub(super) fn run(args: &Args) -> Exit {
    let (stop, mut asked) = match stop_on_signals().and_then(|stop| Ok((stop, asked()?))) {
        Ok(both) => both,
        Err(error) => {
            report(&format_args!("cannot catch signals: {error}"));
            return Exit::Failure;
        }
    };
    let executable = match std::env::current_exe() {
        Ok(path) => path.display().to_string(),
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
    let services = if args.managed { vec![core(args, executable)] } else { Vec::new() };
    Gateways { bus, gateways, services, directory: args.directory.clone() }
}

fn gateway(args: &Args, executable: &str, number: u32, at: &str) -> Part {
    let name = format!("gateway-{number}");
    let mut command: Vec<String> =
        [executable, "run", "--listen", at, "--node", &name, "--bus", &args.bus].map(str::to_owned).to_vec();
    command.extend(["--admin", "off", "--log", "warn"].map(str::to_owned));
    let folder = args.directory.join(&name);
    let mut settings = vec![
        "addresses.enabled=true".to_owned(),
        "cluster.leave_timeout=1s".to_owned(),
        format!("store.directory={}", folder.display()),
    ];
    if args.managed {
        settings.push("context.enabled=true".to_owned());
        settings.push(format!("context.name={name}"));
        settings.push(format!("context.bus={}", args.bus));
    }
    command.extend(settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]));
    Part { name, command, accepts: Some(at.to_owned()) }
}

fn core(args: &Args, executable: &str) -> Part {
    let command = [executable, "core", "--bus", &args.bus, "--member", "core-1"].map(str::to_owned).to_vec();
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
        let line = "x --directory /d --bus nats://h:4222 --bus-command serve --listen h:1 --listen h:2 --managed";
        let gateways = gateways(&Line::parse_from(line.split(' ')).args, "tidegate");
        assert_eq!(gateways.bus.and_then(|bus| bus.accepts), Some("h:4222".to_owned()));
        let second = gateways.gateways[1].command.join(" ");
        assert!(second.contains("--node gateway-2 --bus nats://h:4222") && second.contains("/d/gateway-2"), "{second}");
        assert_eq!(gateways.services.len(), 1);
    }
}
