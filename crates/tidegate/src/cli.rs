//! The command line.

use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use tidegate_admin_cli::{ban, clients, drain, kick, meter, why};
use tidegate_fleet_cli::{dns, manager, up};
use tidegate_mqtt_cli::{publish, request, subscribe};
use tidegate_terminal::help::flowing;

use crate::commands::{core, hub, lab, orchestrator, passwd};
use tidegate_config::overrides::{Flags, split_setting};

const ABOUT: &str = "An MQTT broker for 3.1, 3.1.1 and 5.0. Without a command it runs the broker.";

const EXAMPLES: &str = "\
Examples:
  tidegate                                    a broker on 127.0.0.1:1883, for this machine
  tidegate -l 0.0.0.0:1883 --allow-anonymous  one for everybody on the network
  tidegate -p 1883 -l ws://127.0.0.1:9001     one for MQTT and for MQTT over WebSocket
  tidegate --quic 14567                       one for MQTT over QUIC, too
  tidegate --data /var/lib/tidegate           one that keeps what it has acknowledged
  tidegate -c tidegate.toml --shards 2        one with a configuration and two threads
  tidegate --node a --bus embedded:///var/lib/tidegate/bus
  tidegate --node a --bus nats://127.0.0.1:4222
                                              a node of a cluster
  tidegate sub -t 'sensors/#' -v              show what is published
  tidegate pub -t sensors/1 -m 21.5           publish a message
  tidegate config convert mosquitto.conf      carry a configuration of another broker over

MQTT is on 127.0.0.1:1883, metrics and health on http://127.0.0.1:18083, unless you say otherwise.
One line on standard output says when the broker is ready; the log goes to standard error.
SIGTERM and SIGINT stop it gracefully.
Exit codes: 0 done, 1 something went wrong, 2 the command line or configuration is wrong.
Every key of the configuration: `tidegate config explain`, or docs/configuration.md.";

const LISTEN: &str =
    "Listen here: PORT (on loopback), HOST:PORT, ws://HOST:PORT/PATH, quic://HOST:PORT or unix:/PATH; repeatable";

const QUIC: &str = "Listen for MQTT over QUIC, too: PORT (on loopback) or HOST:PORT; on loopback a certificate for development is made where none is given; repeatable";

const SET: &str = "Set any key, such as queue.max_messages=1000 or listener.0.maximum_qos=1; repeatable";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, about = ABOUT, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) run: ConfigArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What `tidegate` can be told to do.
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
    Ban(ban::Args),
    Kick(kick::Args),
    Meter(meter::MeterArgs),
    Passwd(Box<passwd::Args>),
    /// Check, show, explain and convert configurations
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Have a running broker read its configuration anew: exit code 0 when it is in force, 1 when it was refused
    Reload(tidegate_admin_cli::reload::Args),
    /// Ask the access rules
    #[command(subcommand)]
    Acl(AclCommand),
    /// Back up, check, measure, export and import a data directory
    #[command(subcommand)]
    Store(crate::commands::store::StoreCommand),
    /// Show the status, history and plan of a fleet, explain its decisions, simulate policies and make loads for them
    #[command(subcommand)]
    Fleet(tidegate_fleet_cli::fleet::FleetCommand),
    Core(Box<core::Args>),
    Hub(Box<hub::HubArgs>),
    Lab(lab::Args),
    Up(Box<up::Args>),
    Manager(Box<manager::Args>),
    /// Make certificates
    #[command(subcommand)]
    Cert(CertCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  tidegate completions bash > /etc/bash_completion.d/tidegate")]
    Completions {
        /// bash, elvish, fish, powershell or zsh
        shell: clap_complete::Shell,
    },
}

const ACL_TEST: &str = "\
Examples:
  tidegate acl test alice sensor-1 publish plant/1/temperature -c tidegate.toml
  tidegate acl test - guest subscribe 'public/#' --set access.acl_file=acl --explain
Exit codes: 0 allowed, 1 denied, 2 the question or the configuration is wrong.";

const CERT_DEV: &str = "\
Examples:
  tidegate cert dev
  tidegate cert dev --out /tmp/certs --name broker.lan --name 192.168.1.20";

/// What can be made of certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum CertCommand {
    /// Make an authority, a server's certificate and a client's, to try TLS
    #[command(after_help = CERT_DEV)]
    Dev(crate::commands::CertDevArgs),
}

/// What can be asked of access rules.
#[derive(Debug, Subcommand)]
pub(crate) enum AclCommand {
    /// Say whether a client may do something, and which rule decides
    #[command(after_help = ACL_TEST)]
    Test(Box<crate::commands::AclTestArgs>),
}

