//! Features used together: each scenario starts processes with many of them at once and uses every one. The page
//! `docs/composition.md` shows each pair with the scenario that covers it.

mod chart;
mod features;
mod fleet;
mod member;
mod page;
mod pipelines;
mod stage;

use features::Feature;
use stage::Stage;

use crate::broker::Folder;
use crate::nats::Nats;

/// Of one process with everything.
const BROKER: [Feature; 18] = [
    Feature::Store,
    Feature::Tls,
    Feature::Users,
    Feature::Rules,
    Feature::Tenants,
    Feature::Quic,
    Feature::WebSocket,
    Feature::Bridges,
    Feature::Addresses,
    Feature::Points,
    Feature::Groups,
    Feature::Applications,
    Feature::Pipelines,
    Feature::Console,
    Feature::Why,
    Feature::Ban,
    Feature::Clients,
    Feature::Reload,
];

/// The features that a fleet adds.
const FLEET: [Feature; 3] = [Feature::Manager, Feature::Machines, Feature::Dns];

/// Uses all features of a stage: the features of one process, of the set-up, and the others that it notes.
fn uses(mut stage: Stage, by_setup: &[Feature], others: &[Feature]) {
    stage.use_all();
    for feature in by_setup {
        stage.note(*feature);
    }
    stage.used_just(&[&BROKER[..], by_setup, others].concat());
}

/// A stage on a bus in a directory.
fn embedded(stage: impl FnOnce(&str) -> Stage, by_setup: &[Feature], others: &[Feature]) {
    let folder = Folder::new();
    uses(stage(&format!("embedded://{}", folder.file("bus"))), by_setup, others);
}

/// A stage on NATS.
fn on_nats(stage: impl FnOnce(&str) -> Stage, by_setup: &[Feature], others: &[Feature]) {
    let nats = Nats::start();
    uses(stage(&nats.address()), by_setup, others);
}

/// A stage on Kafka.
#[cfg(feature = "kafka")]
fn on_kafka(stage: impl FnOnce(&str) -> Stage, by_setup: &[Feature], others: &[Feature]) {
    use crate::cluster::Bus as _;
    let kafka = crate::cluster::kafka::Kafka::start();
    uses(stage(&kafka.address()), by_setup, others);
}

#[test]
fn one_broker_has_everything_at_once() {
    on_nats(Stage::broker, &[], &[]);
}

#[test]
fn a_cluster_on_the_embedded_bus_has_everything_at_once() {
    embedded(Stage::cluster, &[Feature::Embedded], &[]);
}

#[test]
fn a_cluster_on_nats_has_everything_at_once() {
    on_nats(Stage::cluster, &[Feature::Nats], &[]);
}

#[cfg(feature = "kafka")]
#[test]
fn a_cluster_on_kafka_has_everything_at_once() {
    on_kafka(Stage::cluster, &[Feature::Kafka], &[]);
}

#[test]
fn an_orchestrator_has_everything_at_once() {
    on_nats(Stage::orchestrator, &[Feature::Orchestrator], &[]);
}

#[test]
fn an_orchestrator_cluster_has_everything_at_once() {
    embedded(Stage::orchestrator_cluster, &[Feature::Orchestrator, Feature::Embedded], &[]);
}

#[test]
fn an_orchestrator_cluster_on_nats_has_everything_at_once() {
    on_nats(Stage::orchestrator_cluster, &[Feature::Orchestrator, Feature::Nats], &[]);
}

#[cfg(feature = "kafka")]
#[test]
fn an_orchestrator_cluster_on_kafka_has_everything_at_once() {
    on_kafka(Stage::orchestrator_cluster, &[Feature::Orchestrator, Feature::Kafka], &[]);
}

#[test]
fn a_fleet_has_everything_at_once() {
    embedded(Stage::fleet, &[Feature::Orchestrator, Feature::Embedded], &FLEET);
}

#[test]
fn a_fleet_on_nats_has_everything_at_once() {
    on_nats(Stage::fleet, &[Feature::Orchestrator, Feature::Nats], &FLEET);
}

#[cfg(feature = "kafka")]
#[test]
fn a_fleet_on_kafka_has_everything_at_once() {
    on_kafka(Stage::fleet, &[Feature::Orchestrator, Feature::Kafka], &FLEET);
}

#[cfg(feature = "kafka")]
#[test]
fn a_chart_on_kafka_has_everything_at_once() {
    on_kafka(Stage::chart, &[Feature::Orchestrator, Feature::Kafka], &[Feature::Kubernetes]);
}

#[test]
fn a_chart_on_nats_has_everything_at_once() {
    on_nats(Stage::chart, &[Feature::Orchestrator, Feature::Nats], &[Feature::Kubernetes]);
}
