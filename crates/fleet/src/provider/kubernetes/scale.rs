//! One pod more, one pod fewer: compare-and-set on the scale subresource.

use serde_json::json;

use super::client::{Put, Target};
use super::error::KubernetesError;
use super::objects::Scale;
use super::{Kubernetes, Set};
use crate::provider::ResourceName;

/// Tries of a change that conflicts with another client's.
const MAX_TRIES: u32 = 4;

impl Kubernetes {
    /// Scales up by one if the pod is the next one; no change if it is wanted already.
    pub(super) fn scale_up(&mut self, set: &Set, number: u64, name: &ResourceName) -> Result<(), KubernetesError> {
        self.set_replicas(set, |replicas| {
            let end = set.stack.first.saturating_add(replicas);
            if number < end {
                return Ok(None);
            }
            if number > end {
                let next = format!("{}-{end}", set.stack.name);
                return Err(KubernetesError::NotNext { name: name.clone(), next });
            }
            Ok(Some(replicas.saturating_add(1)))
        })
    }

    /// Scales down by one if the pod is the last; no change if it is no longer wanted.
    pub(super) fn scale_down(&mut self, set: &Set, number: u64, name: &ResourceName) -> Result<(), KubernetesError> {
        self.set_replicas(set, |replicas| {
            let end = set.stack.first.saturating_add(replicas);
            if number >= end {
                return Ok(None);
            }
            if number.saturating_add(1) < end {
                let last = format!("{}-{}", set.stack.name, end.saturating_sub(1));
                return Err(KubernetesError::NotLast { name: name.clone(), last });
            }
            Ok(Some(replicas.saturating_sub(1)))
        })
    }

    /// Sets the replicas to the result of `choose` for the current number; `None` means no change. If another client
    /// changes the StatefulSet in between, it is read and chosen again.
    fn set_replicas(
        &mut self,
        set: &Set,
        choose: impl Fn(u64) -> Result<Option<u64>, KubernetesError>,
    ) -> Result<(), KubernetesError> {
        let namespace = self.namespace.clone();
        let name = set.settings.stateful_set.as_str();
        let target = Target {
            group: "apis/apps/v1",
            namespace: &namespace,
            resource: "statefulsets",
            name: Some(name),
            subresource: Some("scale"),
        };
        for _ in 0..MAX_TRIES {
            let scale: Scale = self.client.get(&target)?;
            let Some(replicas) = choose(scale.spec.replicas)? else { return Ok(()) };
            let object = json!({
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": name, "namespace": namespace, "resourceVersion": scale.metadata.resource_version},
                "spec": {"replicas": replicas},
            });
            if let Put::Done(set) = self.client.put::<Scale>(&target, &object)? {
                if set.spec.replicas == replicas {
                    return Ok(());
                }
                let problem = format!("{replicas} replicas were asked for, and {} are said", set.spec.replicas);
                return Err(KubernetesError::Strange { object: target.to_string(), problem });
            }
        }
        Err(KubernetesError::Conflict { object: target.to_string(), tries: MAX_TRIES })
    }
}
