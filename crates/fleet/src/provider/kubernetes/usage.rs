//! A pod's CPU as a part of its share (BRK-39), and its memory, from `metrics.k8s.io`.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::objects::{Container, Pod, PodMetrics};
use super::quantity;

/// Older metrics are outdated. A metrics server measures every 15 s and repeats the last value while a node does not
/// answer.
const MAX_AGE: Duration = Duration::from_secs(120);

/// The CPU and memory of a StatefulSet's pods.
#[derive(Debug)]
pub(super) enum Metrics {
    /// Not requested.
    Unasked,
    /// They cannot be had, and why.
    Missing(String),
    /// By pod.
    Known(BTreeMap<String, PodMetrics>),
}

/// Why the CPU of a pod is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CpuUnknown {
    /// The metrics of the StatefulSet cannot be had, for this reason.
    #[error("CPU is not known: {0}")]
    NoMetrics(String),
    /// The pod has no container of this name.
    #[error("CPU is not known: it has no container {0}")]
    NoContainer(String),
    /// The metrics server has not measured the pod.
    #[error("CPU is not known: there are no metrics of it yet")]
    NotMeasured,
    /// The time of the metrics is malformed.
    #[error("CPU is not known: its time is wrong")]
    Time,
    /// The metrics are older than [`MAX_AGE`]; with their time.
    #[error("CPU is not known: its metrics are of {0}")]
    Old(String),
    /// The metrics do not name this container.
    #[error("CPU is not known: the metrics do not name container {0}")]
    ContainerNotMeasured(String),
    /// CPU time is known, and no limit or request of it.
    #[error("CPU is unknown as a fraction: container {0} has neither a limit nor a request of it")]
    NoShare(String),
}

/// CPU as a fraction of the container's limit, else of its request; or why it is unknown. Never a guess.
pub(super) fn cpu(
    pod: &Pod,
    container: Option<&str>,
    metrics: &Metrics,
    now: SystemTime,
) -> Result<Option<f64>, CpuUnknown> {
    let known = match metrics {
        Metrics::Unasked => return Ok(None),
        Metrics::Missing(why) => return Err(CpuUnknown::NoMetrics(why.clone())),
        Metrics::Known(known) => known,
    };
    let chosen = pod.spec.containers.iter().find(|it| container.is_none_or(|name| name == it.name));
    let chosen = chosen.ok_or_else(|| CpuUnknown::NoContainer(container.unwrap_or("").to_owned()))?;
    let given = given(chosen)?;
    let metrics = known.get(&pod.metadata.name).ok_or(CpuUnknown::NotMeasured)?;
    if !is_fresh(metrics, now).ok_or(CpuUnknown::Time)? {
        return Err(CpuUnknown::Old(metrics.timestamp.clone()));
    }
    let used = metrics.containers.iter().find(|it| it.name == chosen.name).and_then(|it| it.usage.get("cpu"));
    let used = used.and_then(|text| quantity::cores(text));
    let used = used.ok_or_else(|| CpuUnknown::ContainerNotMeasured(chosen.name.clone()))?;
    Ok(Some(used / given))
}

/// Bytes of memory of the container, which need no limit; `None` where they are unknown, for the reason given for its
/// CPU.
pub(super) fn memory(pod: &Pod, container: Option<&str>, metrics: &Metrics, now: SystemTime) -> Option<u64> {
    let Metrics::Known(known) = metrics else { return None };
    let chosen = pod.spec.containers.iter().find(|it| container.is_none_or(|name| name == it.name))?;
    let metrics = known.get(&pod.metadata.name).filter(|metrics| is_fresh(metrics, now) == Some(true))?;
    let used = metrics.containers.iter().find(|it| it.name == chosen.name)?;
    quantity::bytes(used.usage.get("memory")?)
}

