//! The state of a StatefulSet, its pods and their metrics at an API server.

use std::collections::BTreeMap;

use super::client::Target;
use super::error::KubernetesError;
use super::objects::{Pod, PodMetrics, StatefulSet};
use super::settings::SetSettings;
use super::usage::Metrics;
use super::{Kubernetes, Set};
use crate::provider::Stack;

/// The most pods of one StatefulSet.
const MAX_REPLICAS: u64 = 10_000;

/// A StatefulSet with its pods, at one time.
#[derive(Debug)]
pub(super) struct Seen {
    /// The number after that of the last pod that shall be.
    pub(super) end: u64,
    /// The existing pods, by number.
    pub(super) pods: BTreeMap<u64, Pod>,
    labels: String,
}

impl Kubernetes {
    pub(super) fn open_set(&mut self, settings: SetSettings) -> Result<Set, KubernetesError> {
        let set = self.stateful_set(&settings.stateful_set)?;
        let strange = |problem: &str| KubernetesError::Strange {
            object: format!("StatefulSet {}", settings.stateful_set),
            problem: problem.to_owned(),
        };
        let service = set.spec.service_name.filter(|name| !name.is_empty());
        let service =
            service.ok_or_else(|| strange("it has no serviceName, so its pods have no names to be reached by"))?;
        let stack = Stack { name: settings.stateful_set.clone(), first: set.spec.ordinals.start };
        if stack.resource(MAX_REPLICAS).is_none() {
            return Err(strange(
                "its name is too long, or begins with no letter: pods of it would have no names of resources",
            ));
        }
        Ok(Set { settings, stack, service })
    }

    fn stateful_set(&mut self, name: &str) -> Result<StatefulSet, KubernetesError> {
        let namespace = self.namespace.clone();
        let target = Target {
            group: "apis/apps/v1",
            namespace: &namespace,
            resource: "statefulsets",
            name: Some(name),
            subresource: None,
        };
        let set: StatefulSet = self.client.get(&target)?;
        let problem = match (&set.metadata.name, set.spec.replicas) {
            (found, _) if found != name => format!("it is {found:?}"),
            (_, Some(replicas)) if replicas > MAX_REPLICAS => format!("it has more than {MAX_REPLICAS} replicas"),
            _ => return Ok(set),
        };
        Err(KubernetesError::Strange { object: target.to_string(), problem })
    }

    /// Reads a StatefulSet and its pods. Pods that only have its labels and are not its own are left out.
    pub(super) fn see(&mut self, set: &Set) -> Result<Seen, KubernetesError> {
        let found = self.stateful_set(&set.settings.stateful_set)?;
        if found.spec.ordinals.start != set.stack.first {
            let object = format!("StatefulSet {}", set.settings.stateful_set);
            let problem = "its ordinals.start has changed; start the manager again".to_owned();
            return Err(KubernetesError::Strange { object, problem });
        }
        let labels: Vec<String> =
            found.spec.selector.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let labels = labels.join(",");
        let namespace = self.namespace.clone();
        let target = Target { group: "api/v1", namespace: &namespace, resource: "pods", name: None, subresource: None };
        let listed: Vec<Pod> = self.client.list(&target, &labels)?;
        let own = |pod: &Pod| pod.metadata.owner_references.iter().any(|owner| owner.uid == found.metadata.uid);
        let numbered = |pod: Pod| Some((set.stack.number(&pod.metadata.name.parse().ok()?)?, pod));
        Ok(Seen {
            end: set.stack.first.saturating_add(found.spec.replicas.unwrap_or(1)),
            pods: listed.into_iter().filter(own).filter_map(numbered).collect(),
            labels,
        })
    }

    /// The pods' metrics at `metrics.k8s.io`. Missing metrics are not an error: other signals may be available.
    pub(super) fn metrics(&mut self, seen: &Seen) -> Metrics {
        let namespace = self.namespace.clone();
        let target = Target {
            group: "apis/metrics.k8s.io/v1beta1",
            namespace: &namespace,
            resource: "pods",
            name: None,
            subresource: None,
        };
        let listed: Result<Vec<PodMetrics>, _> = self.client.list(&target, &seen.labels);
        match listed {
            Ok(listed) => {
                Metrics::Known(listed.into_iter().map(|metrics| (metrics.metadata.name.clone(), metrics)).collect())
            }
            Err(KubernetesError::NotFound { .. }) => Metrics::Missing(
                "the cluster has no metrics.k8s.io; install metrics-server, or decide by other signals".to_owned(),
            ),
            Err(KubernetesError::Forbidden { right, said }) => {
                let right = right.replacen("pods", "pods.metrics.k8s.io", 1);
                Metrics::Missing(KubernetesError::Forbidden { right, said }.to_string())
            }
            Err(error) => Metrics::Missing(error.to_string()),
        }
    }
}
