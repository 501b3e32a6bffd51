//! Questions and commands of the admin API to an orchestrator.

use tidegate_admin::fleet::BrokerAddress as NewAddress;
use tidegate_admin::{BrokerStatus as BrokerEntry, DrainRequest, DrainStatus, FleetStatus};
use tidegate_console::Unavailable;
use tidegate_console::api::{ControlError, FleetControl};
use tidegate_engine::{BrokerLinkState, Reason, RoutingPolicy};
use tidegate_node::{BrokerReport, BrokerSettings, FleetError, NodeReport};

use crate::brokers::broker_status;
use crate::status::BrokerStatus;
use tidegate_config::Config;
use tidegate_config::orchestrator::{BrokerAddress, same_place};
use tidegate_config::value::Words;

/// Reasons for dropped messages that this process had no room or time for: a manager may add processes for them.
const NO_ROOM: [Reason; 9] = [
    Reason::MemoryCeiling,
    Reason::QueueFullNewest,
    Reason::QueueFullOldest,
    Reason::QueueFullDisconnect,
    Reason::QueueFullReject,
    Reason::BlockedTooLong,
    Reason::RejectedTooLong,
    Reason::ShardInboxFull,
    Reason::StoreFull,
];

/// Reasons for dropped messages that brokers had no room for.
const NO_BROKER_ROOM: [Reason; 2] = [Reason::FleetFull, Reason::NoBroker];

/// The fleet of an orchestrator.
pub(super) struct Fleet<'a>(pub(super) &'a BrokerStatus);

impl Fleet<'_> {
    fn config(&self) -> Result<&Config, ControlError> {
        let none = || ControlError::Refused("this is a broker, not an orchestrator: it has no fleet".to_owned());
        self.0.fleet_config().ok_or_else(none)
    }
}

impl FleetControl for Fleet<'_> {
    fn status(&self) -> Result<FleetStatus, ControlError> {
        let node = self.0.node()?;
        let config = self.config()?;
        let fleet = node.fleet().report().map_err(|_| Unavailable)?;
        let report = node.report().map_err(|_| Unavailable)?;
        let values = <RoutingPolicy as Words>::VALUES.iter().zip(<RoutingPolicy as Words>::WORDS);
        let policy = values.into_iter().find(|(value, _)| **value == config.orchestrator.policy);
        let brokers: Vec<BrokerEntry> = fleet.brokers.iter().map(broker_status).collect();
        Ok(FleetStatus {
            orchestrator: config.orchestrator.name.clone(),
            policy: policy.map_or_else(String::new, |(_, (word, _))| (*word).to_owned()),
            clients: clients(&report),
            sessions: report.gauges.sessions_connected + report.gauges.sessions_disconnected,
            filters: fleet.filters,
            open: fleet.open,
            identities: fleet.identities,
            owed: brokers.iter().map(|broker| broker.owed).sum(),
            loop_lag_ms: Some(report.lag_ms),
            messages_in: report.counters.messages_in.iter().sum(),
            messages_out: report.counters.messages_out.iter().sum(),
            dropped: Some(NO_ROOM.into_iter().map(|reason| report.counters.dropped[reason.number()]).sum()),
            dropped_fleet_full: Some(
                NO_BROKER_ROOM.into_iter().map(|reason| report.counters.dropped[reason.number()]).sum(),
            ),
            dropped_given_up: Some(report.counters.given_up),
            brokers,
        })
    }

    fn set_broker(&self, name: &str, settings: &NewAddress) -> Result<(), ControlError> {
        let config = self.config()?;
        let invalid =
            |error: tidegate_config::orchestrator::BrokerAddressError| ControlError::Invalid(error.to_string());
        let address = BrokerAddress::of_parts(Some(name), &settings.address).map_err(invalid)?;
        let broker = config.broker_settings(address).map_err(|error| ControlError::Refused(error.to_string()))?;
        let (name, at) = (broker.name.clone(), broker.at.clone());
        let fleet = self.0.node()?.fleet().report().map_err(|_| Unavailable)?;
        check_address(&fleet.brokers, &broker, &settings.replaces)?;
        self.0.node()?.fleet().set_broker(broker).map_err(failed)?;
        tracing::info!(broker = name, %at, "a broker is added to the fleet");
        Ok(())
    }

    fn drain_broker(&self, name: &str) -> Result<(), ControlError> {
        self.config()?;
        self.0.node()?.fleet().drain_broker(name).map_err(failed)?;
        tracing::info!(broker = name, "a broker is drained");
        Ok(())
    }

    fn remove_broker(&self, name: &str, force: bool) -> Result<(), ControlError> {
        self.config()?;
        self.0.node()?.fleet().remove_broker(name, force).map_err(failed)?;
        tracing::info!(broker = name, force, "a broker was taken out of the fleet");
        Ok(())
    }

    fn drain(&self, request: &DrainRequest) -> Result<(), ControlError> {
        let node = self.0.node()?;
        let (reference, per_second) = (request.server_reference.as_deref(), request.per_second);
        let evict_after_s = request.evict_after_s;
        tracing::info!(reference, per_second, evict_after_s, "drain started: clients are sent to other servers");
        self.0.drain().begin(node, request)
    }

    fn end_drain(&self) -> Result<(), ControlError> {
        self.0.drain().end(self.0.node()?)?;
        tracing::info!("drain ended: clients are accepted again");
        Ok(())
    }

    fn drain_status(&self) -> Result<DrainStatus, ControlError> {
        let node = self.0.node()?;
        let report = node.report().map_err(|_| Unavailable)?;
        let fleet = node.fleet().report().map_err(|_| Unavailable)?;
        // Sessions include the sessions of brokers: their waiting and unacknowledged messages.
        let gauges = &report.gauges;
        let sessions_are_owed = gauges.queued_messages + gauges.stored_messages + gauges.inflight_messages;
        let unreturned: u64 = fleet.brokers.iter().map(|broker| broker.broker_link.unreturned).sum();
        Ok(DrainStatus {
            draining: self.0.drain().is_running(),
            clients: clients(&report),
            owed: sessions_are_owed + unreturned,
            kept: gauges.absent_messages,
        })
    }
}

fn failed(error: FleetError) -> ControlError {
    match error {
        FleetError::NoAnswer(_) => Unavailable.into(),
        FleetError::Refused(error) => ControlError::Refused(error.to_string()),
    }
}

/// Clients that are connected to this process: its own clients, and clients that it relays to their home.
fn clients(report: &NodeReport) -> u64 {
    report.gauges.sessions_connected + report.shell.relayed.saturating_sub(report.shell.relays_ended)
}

/// Refuses a second broker at one address: it would get its share twice and deliver everything twice. A leaving broker may
/// still have the address of its successor.
fn check_address(known: &[BrokerReport], new: &BrokerSettings, replaces: &[String]) -> Result<(), ControlError> {
    let leaves = |state| matches!(state, BrokerLinkState::Draining | BrokerLinkState::Drained);
    let other = known.iter().find(|other| {
        let other_name = &other.broker_link.name;
        let same = same_place(&other.at, &new.at) && *other_name != new.name;
        same && !leaves(other.broker_link.state) && !replaces.contains(other_name)
    });
    match other {
        None => Ok(()),
        Some(other) => Err(ControlError::Refused(format!(
            "broker `{}` has the address {} already: drain and remove it first, or give `{}` its own",
            other.broker_link.name, new.at, new.name
        ))),
    }
}