/// What can be done with a configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a file: exit code 0 when it is right, 1 with every problem when it is not
    Check {
        /// The file; the environment and flags are left out
        file: PathBuf,
    },
    /// Print the configuration as TOML, with the source of each value
    Show {
        /// All keys, not only those that were set
        #[arg(long)]
        effective: bool,
        #[command(flatten)]
        sources: Box<ConfigArgs>,
    },
    /// Explain a key, the keys of a section, or list the sections
    Explain {
        /// Such as `queue.overflow` or `queue`
        key: Option<String>,
    },
    /// Write the configuration of another broker as ours, and report the outcome of each line
    ///
    /// Mosquitto, EMQX, HiveMQ, NanoMQ, RabbitMQ and VerneMQ are recognised by the content of the file. The exit code is
    /// 0 where all was carried over or is done in another way, 3 where something was left out, and 2 where the file is
    /// no configuration of any of them.
    Convert(ConvertArgs),
    /// Print the reference page of all keys, Markdown
    Reference,
}

/// What `config convert` reads and writes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConvertArgs {
    /// mosquitto.conf, dynamic-security.json, emqx.conf, HiveMQ's config.xml, nanomq.conf, rabbitmq.conf, definitions.json or vernemq.conf
    pub(crate) file: PathBuf,
    /// The broker that the file belongs to, where its content does not say it
    #[arg(long, value_name = "BROKER")]
    pub(crate) from: Option<From>,
    /// Write here instead of to standard output, users beside it with the ending .users; a directory for dynamic-security.json
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Print each line with `carried`, `changed` or `refused` and why, and the result, as JSON
    #[arg(long, conflicts_with = "diff")]
    pub(crate) json: bool,
    /// Print each line with what it becomes, in place of the result
    #[arg(long)]
    pub(crate) diff: bool,
}

/// A broker whose configuration is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum From {
    /// EMQX
    Emqx,
    /// HiveMQ
    Hivemq,
    /// Mosquitto
    Mosquitto,
    /// NanoMQ
    Nanomq,
    /// RabbitMQ
    Rabbitmq,
    /// VerneMQ
    Vernemq,
}

impl From {
    /// The broker; `None` for Mosquitto, whose configurations have a crate of their own.
    pub(crate) const fn broker(self) -> Option<tidegate_foreign_conf::Broker> {
        use tidegate_foreign_conf::Broker;
        match self {
            Self::Emqx => Some(Broker::Emqx),
            Self::Hivemq => Some(Broker::HiveMq),
            Self::Mosquitto => None,
            Self::Nanomq => Some(Broker::NanoMq),
            Self::Rabbitmq => Some(Broker::RabbitMq),
            Self::Vernemq => Some(Broker::VerneMq),
        }
    }
}

/// Where the configuration comes from: shared by everything that needs one.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigArgs {
    /// Configuration file, TOML
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where to listen instead of the configured listeners.
    #[arg(short, long, value_name = "ADDRESS", help = LISTEN)]
    pub(crate) listen: Vec<String>,

    /// Listen on this port of loopback; the same as --listen PORT
    #[arg(short, long, value_name = "PORT")]
    pub(crate) port: Vec<u16>,

    /// Where to listen for QUIC, beside the other listeners.
    #[arg(long, value_name = "ADDRESS", help = QUIC)]
    pub(crate) quic: Vec<String>,

    /// Let everybody in who reaches a listener, also from other machines
    #[arg(long)]
    pub(crate) allow_anonymous: bool,

    /// Threads that work clients [default: one for every two cores]
    #[arg(long, value_name = "N")]
    pub(crate) shards: Option<String>,

    /// Keep sessions, what they are owed and retained messages in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,

    /// Be the node of this name in a cluster; needs --bus
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,

    /// The bus of the cluster, or of the services of `core`: embedded://DIRECTORY, shared by processes of one machine,
    /// nats://HOST:PORT, or kafka://HOST:PORT in a build with that feature
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bus: Option<String>,

    /// Where other nodes of the cluster reach this one [default: a free port on the first listener's address]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) cluster_listen: Option<String>,
    /// Keep the files of the data directory on this bus, too: nats://HOST:PORT, or kafka://HOST:PORT in a build with
    /// that feature; needs --mirror-name
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) mirror: Option<String>,

    /// Whose files they are on the bus: whoever starts with this name goes on with them
    #[arg(long, value_name = "NAME")]
    pub(crate) mirror_name: Option<String>,

    /// Metrics and health over HTTP: ADDRESS:PORT, or `off` [default: 127.0.0.1:18083]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<String>,

    /// How much is logged: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log: Option<String>,

    /// How a line of the log is written: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,

    /// Keys and their values.
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting, help = SET)]
    pub(crate) set: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    split_setting(text).map_err(|problem| problem.message)
}

