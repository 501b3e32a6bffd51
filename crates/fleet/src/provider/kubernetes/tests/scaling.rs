//! One more, one fewer, and others who do the same.

use serde_json::{Value, json};

use super::*;

fn asks_for(replicas: u64, version: &str) -> Value {
    json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "tidegate-broker", "namespace": "messaging", "resourceVersion": version},
        "spec": {"replicas": replicas},
    })
}

/// The recording has two replicas at version 224.
fn scale(replicas: u64, version: &str) -> String {
    let text =
        changed(SCALE, "\"replicas\": 2\n },\n \"status\"", &format!("\"replicas\": {replicas}\n }},\n \"status\""));
    changed(&text, "\"224\"", &format!("{version:?}"))
}

#[test]
fn to_allocate_is_to_scale_up_by_one() {
    let (mut provider, recorded) = opened(vec![
        Exchange::get(SCALE_PATH, 200, SCALE),
        Exchange::put(SCALE_PATH, asks_for(3, "224"), 200, &scale(3, "230")),
    ]);
    assert_eq!(provider.stack(Level::Broker), Some(Stack { name: "tidegate-broker".to_owned(), first: 0 }));
    assert_eq!(provider.stack(Level::Orchestrator), None);
    let resource = provider.allocate(&wanted("tidegate-broker-2")).unwrap();
    assert_eq!(resource.address, "mqtt://tidegate-broker-2.tidegate-broker.messaging.svc.cluster.local:1883");
    assert_eq!((resource.template.as_str(), resource.admin), ("tidegate-broker", None));
    recorded.finish();
}

#[test]
fn a_requested_pod_is_not_requested_again() {
    let (mut provider, recorded) = opened(vec![Exchange::get(SCALE_PATH, 200, SCALE)]);
    provider.allocate(&wanted("tidegate-broker-1")).unwrap();
    recorded.finish();
}

#[test]
fn only_the_next_one_can_come() {
    let (mut provider, recorded) = opened(vec![Exchange::get(SCALE_PATH, 200, SCALE)]);
    let error = provider.allocate(&wanted("tidegate-broker-5")).unwrap_err().to_string();
    assert!(error.contains("the next pod of its StatefulSet is tidegate-broker-2"), "{error}");
    assert!(provider.allocate(&wanted("broker-1")).unwrap_err().to_string().contains("no pod of this fleet"));
    recorded.finish();
}

#[test]
fn a_concurrent_change_is_noticed() {
    let (mut provider, recorded) = opened(vec![
        Exchange::get(SCALE_PATH, 200, SCALE),
        Exchange::put(SCALE_PATH, asks_for(3, "224"), 409, CONFLICT),
        // An autoscaler has made the pod that was wanted.
        Exchange::get(SCALE_PATH, 200, &scale(3, "230")),
    ]);
    provider.allocate(&wanted("tidegate-broker-2")).unwrap();
    recorded.finish();
}

#[test]
fn the_version_of_a_second_try_is_the_new_one() {
    let (mut provider, recorded) = opened(vec![
        Exchange::get(SCALE_PATH, 200, SCALE),
        Exchange::put(SCALE_PATH, asks_for(3, "224"), 409, CONFLICT),
        Exchange::get(SCALE_PATH, 200, &scale(2, "231")),
        Exchange::put(SCALE_PATH, asks_for(3, "231"), 200, &scale(3, "232")),
    ]);
    provider.allocate(&wanted("tidegate-broker-2")).unwrap();
    recorded.finish();
}

#[test]
fn tries_come_to_an_end() {
    let round = [Exchange::get(SCALE_PATH, 200, SCALE), Exchange::put(SCALE_PATH, asks_for(3, "224"), 409, CONFLICT)];
    let (mut provider, recorded) = opened(std::iter::repeat_n(round, 4).flatten().collect());
    let error = provider.allocate(&wanted("tidegate-broker-2")).unwrap_err().to_string();
    assert!(error.contains("stopped after 4 tries"), "{error}");
    recorded.finish();
}

#[test]
fn to_release_is_to_scale_down_by_one_and_to_wait() {
    let (mut provider, recorded) = opened(vec![
        Exchange::get(SCALE_PATH, 200, SCALE),
        Exchange::put(SCALE_PATH, asks_for(1, "224"), 200, SCALE_PUT),
        Exchange::get(SET_PATH, 200, STATEFUL_SET),
        Exchange::get(PODS_PATH, 200, PODS_GOING),
        // Asked again, it only looks.
        Exchange::get(SCALE_PATH, 200, SCALE_PUT),
        Exchange::get(SET_PATH, 200, STATEFUL_SET),
        Exchange::get(PODS_PATH, 200, &changed(PODS_GOING, "\"tidegate-broker-1\"", "\"another-1\"")),
    ]);
    let last = name("tidegate-broker-1");
    assert_eq!(provider.release(&last).unwrap(), Release::Stopping);
    assert_eq!(provider.release(&last).unwrap(), Release::Gone);
    assert_eq!(provider.release(&name("never-heard-of-1")).unwrap(), Release::Gone);
    recorded.finish();
}

#[test]
fn only_the_last_one_can_go() {
    let (mut provider, recorded) = opened(vec![Exchange::get(SCALE_PATH, 200, SCALE)]);
    let error = provider.release(&name("tidegate-broker-0")).unwrap_err().to_string();
    assert!(error.contains("the last pod of its StatefulSet is tidegate-broker-1"), "{error}");
    recorded.finish();
}

#[test]
fn an_api_server_leaves_zero_out() {
    let (mut provider, recorded) = opened(vec![
        Exchange::get(SCALE_PATH, 200, SCALE_ZERO),
        Exchange::put(SCALE_PATH, asks_for(1, "242"), 200, SCALE_PUT),
    ]);
    provider.allocate(&wanted("tidegate-broker-0")).unwrap();
    recorded.finish();
}

#[test]
fn a_missing_right_is_named() {
    let (mut provider, recorded) = opened(vec![
        Exchange::get(SCALE_PATH, 403, FORBIDDEN),
        Exchange::get(SCALE_PATH, 200, SCALE),
        Exchange::put(SCALE_PATH, asks_for(3, "224"), 403, FORBIDDEN),
        Exchange::get(SCALE_PATH, 401, UNAUTHORIZED),
    ]);
    let mut error = || provider.allocate(&wanted("tidegate-broker-2")).unwrap_err().to_string();
    let read = error();
    assert!(read.contains("the right `get statefulsets/scale in namespace messaging` is missing"), "{read}");
    assert!(read.contains("system:serviceaccount:messaging:"), "{read}");
    assert!(error().contains("the right `update statefulsets/scale in namespace messaging` is missing"));
    assert!(error().contains("does not accept the credentials"));
    recorded.finish();
}

#[test]
fn a_set_that_is_not_there_is_said_at_the_start() {
    let recorded = Recorded::play(vec![Exchange::get(SET_PATH, 404, NOT_FOUND)]);
    let error = Kubernetes::with(recorded.access(), settings()).unwrap_err().to_string();
    assert!(error.contains("there is no statefulsets tidegate-broker in namespace messaging"), "{error}");
    let nameless = changed(STATEFUL_SET, "\"serviceName\": \"tidegate-broker\"", "\"serviceName\": \"\"");
    let recorded = Recorded::play(vec![Exchange::get(SET_PATH, 200, &nameless)]);
    assert!(Kubernetes::with(recorded.access(), settings()).unwrap_err().to_string().contains("no serviceName"));
}
