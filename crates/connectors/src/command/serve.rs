//! Pipelines in a process of their own: over a bus, or as clients of a broker.

use std::sync::Arc;

use tidegate_hub::{Hub, PipelineSettings};

use super::Args;
use crate::hub::HubPart;
use tidegate_administration::BrokerStatus;
use tidegate_administration::console::{self, Admin};
use tidegate_config::Config;
use tidegate_config::hub::{FilesOf, OnBus, PipelineError, Way, check_files};
use tidegate_config::source::Source;
use tidegate_logging::Log;
use tidegate_process::signals::{Asked, BrokerSignals};
use tidegate_process::{StartError, service_manager};
use tidegate_terminal::{Exit, complain, report};

/// The origin of this process's messages.
struct Origin {
    member: String,
    broker: Option<Way>,
    bus: Option<OnBus>,
}

impl Origin {
    fn of(args: &Args, config: &Config) -> Result<Self, PipelineError> {
        let bus = config.hub.bus.as_deref();
        // Members on a bus have no messages of their own, so each process may have another name.
        let own = if bus.is_some() { format!("{}-{}", machine(), std::process::id()) } else { machine() };
        let member = args.member.clone().unwrap_or(own);
        let way = |broker: &String| Way::to(broker, args.broker_ca.as_deref(), &member);
        let broker = args.broker.as_ref().map(way).transpose()?;
        let bus = bus.map(|address| OnBus::new(address, &member)).transpose()?;
        Ok(Self { member, broker, bus })
    }

    fn settings(&self, config: &Config) -> Result<Vec<PipelineSettings>, PipelineError> {
        config.pipelines_beside(self.bus.as_ref(), self.broker.as_ref())
    }
}

/// Runs until it gets a signal to stop.
pub(super) fn run(args: &Args) -> Exit {
    let config = match tidegate_config_cli::load(&args.sources()) {
        Ok(config) => config,
        Err(exit) => return exit,
    };
    if config.pipelines.is_empty() {
        report(&"the configuration has no [[pipeline]]: name a file that has some with -c FILE");
        return Exit::Usage;
    }
    if let Err(findings) = check_files(&config, FilesOf::Hub) {
        complain(findings);
        return Exit::Usage;
    }
    let origin = Origin::of(args, &config).and_then(|origin| Ok((origin.settings(&config)?, origin)));
    let (settings, origin) = match origin {
        Ok(origin) => origin,
        Err(error) => {
            report(&error);
            return Exit::Usage;
        }
    };
    let log = match Log::of_command(config.log.level, config.log.format) {
        Ok(log) => log,
        Err(exit) => return exit,
    };
    let outcome = serve(&config, settings, &origin.member);
    log.flush();
    outcome.unwrap_or_else(|error| {
        report(&error);
        Exit::Failure
    })
}

fn machine() -> String {
    tidegate_proc::host_name().unwrap_or_else(|| "hub".to_owned())
}

fn serve(config: &Config, settings: Vec<PipelineSettings>, member: &str) -> Result<Exit, StartError> {
    let mut signals = BrokerSignals::catch().map_err(|error| format!("cannot catch signals: {error}"))?;
    let status = Arc::new(BrokerStatus::starting());
    // A broker of the same machine has the default address.
    let is_asked_for = *config.origins.source_of("admin", "address") != Source::Default;
    let console = if is_asked_for { console::start(config, &status, None)? } else { None };
    let pipelines = settings.len();
    let hub = Arc::new(Hub::start(settings)?);
    status.parts().register_pipelines(Arc::new(HubPart(Arc::clone(&hub))));
    status.ready();
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
