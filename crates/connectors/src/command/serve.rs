//! Pipelines in a process of their own, as clients of a broker.

use std::sync::Arc;

use tidegate_hub::Hub;

use super::HubArgs;
use crate::hub::HubPart;
use tidegate_administration::BrokerStatus;
use tidegate_administration::console::{self, Admin};
use tidegate_config::Config;
use tidegate_config::hub::Way;
use tidegate_config::source::Source;
use tidegate_logging::Log;
use tidegate_process::signals::{Asked, BrokerSignals};
use tidegate_process::{StartError, service_manager};
use tidegate_terminal::{Exit, report};

/// Runs until it gets a signal to stop.
pub(super) fn run(args: &HubArgs) -> Exit {
    let Some(broker) = &args.broker else {
        let what = if args.run.bus.is_some() {
            "pipelines take messages from a broker, and none from a bus yet: name one with --broker mqtt://HOST:PORT"
        } else {
            "name the broker whose messages are taken: --broker mqtt://HOST:PORT"
        };
        report(&what);
        return Exit::Usage;
    };
    let config = match tidegate_config_cli::load(&args.run) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    if config.pipelines.is_empty() {
        report(&"the configuration has no [[pipeline]]: name a file that has some with -c FILE");
        return Exit::Usage;
    }
    let log = match Log::start(config.log.level, config.log.format) {
        Ok(log) => log,
        Err(error) => {
            report(&format_args!("cannot start the thread that writes the log: {error}"));
            return Exit::Failure;
        }
    };
    let member = args.member.clone().unwrap_or_else(machine);
    let way = match Way::to(broker, args.broker_ca.as_deref(), &member) {
        Ok(way) => way,
        Err(error) => {
            report(&error);
            return Exit::Usage;
        }
    };
    let outcome = serve(&config, &way, &member);
    log.flush();
    outcome.unwrap_or_else(|error| {
        report(&error);
        Exit::Failure
    })
}

fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "hub".to_owned() } else { name.to_owned() }
}

fn serve(config: &Config, way: &Way, member: &str) -> Result<Exit, StartError> {
    let mut signals = BrokerSignals::catch().map_err(|error| format!("cannot catch signals: {error}"))?;
    let status = Arc::new(BrokerStatus::starting());
    // A broker of the same machine has the default address.
    let is_asked_for = *config.source_of("admin", "address") != Source::Default;
    let console = if is_asked_for { console::start(config, &status, None)? } else { None };
    let settings = config.pipeline_settings(way)?;
    let pipelines = settings.len();
    let hub = Arc::new(Hub::start(settings)?);
    status.parts().register_pipelines(Arc::new(HubPart(Arc::clone(&hub))));
    status.services_ready();
    service_manager::tell_ready("hub", &ready_line(member, pipelines, console.as_ref()));
    while signals.wait() == Asked::Reload {
        tracing::info!("pipelines take a new configuration with a restart");
    }
    status.stopping();
    hub.stop(config.shutdown.grace);
    if let Some(console) = console {
        console.running.stop();
    }
    Ok(Exit::Ok)
}

/// The one line on standard output: scripts wait for it.
fn ready_line(member: &str, pipelines: usize, console: Option<&Admin>) -> String {
    let admin = console.map(|admin| format!(" admin=http://{}", admin.address)).unwrap_or_default();
    format!("tidegate {} ready: hub={member} pipelines={pipelines}{admin}\n", env!("CARGO_PKG_VERSION"))
}
