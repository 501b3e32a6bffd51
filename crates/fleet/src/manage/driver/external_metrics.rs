//! The API `external.metrics.k8s.io/v1beta1`, which a `HorizontalPodAutoscaler` and KEDA read.
//!
//! | metric | labels | value |
//! | --- | --- | --- |
//! | `tidegate_fleet_suits` | `level` | members that suit the load; the policy of the level decides |
//! | `tidegate_fleet_load` | `level` | the load of the last decision, 1 being full |
//! | `tidegate_fleet_clients` | | clients of all orchestrators |
//! | `tidegate_fleet_owed_messages` | | messages that orchestrators have accepted and brokers have not settled |
//!
//! A number that is not known has no item: an autoscaler then changes nothing.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::{Value, json};
use tidegate_units::percent::unescape;

use super::super::metrics::{CLIENTS, LOAD, OWED_MESSAGES, SUITS, ScalingNumbers};
use super::endpoint::{Head, HttpAnswer};

const GROUP: &str = "external.metrics.k8s.io";
const VERSION: &str = "external.metrics.k8s.io/v1beta1";
const NAMES: [&str; 4] = [SUITS, LOAD, CLIENTS, OWED_MESSAGES];

type Labels = BTreeMap<&'static str, String>;

/// The answer to a request, `None` for a path of something else.
pub(super) fn answer(head: &Head, numbers: &ScalingNumbers, at: SystemTime) -> Option<HttpAnswer> {
    let path = head.path.strip_prefix("/apis/")?.trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').collect();
    Some(match parts.as_slice() {
        [GROUP] => HttpAnswer::json("200 OK", &group()),
        [GROUP, "v1beta1"] => HttpAnswer::json("200 OK", &resources()),
        [GROUP, "v1beta1", "namespaces", _, metric] if NAMES.contains(metric) => {
            let selector = head.query.split('&').find_map(|part| part.strip_prefix("labelSelector="));
            match selected(selector.unwrap_or_default()) {
                Ok(wanted) => HttpAnswer::json("200 OK", &values(metric, &wanted, numbers, at)),
                Err(error) => status(400, "BadRequest", &error.to_string()),
            }
        }
        [GROUP, "v1beta1", "namespaces", _, metric] => {
            status(404, "NotFound", &format!("there is no metric {metric}; there are {}", NAMES.join(", ")))
        }
        _ => return None,
    })
}

fn group() -> Value {
    let version = json!({"groupVersion": VERSION, "version": "v1beta1"});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version], "preferredVersion": version})
}

fn resources() -> Value {
    let resource = |name: &&str| json!({"name": name, "singularName": "", "namespaced": true, "kind": "ExternalMetricValueList", "verbs": ["get"]});
    let resources: Vec<Value> = NAMES.iter().map(resource).collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": VERSION, "resources": resources})
}

fn status(code: u16, reason: &str, message: &str) -> HttpAnswer {
    let line = if code == 404 { "404 Not Found" } else { "400 Bad Request" };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    HttpAnswer::json(line, &body)
}

/// Why a label selector is refused.
#[derive(Debug, thiserror::Error)]
enum SelectorError {
    /// It is not escaped UTF-8.
    #[error("the label selector is not escaped UTF-8")]
    Escape,
    /// This part is no equality.
    #[error("the label selector `{0}` is not supported: write NAME=VALUE, such as level=broker")]
    Unsupported(String),
}

/// The labels of a selector of equalities, such as `level=broker`.
fn selected(escaped: &str) -> Result<Vec<(String, String)>, SelectorError> {
    let text = unescape(escaped).ok_or(SelectorError::Escape)?;
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (name, value) = part.split_once("==").or_else(|| part.split_once('='))?;
        let is_plain = |text: &str| !text.is_empty() && !text.contains(['!', '=', ' ', '(', ')']);
        (is_plain(name) && is_plain(value)).then(|| (name.to_owned(), value.to_owned()))
    };
    parts.map(|part| pair(part).ok_or_else(|| SelectorError::Unsupported(part.to_owned()))).collect()
}

