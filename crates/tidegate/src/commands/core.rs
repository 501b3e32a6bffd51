//! `tidegate core`: services for mobile nodes without a broker.

use clap::Args as ClapArgs;
use tidegate_node::release_program_pages;

use crate::cli::ConfigArgs;
use crate::context::{Service, start_services};
use crate::exit::{Exit, print, report};
use crate::logging::Log;
use crate::signals::{Asked, BrokerSignals};

const EXAMPLES: &str = "\
Examples:
  tidegate core --bus nats://127.0.0.1:4222
  tidegate core --bus nats://127.0.0.1:4222 --services groups --groups city.toml --member groups-2
  tidegate core -c core.toml

Gateways are brokers with context.enabled on the same bus. Each service may run several times, under different names:
one manager works and the others stand by; definers of the same groups share the nodes. All settings are those of
[context] in docs/configuration.md. A password in an address is seen in the process list: put it into the configuration
file (context.bus) or into the environment (TIDEGATE__CONTEXT__BUS) instead.";

/// Run services for mobile nodes beside their gateways: which node at which gateway, and in which groups
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Which services
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Service::Points, Service::Groups])]
    services: Vec<Service>,

    /// A file of groups, for one definer; repeatable
    #[arg(long, value_name = "FILE")]
    groups: Vec<String>,

    /// The name of this process among those that run the same services [default: core-HOST-PID]
    #[arg(long, value_name = "NAME")]
    member: Option<String>,

    #[command(flatten)]
    run: ConfigArgs,
}

impl Args {
    fn sources(&self) -> ConfigArgs {
        let mut sources = self.run.clone();
        let mut set = Vec::new();
        if !self.groups.is_empty() {
            set.push(("context.groups".to_owned(), self.groups.join(",")));
        }
        // To a broker `--bus` is that of its cluster; here it is the one that the gateways are on.
        set.extend(sources.bus.take().map(|bus| ("context.bus".to_owned(), bus)));
        // What was set by name wins over a flag, as everywhere.
        set.append(&mut sources.set);
        sources.set = set;
        sources
    }
}

/// Runs until it is told to stop.
pub(crate) fn run(args: &Args) -> Exit {
    let config = match super::config::load(&args.sources()) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let log = match Log::start(config.log.level, config.log.format) {
        Ok(log) => log,
        Err(error) => {
            report(&format_args!("cannot start the thread that writes the log: {error}"));
            return Exit::Failure;
        }
    };
    if !crate::context::has_shared_bus(&config) {
        report(
            &"tidegate core needs a bus that gateways are on, too: name it with --bus, or run a broker with context.enabled",
        );
        return Exit::Usage;
    }
    let outcome = serve(args, &config);
    log.flush();
    outcome.unwrap_or_else(|error| {
        report(&error);
        Exit::Failure
    })
}

fn serve(args: &Args, config: &crate::config::Config) -> Result<Exit, String> {
    let mut signals = BrokerSignals::catch().map_err(|error| format!("cannot catch signals: {error}"))?;
    let member = args.member.clone().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        own_name(host.trim(), std::process::id())
    });
    let core = start_services(config, &member, &args.services)?;
    let line = format!("tidegate {} ready: core={member}\n", env!("CARGO_PKG_VERSION"));
    if let Err(error) = print(&line) {
        tracing::warn!(%error, "standard output is closed; nobody was told that the services run");
    }
    release_program_pages();
    while signals.wait() == Asked::Reload {
        tracing::info!("services of the core take a new configuration with a restart");
    }
    drop(core);
    Ok(Exit::Ok)
}

/// A name that no other process has: in containers the process id is the same in all, and the host is another one.
fn own_name(host: &str, process: u32) -> String {
    // Names of members have 64 bytes, and hosts differ at their end where they are many of a kind.
    let tail: String = host.chars().rev().take(48).collect::<Vec<_>>().into_iter().rev().collect();
    if tail.is_empty() { format!("core-{process}") } else { format!("core-{tail}-{process}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_containers_have_two_names() {
        assert_eq!(own_name("0f3a91", 1), "core-0f3a91-1");
        assert_eq!(own_name("", 7), "core-7");
        let pod = |end: &str| own_name(&format!("{}-{end}", "core".repeat(14)), u32::MAX);
        assert_ne!(pod("abcde"), pod("fghij"));
        assert!(pod("abcde").len() <= 64 && pod("abcde").contains("-abcde-"));
    }
}
