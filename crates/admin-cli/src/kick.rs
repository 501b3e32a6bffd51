//! `tidegate kick`: closes connections.

use clap::Args as ClapArgs;
use tidegate_admin::KickRequest;
use tidegate_terminal::{Exit, print_and_exit, report};

use super::ban::Target;
use crate::admin_client::{AdminArgs, json_line, name_unreachable};
use tidegate_units::visible::shown;

const EXAMPLES: &str = "\
Examples:
  tidegate kick client sensor-17
  tidegate kick user bob --tenant acme
  tidegate kick address 192.0.2.0/24

It closes connections, on all nodes of a cluster, and does not keep anybody from connecting again: `tidegate ban` does. An
MQTT 5 client gets 0x98. Exit codes: 0 done, 1 not done, 3 done but for nodes that did not answer.";

/// The flags of `tidegate kick`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Close the connections of a client, a user or an address", after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// Closes connections.
pub fn run(args: &Args) -> Exit {
    let (kind, name) = args.target.named();
    match args.admin.send(&KickRequest { target: args.target.asked(), tenant: args.target.tenant() }) {
        Ok(answer) => {
            let text = format!("{kind} {}: connections closed: {}\n", shown(name), answer.closed);
            let text = if args.json { json_line(&answer) } else { text };
            print_and_exit(&text, name_unreachable(&answer.unreachable))
        }
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}
