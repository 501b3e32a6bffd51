//! The flags of every command that loads a configuration.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use tidegate_config::load::Sources;
use tidegate_config::overrides::{Flags, split_setting};

const LISTEN: &str =
    "Listen here: PORT (on loopback), HOST:PORT, ws://HOST:PORT/PATH, quic://HOST:PORT or unix:/PATH; repeatable";

const QUIC: &str = "Listen for MQTT over QUIC, too: PORT (on loopback) or HOST:PORT; on loopback a certificate for development is made where none is given; repeatable";

const SET: &str = "Set any key, such as queue.max_messages=1000 or listener.0.maximum_qos=1; repeatable";

/// The flags that name a configuration file and set keys, shared by all commands that load a configuration.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Configuration file, TOML
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Address to listen on instead of the configured listeners.
    #[arg(short, long, value_name = "ADDRESS", help = LISTEN)]
    pub listen: Vec<String>,

    /// Listen on this port of loopback; the same as --listen PORT
    #[arg(short, long, value_name = "PORT")]
    pub port: Vec<u16>,

    /// Address to listen on for QUIC, beside the other listeners.
    #[arg(long, value_name = "ADDRESS", help = QUIC)]
    pub quic: Vec<String>,

    /// Let everybody in who reaches a listener, also from other machines
    #[arg(long)]
    pub allow_anonymous: bool,

    /// Threads that work clients [default: one for every two cores]
    #[arg(long, value_name = "N")]
    pub shards: Option<String>,

    /// Keep sessions, their messages and retained messages in this directory
    #[arg(long, value_name = "DIR", value_parser = NonEmptyStringValueParser::new())]
    pub data: Option<String>,

    /// Be the node of this name in a cluster; needs --bus
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub node: Option<String>,

    /// The bus of the cluster, or of the services of `core`: `embedded://DIRECTORY`, shared by processes of one machine,
    /// nats://HOST:PORT, or kafka://HOST:PORT in a build with that feature
    #[arg(long, value_name = "ADDRESS", value_parser = NonEmptyStringValueParser::new())]
    pub bus: Option<String>,

    /// Address at which other nodes of the cluster reach this one [default: a free port on the first listener's address]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = NonEmptyStringValueParser::new())]
    pub cluster_listen: Option<String>,
    /// Keep the files of the data directory on this bus, too: nats://HOST:PORT, or kafka://HOST:PORT in a build with
    /// that feature; needs --mirror-name
    #[arg(long, value_name = "ADDRESS", value_parser = NonEmptyStringValueParser::new())]
    pub mirror: Option<String>,

    /// Replica name: a broker started with this name resumes from these files on the bus
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub mirror_name: Option<String>,

    /// Metrics and health over HTTP: ADDRESS:PORT, or `off` [default: 127.0.0.1:18083]
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,

    /// How much is logged: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<String>,

    /// How a line of the log is written: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,

    /// Keys and their values.
    #[arg(long, value_name = "KEY=VALUE", value_parser = split_setting, help = SET)]
    pub set: Vec<(String, String)>,
}

impl ConfigArgs {
    /// The sources that these flags name.
    pub fn sources(&self) -> Sources {
        Sources { file: self.config.clone(), flags: self.flags() }
    }

    /// The flags as the configuration takes them.
    pub fn flags(&self) -> Flags {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        run: ConfigArgs,
    }

    #[test]
    fn flags_that_turn_something_on_are_not_empty() {
        // An unset variable of a script must not start a broker that keeps nothing, or one outside its cluster.
        for flag in ["--data", "--node", "--bus", "--cluster-listen", "--mirror", "--mirror-name"] {
            let error = Command::try_parse_from(["tidegate", flag, ""]).unwrap_err().to_string();
            assert!(error.contains(flag) && error.contains("none was supplied"), "{error}");
        }
    }

    #[test]
    fn general_flags_come_behind_specific_ones_and_win() {
        let arguments = ["tidegate", "--set", "log.level=debug", "-p", "1", "-l", "2", "--log", "warn"];
        let flags = Command::parse_from(arguments).run.flags();
        let listen: Vec<&str> = flags.listen.iter().map(|(address, _)| address.as_str()).collect();
        assert_eq!(listen, ["2", "1"]);
        let set: Vec<(&str, &str)> = flags.set.iter().map(|(key, value, _)| (key.as_str(), value.as_str())).collect();
        assert_eq!(set, [("log.level", "warn"), ("log.level", "debug")]);
    }
}