/// Whether metrics are recent; `None` when their time is invalid.
fn is_fresh(metrics: &PodMetrics, now: SystemTime) -> Option<bool> {
    let measured = humantime::parse_rfc3339(&metrics.timestamp).ok()?;
    Some(!now.duration_since(measured).is_ok_and(|age| age > MAX_AGE))
}

fn given(container: &Container) -> Result<f64, CpuUnknown> {
    let resources = &container.resources;
    let text = resources.limits.get("cpu").or_else(|| resources.requests.get("cpu"));
    let cores = text.and_then(|text| quantity::cores(text)).filter(|cores| *cores > 0.0);
    cores.ok_or_else(|| CpuUnknown::NoShare(container.name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(resources: &str) -> Pod {
        let text = format!(
            r#"{{"metadata":{{"name":"b-0"}},"spec":{{"containers":[{{"name":"broker","resources":{resources}}},{{"name":"mesh"}}]}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn metrics(usage: &str) -> Metrics {
        let text = format!(
            r#"{{"metadata":{{"name":"b-0"}},"timestamp":"2026-01-01T00:00:00Z","window":"15s",
            "containers":[{{"name":"mesh","usage":{{"cpu":"9"}}}},{{"name":"broker","usage":{usage}}}]}}"#
        );
        let metrics: PodMetrics = serde_json::from_str(&text).unwrap();
        Metrics::Known(BTreeMap::from([("b-0".to_owned(), metrics)]))
    }

    fn at(seconds: u64) -> SystemTime {
        humantime::parse_rfc3339("2026-01-01T00:00:00Z").unwrap() + Duration::from_secs(seconds)
    }

    #[test]
    fn cpu_is_a_fraction_of_the_limit_else_of_the_request() {
        let usage = metrics(r#"{"cpu":"125000000n","memory":"1Mi"}"#);
        let both = pod(r#"{"limits":{"cpu":"500m"},"requests":{"cpu":"250m"}}"#);
        assert_eq!(cpu(&both, None, &usage, at(10)), Ok(Some(0.25)));
        assert_eq!(cpu(&pod(r#"{"requests":{"cpu":"250m"}}"#), Some("broker"), &usage, at(10)), Ok(Some(0.5)));
    }

    #[test]
    fn memory_needs_no_limit_and_is_never_old() {
        let usage = metrics(r#"{"cpu":"1","memory":"20Mi"}"#);
        assert_eq!(memory(&pod("{}"), None, &usage, at(10)), Some(20 << 20));
        assert_eq!(memory(&pod("{}"), None, &usage, at(121)), None);
        assert_eq!(memory(&pod("{}"), Some("mesh"), &usage, at(10)), None, "that container tells nothing of it");
        assert_eq!(memory(&pod("{}"), None, &Metrics::Unasked, at(10)), None);
    }

    #[test]
    fn a_missing_value_has_a_reason_and_is_no_number() {
        let usage = metrics(r#"{"cpu":"1"}"#);
        let limited = pod(r#"{"limits":{"cpu":"1"}}"#);
        let why = |pod: &Pod, container, metrics: &Metrics, seconds| {
            cpu(pod, container, metrics, at(seconds)).unwrap_err().to_string()
        };
        assert!(why(&pod("{}"), None, &usage, 0).contains("neither a limit nor a request"));
        assert!(why(&limited, Some("other"), &usage, 0).contains("no container other"));
        assert!(why(&limited, None, &usage, 121).contains("its metrics are of 2026"));
        assert!(why(&limited, None, &metrics("{}"), 0).contains("do not name container broker"));
        assert!(why(&limited, None, &metrics(r#"{"cpu":"-5"}"#), 0).contains("do not name"));
        assert!(why(&limited, None, &Metrics::Known(BTreeMap::new()), 0).contains("no metrics of it yet"));
        assert!(why(&limited, None, &Metrics::Missing("403".to_owned()), 0).contains("403"));
        assert_eq!(cpu(&limited, None, &Metrics::Unasked, at(0)), Ok(None));
    }
}
