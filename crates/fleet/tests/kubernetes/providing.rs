//! The provider with the rights that are shipped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidegate_fleet::level::Level;
use tidegate_fleet::provider::kubernetes::Kubernetes;
use tidegate_fleet::provider::{Allocation, Condition, Look, Observed, Provider, Release, ResourceName};

use crate::cluster::{Cluster, until};

fn name(number: u64) -> ResourceName {
    format!("tidegate-broker-{number}").parse().unwrap()
}

fn wanted(number: u64) -> Allocation {
    Allocation { name: name(number), level: Level::Broker, template: "tidegate-broker".to_owned(), cores: 1.0 }
}

fn seen(provider: &mut Kubernetes, number: u64) -> Option<Observed> {
    provider.observe(Look::Everything).unwrap().into_iter().find(|it| it.resource.name == name(number))
}

fn condition(provider: &mut Kubernetes, number: u64) -> Option<Condition> {
    seen(provider, number).map(|it| it.condition)
}

#[test]
#[ignore = "needs a control plane: e2e/kubernetes/run.sh"]
fn pods_come_and_go_at_the_end() {
    let cluster = Cluster::take();
    let mut provider = Kubernetes::open(cluster.settings("tidegate-broker")).unwrap();
    until("the first pod is ready", || condition(&mut provider, 0) == Some(Condition::Online));

    let made = provider.allocate(&wanted(1)).unwrap();
    assert_eq!(made.address, "mqtt://tidegate-broker-1.tidegate-broker.messaging.svc.cluster.local:1883");
    assert_eq!(cluster.replicas(), 2);
    provider.allocate(&wanted(1)).unwrap();
    assert_eq!(cluster.replicas(), 2);
    assert!(provider.allocate(&wanted(5)).unwrap_err().to_string().contains("the next pod"));
    until("the second pod is ready", || condition(&mut provider, 1) == Some(Condition::Online));

    assert!(provider.release(&name(0)).unwrap_err().to_string().contains("the last pod"));
    cluster.hold("tidegate-broker-1");
    assert_eq!(provider.release(&name(1)).unwrap(), Release::Stopping);
    assert_eq!(cluster.replicas(), 1);
    until("the pod is being deleted", || condition(&mut provider, 1) == Some(Condition::Stopping));
    assert_eq!(provider.release(&name(1)).unwrap(), Release::Stopping);
    cluster.let_go("tidegate-broker-1");
    until("the pod is gone", || provider.release(&name(1)).unwrap() == Release::Gone);
    assert_eq!(condition(&mut provider, 1), None);
    assert_eq!(cluster.replicas(), 1);
}

#[test]
#[ignore = "needs a control plane: e2e/kubernetes/run.sh"]
fn changes_by_others_are_noticed() {
    let cluster = Cluster::take();
    let mut provider = Kubernetes::open(cluster.settings("tidegate-broker")).unwrap();
    cluster.scale(3);
    until("two more are ready", || condition(&mut provider, 2) == Some(Condition::Online));
    cluster.hold("tidegate-broker-2");
    cluster.scale(2);
    assert_eq!(condition(&mut provider, 2), Some(Condition::Stopping), "it shall not be there any more");
    assert_eq!(provider.release(&name(2)).unwrap(), Release::Stopping);
    assert_eq!(cluster.replicas(), 2);
    cluster.let_go("tidegate-broker-2");
    until("it is gone", || condition(&mut provider, 2).is_none());
    // Its machine is emptied: it goes, and returns.
    cluster.hold("tidegate-broker-1");
    cluster.ask("DELETE", "/api/v1/namespaces/messaging/pods/tidegate-broker-1", None);
    assert_eq!(condition(&mut provider, 1), Some(Condition::Stopping));
    cluster.let_go("tidegate-broker-1");
    until("it is back", || condition(&mut provider, 1) == Some(Condition::Online));
}

#[test]
#[ignore = "needs a control plane: e2e/kubernetes/run.sh"]
fn concurrent_writers_do_not_lose_a_pod() {
    let cluster = Cluster::take();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::SeqCst) {
                count += 1;
                cluster.touch(count);
            }
        });
        let mut providers =
            [0, 1].map(|_| Kubernetes::open(cluster.settings("tidegate-broker")).expect("the StatefulSet is there"));
        for number in 1..4 {
            // Both want the same pod; the slower one finds it made. Each may be refused for a while, and asks again.
            for provider in &mut providers {
                until("it is allowed", || provider.allocate(&wanted(number)).is_ok());
            }
        }
        assert_eq!(cluster.replicas(), 4);
        done.store(true, Ordering::SeqCst);
    });
}

#[test]
#[ignore = "needs a control plane: e2e/kubernetes/run.sh"]
fn cpu_comes_from_metrics() {
    let cluster = Cluster::take();
    let mut provider = Kubernetes::open(cluster.settings("tidegate-broker")).unwrap();
    until("the pod is ready", || condition(&mut provider, 0) == Some(Condition::Online));
    cluster.ask("DELETE", "/apis/metrics.k8s.io/v1beta1/namespaces/messaging/pods/tidegate-broker-0", None);
    let observed = seen(&mut provider, 0).unwrap();
    assert_eq!(observed.cpu, None);
    assert!(observed.resource.note.contains("no metrics of it yet"), "{}", observed.resource.note);
    // The shipped limit is one core.
    cluster.measure("tidegate-broker-0", "250m");
    assert_eq!(seen(&mut provider, 0).unwrap().cpu, Some(0.25));
}

#[test]
#[ignore = "needs a control plane: e2e/kubernetes/run.sh"]
fn the_rights_that_are_shipped_are_enough_and_not_more() {
    let cluster = Cluster::take();
    let error = Kubernetes::open(cluster.settings("of-another-manager")).unwrap_err().to_string();
    assert!(error.contains("the right `get statefulsets in namespace messaging` is missing"), "{error}");
    let mut elsewhere = cluster.settings("tidegate-broker");
    elsewhere.namespace = Some("default".to_owned());
    let error = Kubernetes::open(elsewhere).unwrap_err().to_string();
    assert!(error.contains("the right `get statefulsets in namespace default` is missing"), "{error}");
    for set in ["mosquitto", "tidegate-orchestrator"] {
        Kubernetes::open(cluster.settings(set)).unwrap();
    }
}