fn values(metric: &str, wanted: &[(String, String)], numbers: &ScalingNumbers, at: SystemTime) -> Value {
    let matches = |labels: &Labels| {
        wanted.iter().all(|(name, value)| labels.get(name.as_str()).is_some_and(|found| found == value))
    };
    let timestamp = humantime::format_rfc3339_seconds(at).to_string();
    let items: Vec<Value> = measured(metric, numbers)
        .into_iter()
        .filter(|(labels, _)| matches(labels))
        .map(|(labels, value)| {
            json!({"metricName": metric, "metricLabels": labels, "timestamp": timestamp, "value": value})
        })
        .collect();
    json!({"kind": "ExternalMetricValueList", "apiVersion": VERSION, "metadata": {}, "items": items})
}

/// The values of a metric as quantities of Kubernetes, by labels.
fn measured(metric: &str, numbers: &ScalingNumbers) -> Vec<(Labels, String)> {
    let of = |level: &crate::level::Level| Labels::from([("level", level.name().to_owned())]);
    match metric {
        SUITS => numbers.suits.iter().map(|(level, suits)| (of(level), suits.to_string())).collect(),
        LOAD => numbers.load.iter().map(|(level, load)| (of(level), format!("{:.0}m", load * 1000.0))).collect(),
        CLIENTS => numbers.clients.iter().map(|count| (Labels::new(), count.to_string())).collect(),
        _ => numbers.owed.iter().map(|count| (Labels::new(), count.to_string())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::level::Level;

    fn numbers() -> ScalingNumbers {
        ScalingNumbers {
            suits: [(Level::Broker, 4), (Level::Orchestrator, 2)].into(),
            load: [(Level::Broker, 0.8125)].into(),
            clients: Some(70),
            owed: Some(5),
        }
    }

    fn get(target: &str) -> HttpAnswer {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let head = Head { path: path.to_owned(), query: query.to_owned(), ..Head::default() };
        answer(&head, &numbers(), SystemTime::UNIX_EPOCH + Duration::from_secs(86_400)).unwrap()
    }

    fn items(target: &str) -> Value {
        let answer = get(&format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/mine/{target}"));
        assert_eq!(answer.status, "200 OK", "{}", answer.body);
        serde_json::from_str::<Value>(&answer.body).unwrap()["items"].clone()
    }

    #[test]
    fn an_autoscaler_reads_the_members_that_suit() {
        let expected = json!([{
            "metricName": "tidegate_fleet_suits", "metricLabels": {"level": "broker"},
            "timestamp": "1970-01-02T00:00:00Z", "value": "4",
        }]);
        assert_eq!(items("tidegate_fleet_suits?labelSelector=level%3Dbroker"), expected);
        assert_eq!(items("tidegate_fleet_suits").as_array().unwrap().len(), 2);
        assert_eq!(items("tidegate_fleet_load?labelSelector=level%3D%3Dbroker")[0]["value"], "812m");
        assert_eq!(items("tidegate_fleet_load?labelSelector=level%3Dorchestrator"), json!([]));
        assert_eq!(items("tidegate_fleet_clients?labelSelector=")[0]["value"], "70");
        assert_eq!(items("tidegate_fleet_owed_messages")[0]["value"], "5");
    }

    #[test]
    fn an_api_server_discovers_the_metrics() {
        assert!(get("/apis/external.metrics.k8s.io").body.contains("\"kind\":\"APIGroup\""));
        let resources = get("/apis/external.metrics.k8s.io/v1beta1");
        assert!(NAMES.iter().all(|name| resources.body.contains(name)));
    }

    #[test]
    fn unknown_metrics_and_selectors_are_refused() {
        let path = |rest: &str| format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/mine/{rest}");
        assert_eq!(get(&path("cpu")).status, "404 Not Found");
        for selector in ["level%21%3Dbroker", "level", "level%20in%20(broker)", "%F", "%FF"] {
            let answer = get(&path(&format!("tidegate_fleet_suits?labelSelector={selector}")));
            assert_eq!(answer.status, "400 Bad Request", "{selector}");
        }
    }
}
