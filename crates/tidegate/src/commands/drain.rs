//! `tidegate drain`: sends an orchestrator's clients elsewhere and waits until it may go.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use serde_json::{Value, json};

use crate::admin_client::{AdminArgs, AdminError};
use tidegate_terminal::{Exit, print_and_exit, report};

const EXAMPLES: &str = "\
Examples:
  tidegate drain                                     of the orchestrator on this machine
  tidegate drain --per-second 100 --limit 5m
  tidegate drain --token-file /etc/tidegate/token --server-reference mqtt.example.com:1883

It takes no new clients, sends those of MQTT 5 to the server reference (0x9C) and closes the
others, so many per second. The command ends with exit code 0 when no client is left and nothing is
owed, and with 1 after the limit. It may be repeated, also while somebody else drains the same
orchestrator. A preStop hook of Kubernetes is what it is made for. More: docs/kubernetes.md.";

/// Time between two questions how far it is.
const LOOK: Duration = Duration::from_millis(500);
/// Answers in a row that may be missing: an orchestrator that is busy still answers, one that is gone never will.
const MAX_SILENCE: u32 = 5;

/// The flags of `tidegate drain`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Send the clients of an orchestrator elsewhere and wait until it owes nothing", after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Clients that are sent away per second
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    per_second: u32,

    /// Where MQTT 5 clients are told to go
    #[arg(long, value_name = "HOST:PORT")]
    server_reference: Option<String>,

    /// Give up after this time; clients stay away all the same
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = humantime::parse_duration)]
    limit: Duration,

    #[command(flatten)]
    admin: AdminArgs,
}

/// How far it is.
struct Left {
    clients: u64,
    owed: u64,
}

/// Drains, and waits.
pub(crate) fn run(args: &Args) -> Exit {
    let until = Instant::now().checked_add(args.limit);
    let body = json!({"server_reference": args.server_reference, "per_second": args.per_second});
    // Somebody else's drain goes on as it is: it may know a better server reference.
    let begun = match left(&args.admin) {
        Ok((true, _)) => Ok(()),
        Ok((false, _)) => args.admin.command("POST", "/api/v1/drain", Some(&body)).map(drop),
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
        match left(&args.admin) {
            Ok((_, Left { clients: 0, owed: 0 })) => return print_and_exit("drained\n", Exit::Ok),
            Ok((_, left)) if until.is_some_and(|until| Instant::now() >= until) => {
                report(&format_args!(
                    "not drained within {}: {} clients are left and {} messages are owed",
                    humantime::format_duration(args.limit),
                    left.clients,
                    left.owed
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

/// Whether it is being drained, and what is left.
fn left(admin: &AdminArgs) -> Result<(bool, Left), AdminError> {
    let answer = admin.request("GET", "/api/v1/drain", None)?;
    let number = |name: &str| answer.get(name).and_then(Value::as_u64);
    match (answer.get("draining").and_then(Value::as_bool), number("clients"), number("owed")) {
        (Some(draining), Some(clients), Some(owed)) => Ok((draining, Left { clients, owed })),
        _ => Err(AdminError::Strange(admin.admin.clone(), "the answer says nothing of a drain".to_owned())),
    }
}
