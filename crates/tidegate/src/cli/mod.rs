//! The command line.

mod completions;
mod dispatch;
mod manual;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(feature = "admin")]
pub(crate) use tidegate_admin_cli::{ban, clients, drain, kick, meter, reload, why};
#[cfg(feature = "admin")]
pub(crate) use tidegate_config_cli::ready;
#[cfg(feature = "pipelines")]
pub(crate) use tidegate_connectors::command as hub;
#[cfg(feature = "fleet")]
pub(crate) use tidegate_fleet_cli::{dns, fleet, manager, up};
#[cfg(feature = "mobile")]
pub(crate) use tidegate_gateway::command as core;
#[cfg(feature = "clients")]
pub(crate) use tidegate_mqtt_cli::{publish, request, subscribe};
use tidegate_terminal::help::flowing;

use tidegate_access_cli::{acl, cert, key, passwd};
use tidegate_config_cli::args::ConfigArgs;
use tidegate_config_cli::command::ConfigCommand;

#[cfg(feature = "lab")]
pub(crate) use crate::commands::lab;
#[cfg(not(feature = "mobile"))]
pub(crate) use crate::commands::left_out::core;
#[cfg(not(feature = "pipelines"))]
pub(crate) use crate::commands::left_out::hub;
#[cfg(not(feature = "lab"))]
pub(crate) use crate::commands::left_out::lab;
#[cfg(not(feature = "admin"))]
pub(crate) use crate::commands::left_out::{ban, clients, drain, kick, meter, ready, reload, why};
#[cfg(not(feature = "fleet"))]
pub(crate) use crate::commands::left_out::{dns, fleet, manager, up};
#[cfg(not(feature = "clients"))]
pub(crate) use crate::commands::left_out::{publish, request, subscribe};
use crate::commands::orchestrator;

pub(crate) use dispatch::dispatch;

const ABOUT: &str = "An MQTT broker for 3.1, 3.1.1 and 5.0. Without a command it runs the broker.";

const EXAMPLES: &str = "\
Examples:
  tidegate                                    a broker on 127.0.0.1:1883, for this machine
  tidegate -l 0.0.0.0:1883 --allow-anonymous  one for everybody on the network
  tidegate -p 1883 -l ws://127.0.0.1:9001     one for MQTT and for MQTT over WebSocket
  tidegate --quic 14567                       one for MQTT over QUIC, too
  tidegate --data /var/lib/tidegate           a broker that keeps its messages in a store
  tidegate -c tidegate.toml --shards 2        one with a configuration and two threads
  tidegate --node a --bus embedded:///var/lib/tidegate/bus
  tidegate --node a --bus nats://127.0.0.1:4222
                                              a node of a cluster
  tidegate sub -t 'sensors/#' -v              show published messages
  tidegate pub -t sensors/1 -m 21.5           publish a message
  tidegate config convert mosquitto.conf      carry a configuration of another broker over

MQTT is on 127.0.0.1:1883, metrics and health on http://127.0.0.1:18083, unless you say otherwise.
One line on standard output says when the broker is ready; the log goes to standard error.
SIGTERM and SIGINT stop it gracefully.
Exit codes: 0 done, 1 something went wrong, 2 the command line or configuration is wrong.
Every key of the configuration: `tidegate config explain`; more in docs/configuration.md.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, about = ABOUT, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) run: ConfigArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The commands of `tidegate`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the broker (the same as no command)
    #[command(after_help = EXAMPLES)]
    Run(Box<ConfigArgs>),
    Orchestrator(Box<orchestrator::Args>),
    Pub(Box<publish::Args>),
    Sub(Box<subscribe::Args>),
    Rr(Box<request::Args>),
    Why(why::Args),
    Clients(clients::Args),
    Dns(Box<dns::Args>),
    Drain(drain::Args),
    Ready(ready::ReadyArgs),
    Ban(ban::Args),
    Kick(kick::Args),
    Meter(meter::MeterArgs),
    Passwd(Box<passwd::Args>),
    /// Make, list and revoke API keys in a file
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Check, show, explain and convert configurations
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Have a running broker reload its configuration: exit code 0 when it is in force, 1 when it was refused
    Reload(reload::Args),
    /// Ask the access rules
    #[command(subcommand)]
    Acl(acl::AclCommand),
    /// Back up, check, measure, export and import a data directory
    #[command(subcommand)]
    Store(tidegate_store_cli::StoreCommand),
    /// Show the status, history and plan of a fleet, explain its decisions, simulate policies and make loads for them
    #[cfg_attr(feature = "fleet", command(subcommand))]
    Fleet(fleet::FleetCommand),
    Core(Box<core::Args>),
    Hub(Box<hub::Args>),
    Lab(lab::Args),
    Up(Box<up::Args>),
    Manager(Box<manager::Args>),
    /// Make certificates
    #[command(subcommand)]
    Cert(cert::CertCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  tidegate completions bash > /etc/bash_completion.d/tidegate")]
    Completions {
        /// bash, elvish, fish, powershell or zsh
        shell: clap_complete::Shell,
    },
    /// Print the help of all commands, or the reference of all metrics or reasons, as Markdown
    Manual {
        /// The reference [default: the help of all commands]
        subject: Option<ManualSubject>,
    },
}

/// The subject of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ManualSubject {
    /// The metrics of a broker and their labels
    Metrics,
    /// The reasons of undelivered messages and refused requests, and their remedies
    Reasons,
}

/// Reads the command line of this process; help, and an error in it, ends the process.
pub(crate) fn parse() -> Cli {
    let matches = flowing(Cli::command()).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
