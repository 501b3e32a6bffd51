//! The condition of a pod.

use super::objects::{Pod, PodStatus};
use crate::provider::Condition;

/// Longest text of the API server that is passed on, characters.
const MAX_TEXT: usize = 300;

/// The condition of a pod, with a note for people. `answered` is whether it has been ready before, as far as known.
pub(super) fn of(pod: &Pod, answered: bool) -> (Condition, String) {
    let status = &pod.status;
    let seen = seen(status);
    if pod.metadata.deletion_timestamp.is_some() {
        return (Condition::Stopping, String::new());
    }
    match (status.phase.as_str(), is_ready(status)) {
        ("Failed" | "Succeeded", _) => (Condition::Ended(or(seen, "all its containers have ended")), String::new()),
        ("Running", true) => (Condition::Online, String::new()),
        _ if answered => (Condition::Down(or(seen, "it is not ready")), String::new()),
        _ => (Condition::Starting, seen),
    }
}

fn is_ready(status: &PodStatus) -> bool {
    status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True")
}

/// Why it does not work, in the words of Kubernetes: a container that waits or has ended, a node that is not found.
fn seen(status: &PodStatus) -> String {
    let container = status.container_statuses.iter().find_map(|container| {
        let state = container.state.waiting.as_ref().or(container.state.terminated.as_ref())?;
        let text = words(&state.reason, &state.message)?;
        Some(format!("container {}: {text}", container.name))
    });
    let unmet = || {
        let mut unmet = status.conditions.iter().filter(|condition| condition.status != "True");
        unmet.find_map(|condition| words(&condition.reason, &condition.message))
    };
    let text = container.or_else(|| words(&status.reason, &status.message)).or_else(unmet).unwrap_or_default();
    text.chars().take(MAX_TEXT).collect()
}

fn words(reason: &str, message: &str) -> Option<String> {
    match (reason, message) {
        ("", "") => None,
        (one, "") | ("", one) => Some(one.to_owned()),
        (reason, message) => Some(format!("{reason}: {message}")),
    }
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: &str) -> Pod {
        serde_json::from_str(&format!("{{\"metadata\":{{}},\"spec\":{{}},{json}}}")).unwrap()
    }

    #[test]
    fn a_pod_that_was_ready_and_no_longer_is_has_gone_down() {
        let pod = pod(
            r#""status":{"phase":"Running","conditions":[{"type":"Ready","status":"False","reason":"ContainersNotReady"}],
            "containerStatuses":[{"name":"broker","state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 10s"}}}]}"#,
        );
        let seen = "container broker: CrashLoopBackOff: back-off 10s";
        assert_eq!(of(&pod, true), (Condition::Down(seen.to_owned()), String::new()));
        assert_eq!(of(&pod, false), (Condition::Starting, seen.to_owned()));
    }

    #[test]
    fn a_pod_without_a_node_says_why() {
        let pod = pod(
            r#""status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable",
            "message":"0/3 nodes are available"}]}"#,
        );
        assert_eq!(of(&pod, false), (Condition::Starting, "Unschedulable: 0/3 nodes are available".to_owned()));
    }

    #[test]
    fn the_rest_is_as_the_phase_says() {
        let ready = r#""status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}"#;
        assert_eq!(of(&pod(ready), false).0, Condition::Online);
        let failed = r#""status":{"phase":"Failed","reason":"Evicted","message":"low on memory"}"#;
        assert_eq!(of(&pod(failed), true).0, Condition::Ended("Evicted: low on memory".to_owned()));
        let mut going = pod(ready);
        going.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
        assert_eq!(of(&going, true).0, Condition::Stopping);
        assert_eq!(of(&pod(r#""status":{}"#), false).0, Condition::Starting);
    }
}
