//! `tidegate core`: services for mobile nodes without a broker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use tidegate_node::release_program_pages;

use crate::core::{Service, Services, start_services};
use tidegate_administration::BrokerStatus;
use tidegate_administration::console::{self, Admin};
use tidegate_config::Config;
use tidegate_config::source::Source;
use tidegate_config_cli::args::ConfigArgs;
use tidegate_logging::Log;
use tidegate_process::signals::{Asked, BrokerSignals};
use tidegate_process::{StartError, service_manager};
use tidegate_terminal::{Exit, report};

/// Interval of checks whether the services work, until they do.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a start that waits says so.
const STILL_WAITING: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  tidegate core --bus embedded:///var/lib/tidegate/bus
  tidegate core --bus nats://127.0.0.1:4222
  tidegate core --bus nats://127.0.0.1:4222 --services groups --groups city.toml --member groups-2
  tidegate core -c core.toml --admin 127.0.0.1:18090

Gateways are brokers with context.enabled on the same bus. Each service may run several times, under different names:
one manager works and the others stand by; definers of the same groups share the nodes. It says that it is ready when all
of them have found their logs on the bus and their share of the work; a bus that is away is waited for. Health and metrics
are served where --admin says, and nowhere without it. All settings are in [context] of docs/configuration.md, and
only those, of [admin] and of [log] count. A password in an address is seen in the process list: put it into the configuration
file (context.bus) or into the environment (TIDEGATE__CONTEXT__BUS) instead.";

/// Run services for mobile nodes beside their gateways: which node at which gateway, and in which groups
#[derive(Clone, Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The services to run
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Service::Points, Service::Groups])]
    services: Vec<Service>,

    /// A file of groups, for one definer; repeatable
    #[arg(long, value_name = "FILE")]
    groups: Vec<String>,

    /// The name of this process among the processes of the same services [default: core-HOST-PID]
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
        // To a broker `--bus` is that of its cluster; here it is the bus of the gateways.
        set.extend(sources.bus.take().map(|bus| ("context.bus".to_owned(), bus)));
        // A key set by name wins over a flag, as everywhere.
        set.append(&mut sources.set);
        sources.set = set;
        sources
    }
}

/// Runs until it is stopped.
pub fn run(args: &Args) -> Exit {
    let config = match tidegate_config_cli::load(&args.sources()) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    let log = match Log::of_command(config.log.level, config.log.format) {
        Ok(log) => log,
        Err(exit) => return exit,
    };
    if !tidegate_config::context::has_shared_bus(&config) {
        report(
            &"tidegate core needs a bus that gateways are on, too: name it with --bus, or run a broker with context.enabled",
        );
        return Exit::Usage;
    }
    if let Some(why) = has_nothing_to_do(args, &config) {
        report(&why);
        return Exit::Usage;
    }
    let outcome = serve(args, &config);
    log.flush();
    outcome.unwrap_or_else(|error| {
        report(&error);
        Exit::Failure
    })
}

/// The fault of a command for groups alone without any group.
fn has_nothing_to_do(args: &Args, config: &Config) -> Option<&'static str> {
    let only_groups = args.services.iter().all(|service| *service == Service::Groups);
    (only_groups && config.context.groups.0.is_empty())
        .then_some("there are no groups to define: name a file of them with --groups FILE, or context.groups")
}

fn serve(args: &Args, config: &Config) -> Result<Exit, StartError> {
    let mut signals = BrokerSignals::catch().map_err(|error| format!("cannot catch signals: {error}"))?;
    let member = args
        .member
        .clone()
        .unwrap_or_else(|| own_name(&tidegate_proc::host_name().unwrap_or_default(), std::process::id()));
    let status = Arc::new(BrokerStatus::starting());
    // A broker of the same machine has the default address.
    let is_asked_for = *config.origins.source_of("admin", "address") != Source::Default;
    let console = if is_asked_for { console::start(config, &status, None)? } else { None };
    let (core, services) = start_services(config, &member, &args.services)?;
    let line = ready_line(&member, &services.names(), console.as_ref());
    let services = Arc::new(services);
    status.parts().register_services(Arc::clone(&services) as _);
    if wait_until_ready(&services, &mut signals)? {
        status.ready();
        service_manager::tell_ready("core", &line);
        release_program_pages();
        while signals.wait() == Asked::Reload {
            tracing::info!("services of the core take a new configuration with a restart");
        }
    }
    status.stopping();
    drop(core);
    if let Some(console) = console {
        console.running.stop();
    }
    Ok(Exit::Ok)
}

/// Waits until all services work or stand by; false when the process is stopped before. It waits for an absent bus
/// without end; a bus that can never work is an error.
fn wait_until_ready(services: &Services, signals: &mut BrokerSignals) -> Result<bool, StartError> {
    let mut told = Instant::now();
    while let Some(lack) = services.lack() {
        if !lack.passes {
            return Err(lack.cause.into());
        }
        if signals.stop_is_asked() {
            return Ok(false);
        }
        // Of a bus that is not reached the bus itself tells.
        if told.elapsed() > STILL_WAITING && services.reach_bus() {
            told = Instant::now();
            tracing::warn!(why = lack.cause, "the services are not ready yet");
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
    Ok(true)
}

/// The one line on standard output: scripts wait for it.
fn ready_line(member: &str, services: &str, console: Option<&Admin>) -> String {
    let admin = console.map(|admin| format!(" admin=http://{}", admin.address)).unwrap_or_default();
    format!("tidegate {} ready: core={member} services={services}{admin}\n", env!("CARGO_PKG_VERSION"))
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