impl ConfigArgs {
    /// The flags as the configuration takes them.
    pub(crate) fn flags(&self) -> Flags {
        let listen = self.listen.iter().map(|address| (address.clone(), format!("--listen {address}")));
        let ports = self.port.iter().map(|port| (port.to_string(), format!("--port {port}")));
        let quic = self.quic.iter().map(|address| (address.clone(), format!("--quic {address}")));
        let single = [
            ("node.shards", "--shards", &self.shards),
            ("store.directory", "--data", &self.data),
            ("cluster.name", "--node", &self.node),
            ("cluster.bus", "--bus", &self.bus),
            ("cluster.listen", "--cluster-listen", &self.cluster_listen),
            ("mirror.bus", "--mirror", &self.mirror),
            ("mirror.name", "--mirror-name", &self.mirror_name),
            ("admin.address", "--admin", &self.admin),
            ("log.level", "--log", &self.log),
            ("log.format", "--log-format", &self.log_format),
        ];
        let single = single.into_iter().filter_map(|(key, flag, value)| {
            let value = value.as_ref()?;
            Some((key.to_owned(), value.clone(), format!("{flag} {value}")))
        });
        let set = self.set.iter().map(|(key, value)| {
            let flag = format!("--set {key}={value}");
            (key.clone(), value.clone(), flag)
        });
        Flags {
            listen: listen.chain(ports).collect(),
            quic: quic.collect(),
            set: single.chain(set).collect(),
            allow_anonymous: self.allow_anonymous,
        }
    }
}

/// Reads the command line of this process; help, and what is wrong with it, ends the process.
pub(crate) fn parse() -> Cli {
    let matches = flowing(Cli::command()).get_matches();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    const INTRODUCTION: &str = "\
# Command line

<!-- Made from the help texts in crates/tidegate/src; a test keeps it current. -->

`tidegate` alone runs the broker; everything else is a subcommand. Data goes to standard output, everything said about it to standard error.
Nothing depends on colour. `tidegate completions SHELL` prints completions for bash, elvish, fish, powershell and zsh.

| exit code | |
| --- | --- |
| 0 | done; for the broker: stopped as asked |
| 1 | something went wrong at run time, such as an address in use; also a file that `config check` finds wrong |
| 2 | the command line or the configuration is wrong |
| 3 | done, and something was left out: `config convert` ([mosquitto](mosquitto.md), [other brokers](other-brokers.md)) |
| 101 | a defect: a thread panicked ([operations](operations.md#defects)) |

How flags, environment and file go together is in [configuration.md](configuration.md).
";

    /// Adds the help of a command and of those below it.
    fn add(page: &mut String, command: &mut clap::Command) {
        let name = command.get_bin_name().unwrap_or("tidegate").to_owned();
        *command = std::mem::take(command).term_width(WIDTH);
        // As `--help` decides: the long form only where some help is longer than its short form.
        let long = command.get_long_about().is_some()
            || command.get_after_long_help().is_some()
            || command.get_arguments().any(|argument| argument.get_long_help().is_some());
        let help = if long { command.render_long_help() } else { command.render_help() }.to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        let _ = write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n").trim());
        for below in command.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            add(page, below);
        }
    }

    /// The width of the page, whatever terminal the test runs in.
    const WIDTH: usize = 100;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Set `UPDATE_DOCS=1` to write the page anew.
    #[test]
    fn the_page_of_the_command_line_is_current() {
        let mut page = INTRODUCTION.to_owned();
        let mut command = flowing(Cli::command());
        command.build();
        add(&mut page, &mut command);
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == page, "docs/cli.md is not current: run the test with UPDATE_DOCS=1");
    }

    #[test]
    fn general_flags_come_behind_specific_ones_and_win() {
        let arguments = ["tidegate", "--set", "log.level=debug", "-p", "1", "-l", "2", "--log", "warn"];
        let flags = Cli::parse_from(arguments).run.flags();
        let listen: Vec<&str> = flags.listen.iter().map(|(address, _)| address.as_str()).collect();
        assert_eq!(listen, ["2", "1"]);
        let set: Vec<(&str, &str)> = flags.set.iter().map(|(key, value, _)| (key.as_str(), value.as_str())).collect();
        assert_eq!(set, [("log.level", "warn"), ("log.level", "debug")]);
    }
}
