//! Observations of pods.

use std::time::SystemTime;

use super::*;

fn look(provider: &mut Kubernetes, look: Look) -> Vec<(String, Condition, Option<f64>, String)> {
    let all = provider.observe(look).unwrap();
    all.into_iter().map(|it| (it.resource.name.to_string(), it.condition, it.cpu, it.resource.note)).collect()
}

/// Both recorded pods on one page.
fn pods() -> String {
    let mut first: serde_json::Value = serde_json::from_str(PODS_1).unwrap();
    let second: serde_json::Value = serde_json::from_str(PODS_2).unwrap();
    first["items"].as_array_mut().unwrap().extend(second["items"].as_array().unwrap().iter().cloned());
    first["metadata"]["continue"] = "".into();
    first.to_string()
}

fn metrics(cpu: &str) -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    format!(
        r#"{{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{{}},"items":[
        {{"metadata":{{"name":"tidegate-broker-0"}},"timestamp":"{now}","window":"15s",
        "containers":[{{"name":"broker","usage":{{"cpu":"{cpu}","memory":"20Mi"}}}}]}}]}}"#
    )
}

#[test]
fn pods_are_read_page_by_page() {
    let first: serde_json::Value = serde_json::from_str(PODS_1).unwrap();
    let next = first["metadata"]["continue"].as_str().unwrap();
    let (mut provider, recorded) = opened(vec![
        Exchange::get(SET_PATH, 200, STATEFUL_SET),
        Exchange::get(PODS_PATH, 200, PODS_1),
        Exchange::get(&format!("{PODS_PATH}&continue={next}"), 200, PODS_2),
    ]);
    let seen = look(&mut provider, Look::Conditions);
    let online = |name: &str| (name.to_owned(), Condition::Online, None, String::new());
    assert_eq!(seen, [online("tidegate-broker-0"), online("tidegate-broker-1")]);
    recorded.finish();
}

#[test]
fn an_expired_list_is_read_again() {
    let first: serde_json::Value = serde_json::from_str(PODS_1).unwrap();
    let next = format!("{PODS_PATH}&continue={}", first["metadata"]["continue"].as_str().unwrap());
    let expired = r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410,
        "message":"The provided continue parameter is too old to display a consistent list result."}"#;
    let (mut provider, recorded) = opened(vec![
        Exchange::get(SET_PATH, 200, STATEFUL_SET),
        Exchange::get(PODS_PATH, 200, PODS_1),
        Exchange::get(&next, 410, expired),
        Exchange::get(PODS_PATH, 200, PODS_1),
        Exchange::get(&next, 200, PODS_2),
        // And not for ever.
        Exchange::get(SET_PATH, 200, STATEFUL_SET),
        Exchange::get(PODS_PATH, 410, expired),
        Exchange::get(PODS_PATH, 410, expired),
        Exchange::get(PODS_PATH, 410, expired),
    ]);
    assert_eq!(look(&mut provider, Look::Conditions).len(), 2);
    assert!(provider.observe(Look::Conditions).unwrap_err().to_string().contains("changes faster than it is read"));
    recorded.finish();
}

#[test]
fn wanted_pods_are_starting_and_unwanted_ones_stopping() {
    let one = changed(STATEFUL_SET, "\"replicas\": 2,\n  \"selector\"", "\"replicas\": 1,\n  \"selector\"");
    let three = changed(STATEFUL_SET, "\"replicas\": 2,\n  \"selector\"", "\"replicas\": 3,\n  \"selector\"");
    let (mut provider, recorded) = opened(vec![
        Exchange::get(SET_PATH, 200, &three),
        Exchange::get(PODS_PATH, 200, &pods()),
        // Another client has scaled in, and no pod is deleted yet.
        Exchange::get(SET_PATH, 200, &one),
        Exchange::get(PODS_PATH, 200, &pods()),
        // Now it is ready.
        Exchange::get(SET_PATH, 200, &one),
        Exchange::get(PODS_PATH, 200, PODS_GOING),
        // A machine is emptied: the pod will return.
        Exchange::get(SET_PATH, 200, STATEFUL_SET),
        Exchange::get(PODS_PATH, 200, PODS_GOING),
    ]);
    let conditions = |provider: &mut Kubernetes| -> Vec<Condition> {
        look(provider, Look::Conditions).into_iter().map(|(_, condition, ..)| condition).collect()
    };
    assert_eq!(conditions(&mut provider), [Condition::Online, Condition::Online, Condition::Starting]);
    for _ in 0..3 {
        assert_eq!(conditions(&mut provider), [Condition::Online, Condition::Stopping]);
    }
    recorded.finish();
}

#[test]
fn a_pod_that_stopped_being_ready_is_not_probed_in_vain() {
    let unready = changed(
        PODS_2,
        "\"type\": \"Ready\",\n      \"status\": \"True\"",
        "\"type\": \"Ready\",\n      \"status\": \"False\"",
    );
    let (mut provider, recorded) = opened(vec![
        Exchange::get(SET_PATH, 200, STATEFUL_SET),
        Exchange::get(PODS_PATH, 200, &pods()),
        Exchange::get(SET_PATH, 200, STATEFUL_SET),
        Exchange::get(PODS_PATH, 200, &unready),
        Exchange::get(SCALE_PATH, 200, SCALE),
    ]);
    look(&mut provider, Look::Conditions);
    let seen = look(&mut provider, Look::Conditions);
    assert_eq!(seen[1].1, Condition::Down("it is not ready".to_owned()));
    let error = provider.allocate(&wanted("tidegate-broker-1")).unwrap_err().to_string();
    assert!(error.contains("its kubelet restarts it"), "{error}");
    recorded.finish();
}

#[test]
fn pods_of_others_with_the_same_labels_are_left_out() {
    let uid = serde_json::from_str::<serde_json::Value>(STATEFUL_SET).unwrap()["metadata"]["uid"].clone();
    let foreign = changed(&pods(), uid.as_str().unwrap(), "another-owner");
    let (mut provider, recorded) =
        opened(vec![Exchange::get(SET_PATH, 200, STATEFUL_SET), Exchange::get(PODS_PATH, 200, &foreign)]);
    let seen = look(&mut provider, Look::Conditions);
    assert!(seen.iter().all(|(_, condition, ..)| *condition == Condition::Starting), "{seen:?}");
    recorded.finish();
}

#[test]
fn cpu_is_a_fraction_of_the_limit_and_never_invented() {
    let all = |status, metrics: &str| {
        [
            Exchange::get(SET_PATH, 200, STATEFUL_SET),
            Exchange::get(PODS_PATH, 200, &pods()),
            Exchange::get(METRICS_PATH, status, metrics),
        ]
    };
    let conversation =
        [all(200, &metrics("125m")), all(404, "404 page not found\n"), all(403, FORBIDDEN), all(503, "{}")];
    let (mut provider, recorded) = opened(conversation.into_iter().flatten().collect());
    let seen = look(&mut provider, Look::Everything);
    assert_eq!((seen[0].2, seen[0].3.as_str()), (Some(0.25), ""));
    assert_eq!((seen[1].2, seen[1].3.as_str()), (None, "CPU is not known: there are no metrics of it yet"));
    for expected in ["install metrics-server", "`list pods.metrics.k8s.io in namespace messaging` is missing", "503"] {
        let seen = look(&mut provider, Look::Everything);
        assert_eq!((seen[0].1.clone(), seen[0].2), (Condition::Online, None));
        assert!(seen[0].3.contains(expected), "{}", seen[0].3);
    }
    recorded.finish();
}
