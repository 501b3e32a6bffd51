//! `tidegate drain`: sends an orchestrator's clients elsewhere and waits until it may go.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use tidegate_admin::{DrainRequest, GetDrain};

use crate::admin_client::AdminArgs;
use tidegate_terminal::{Exit, print_and_exit, report};
use tidegate_units::duration;

const EXAMPLES: &str = "\
Examples:
  tidegate drain                                     of the orchestrator on this machine
  tidegate drain --per-second 100 --limit 5m
  tidegate drain --token-file /etc/tidegate/token --server-reference mqtt.example.com:1883

It takes no new clients, sends those of MQTT 5 to the server reference (0x9C) and closes the
others, so many per second. The command ends with exit code 0 when no client is left and nothing is
owed but messages in the store for clients that are away, and with 1 after the limit. It may be
repeated, also while another command drains the same orchestrator. A preStop hook of Kubernetes can
call it. More: docs/kubernetes.md.";

/// Time between two questions how far it is.
const LOOK: Duration = Duration::from_millis(500);
/// Answers in a row that may be missing: an orchestrator that is busy still answers, one that is gone never will.
const MAX_SILENCE: u32 = 5;

/// The flags of `tidegate drain`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Send the clients of an orchestrator elsewhere and wait until it owes nothing", after_help = EXAMPLES)]
pub struct Args {
    /// Clients that are sent away per second
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    per_second: u32,

    /// Where MQTT 5 clients are told to go
    #[arg(long, value_name = "HOST:PORT")]
    server_reference: Option<String>,

    /// Give up after this time; clients stay away all the same
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::read_flag)]
    limit: Duration,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Drains, and waits.
pub fn run(args: &Args) -> Exit {
    let until = Instant::now().checked_add(args.limit);
    let request = DrainRequest {
        server_reference: args.server_reference.clone(),
        per_second: args.per_second,
        ..DrainRequest::default()
    };
    // A drain that is under way goes on as it is: it may know a better server reference.
    let begun = match args.admin.send(&GetDrain) {
        Ok(status) if status.draining => Ok(()),
        Ok(_) => args.admin.send(&request).map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = begun {
        report(&error);
        return Exit::Failure;
    }
    wait(args, until)
}

fn wait(args: &Args, until: Option<Instant>) -> Exit {
    let mut silence = 0;
    // Nobody sends: it is how long this waits.
    let (_never, nothing) = mpsc::channel::<()>();
    loop {
        match args.admin.send(&GetDrain) {
            Ok(left) if left.is_drained() && left.kept == 0 => return print_and_exit("drained\n", Exit::Ok),
            Ok(left) if left.is_drained() => {
                let text = format!("drained; {} messages stay in the store for clients that are away\n", left.kept);
                return print_and_exit(&text, Exit::Ok);
            }
            Ok(left) if until.is_some_and(|until| Instant::now() >= until) => {
                report(&format_args!(
                    "not drained within {}: {} clients are left and {} messages are owed, {} of them in the store \
                     for clients that are away",
                    duration::show_length(args.limit),
                    left.clients,
                    left.owed,
                    left.kept
                ));
                return Exit::Failure;
            }
            Ok(_) => silence = 0,
            Err(error) => {
                silence += 1;
                if silence >= MAX_SILENCE {
                    report(&error);
                    return Exit::Failure;
                }
            }
        }
        let _ = nothing.recv_timeout(LOOK);
    }
}
