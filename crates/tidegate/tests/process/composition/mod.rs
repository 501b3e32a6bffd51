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

/// Of an orchestrator.
const ORCHESTRATOR: [Feature; 19] = [
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
    Feature::Orchestrator,
];

/// The features that a fleet adds.
const FLEET: [Feature; 3] = [Feature::Manager, Feature::Machines, Feature::Dns];

#[test]
fn one_broker_has_everything_at_once() {
    let nats = Nats::start();
    let mut stage = Stage::broker(&nats.address());
    stage.use_all();
    stage.used_just(&BROKER);
}

#[test]
fn a_cluster_on_the_embedded_bus_has_everything_at_once() {
    let folder = Folder::new();
    let mut stage = Stage::cluster(&format!("embedded://{}", folder.file("bus")));
    stage.use_all();
    stage.note(Feature::Embedded);
    stage.used_just(&[&BROKER[..], &[Feature::Embedded]].concat());
}

#[test]
fn a_cluster_on_nats_has_everything_at_once() {
    let nats = Nats::start();
    let mut stage = Stage::cluster(&nats.address());
    stage.use_all();
    stage.note(Feature::Nats);
    stage.used_just(&[&BROKER[..], &[Feature::Nats]].concat());
}

#[cfg(feature = "kafka")]
#[test]
fn a_cluster_on_kafka_has_everything_at_once() {
    use crate::cluster::Bus as _;
    let kafka = crate::cluster::kafka::Kafka::start();
    let mut stage = Stage::cluster(&kafka.address());
    stage.use_all();
    stage.note(Feature::Kafka);
    stage.used_just(&[&BROKER[..], &[Feature::Kafka]].concat());
}

#[test]
fn an_orchestrator_has_everything_at_once() {
    let nats = Nats::start();
    let mut stage = Stage::orchestrator(&nats.address());
    stage.use_all();
    stage.note(Feature::Orchestrator);
    stage.used_just(&ORCHESTRATOR);
}

#[test]
fn an_orchestrator_cluster_has_everything_at_once() {
    let folder = Folder::new();
    let mut stage = Stage::orchestrator_cluster(&format!("embedded://{}", folder.file("bus")));
    stage.use_all();
    stage.note(Feature::Orchestrator);
    stage.note(Feature::Embedded);
    stage.used_just(&[&ORCHESTRATOR[..], &[Feature::Embedded]].concat());
}

#[test]
fn an_orchestrator_cluster_on_nats_has_everything_at_once() {
    let nats = Nats::start();
    let mut stage = Stage::orchestrator_cluster(&nats.address());
    stage.use_all();
    stage.note(Feature::Orchestrator);
    stage.note(Feature::Nats);
    stage.used_just(&[&ORCHESTRATOR[..], &[Feature::Nats]].concat());
}

#[cfg(feature = "kafka")]
#[test]
fn an_orchestrator_cluster_on_kafka_has_everything_at_once() {
    use crate::cluster::Bus as _;
    let kafka = crate::cluster::kafka::Kafka::start();
    let mut stage = Stage::orchestrator_cluster(&kafka.address());
    stage.use_all();
    stage.note(Feature::Orchestrator);
    stage.note(Feature::Kafka);
    stage.used_just(&[&ORCHESTRATOR[..], &[Feature::Kafka]].concat());
}

#[test]
fn a_fleet_has_everything_at_once() {
    let folder = Folder::new();
    let mut stage = Stage::fleet(&format!("embedded://{}", folder.file("bus")));
    stage.use_all();
    stage.note(Feature::Orchestrator);
    stage.note(Feature::Embedded);
    stage.used_just(&[&ORCHESTRATOR[..], &FLEET, &[Feature::Embedded]].concat());
}

#[test]
fn a_fleet_on_nats_has_everything_at_once() {
    let nats = Nats::start();
    let mut stage = Stage::fleet(&nats.address());
    stage.use_all();
    stage.note(Feature::Orchestrator);
    stage.note(Feature::Nats);
    stage.used_just(&[&ORCHESTRATOR[..], &FLEET, &[Feature::Nats]].concat());
}

#[cfg(feature = "kafka")]
#[test]
fn a_fleet_on_kafka_has_everything_at_once() {
    use crate::cluster::Bus as _;
    let kafka = crate::cluster::kafka::Kafka::start();
    let mut stage = Stage::fleet(&kafka.address());
    stage.use_all();
    stage.note(Feature::Orchestrator);
    stage.note(Feature::Kafka);
    stage.used_just(&[&ORCHESTRATOR[..], &FLEET, &[Feature::Kafka]].concat());
}

#[cfg(feature = "kafka")]
#[test]
fn a_chart_on_kafka_has_everything_at_once() {
    use crate::cluster::Bus as _;
    let kafka = crate::cluster::kafka::Kafka::start();
    let mut stage = Stage::chart(&kafka.address());
    stage.use_all();
    stage.note(Feature::Orchestrator);
    stage.note(Feature::Kafka);
    stage.used_just(&[&ORCHESTRATOR[..], &[Feature::Kubernetes, Feature::Kafka]].concat());
}

#[test]
fn a_chart_on_nats_has_everything_at_once() {
    let nats = Nats::start();
    let mut stage = Stage::chart(&nats.address());
    stage.use_all();
    stage.note(Feature::Orchestrator);
    stage.note(Feature::Nats);
    stage.used_just(&[&ORCHESTRATOR[..], &[Feature::Kubernetes, Feature::Nats]].concat());
}
