//! `tidegate orchestrator`: an MQTT server whose messages are worked by other brokers.

use clap::Args as ClapArgs;
use clap::builder::NonEmptyStringValueParser;

use tidegate_config_cli::args::ConfigArgs;

const EXAMPLES: &str = "\
Examples:
  tidegate orchestrator --listen 0.0.0.0:1883 --allow-anonymous --broker mqtt://10.0.0.1:1883 --broker mqtt://10.0.0.2:1883
  tidegate orchestrator --broker a=mqtt://127.0.0.1:1884 --broker b=mqtt://127.0.0.1:1885 --policy round-robin
  tidegate orchestrator --data /var/lib/tidegate -c orchestrator.toml
  tidegate orchestrator --node a --bus embedded://bus --data a --broker mqtt://10.0.0.1:1883

Clients see one broker. Each PUBLISH goes to one broker of the fleet; subscriptions go to all of them. A message acknowledged to its
publisher is kept until a broker has acknowledged it and, if a client subscribed to it, sent it back.
A password in an address is seen in the process list: put it into the configuration file (orchestrator.brokers) or into
the environment (TIDEGATE__ORCHESTRATOR__BROKERS) instead.";

/// Run an orchestrator: clients see one server, and a fleet of brokers of any kind does the work
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A broker of the fleet: mqtt://HOST:PORT, with NAME= before it where wanted, mqtts:// for TLS; repeatable
    #[arg(short, long, value_name = "[NAME=]ADDRESS", value_parser = NonEmptyStringValueParser::new())]
    broker: Vec<String>,

    /// How publishes are spread: topic-hash, round-robin or least-loaded [default: topic-hash]
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,

    /// Its name in the fleet [default: made at random, and kept in the data directory]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: Option<String>,

    /// A former flag, whose key is refused with the present one
    #[arg(long, value_name = "HOST:PORT", hide = true)]
    relay: Option<String>,

    #[command(flatten)]
    run: ConfigArgs,
}

impl Args {
    /// The sources of the configuration, with the keys of these flags.
    pub(crate) fn sources(&self) -> ConfigArgs {
        let mut sources = self.run.clone();
        let mut set = vec![("orchestrator.enabled".to_owned(), "true".to_owned())];
        if !self.broker.is_empty() {
            set.push(("orchestrator.brokers".to_owned(), self.broker.join(",")));
        }
        let named = [
            ("orchestrator.policy", &self.policy),
            ("orchestrator.name", &self.name),
            ("orchestrator.relay", &self.relay),
        ];
        set.extend(named.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?))));
        // A key set by name wins over a flag, as everywhere.
        set.append(&mut sources.set);
        sources.set = set;
        sources
    }
}
