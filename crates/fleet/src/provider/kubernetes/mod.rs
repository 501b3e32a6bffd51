//! Brokers and orchestrators as pods of StatefulSets, one StatefulSet per level.
//!
//! A StatefulSet creates and removes its pods in the order of their numbers, so a level is a [`Stack`]: to allocate is
//! to scale up by one, to release is to scale down by one, and only the last pod can be removed. Both are
//! compare-and-set on the scale subresource: if another client changes `spec.replicas` between reading and writing, the
//! change is decided again.
//!
//! Changes by other controllers are followed. A pod beyond `spec.replicas`, or one that is being deleted, is
//! [stopping](Condition::Stopping), and the manager drains it while its preStop hook holds it (deploy/kubernetes). A
//! new one is online when it is ready, and the manager adopts it. A pod that fails is restarted by its kubelet, or
//! created again by the StatefulSet: this provider deletes no pods, and needs no right to.

mod access;
mod client;
mod condition;
mod error;
mod objects;
mod quantity;
mod scale;
mod sets;
mod settings;
mod usage;

pub use error::KubernetesError;
pub use settings::{SetSettings, Settings};

use std::collections::BTreeMap;
use std::time::SystemTime;

use self::access::Access;
use self::client::Client;
use self::objects::Pod;
use self::sets::Seen;
use self::usage::Metrics;
use super::{Allocation, Condition, Look, Observed, Provider, ProviderError, Release, Resource, ResourceName, Stack};
use crate::level::Level;

/// A StatefulSet of the fleet.
#[derive(Clone, Debug)]
struct Set {
    settings: SetSettings,
    stack: Stack,
    /// Its headless service, below which pods have names.
    service: String,
}

/// The StatefulSets of one fleet.
#[derive(Debug)]
pub struct Kubernetes {
    client: Client,
    namespace: String,
    cluster_domain: String,
    sets: BTreeMap<Level, Set>,
    /// The uid of the pods that have been ready, by name.
    answered: BTreeMap<ResourceName, String>,
    /// The last error of pods that stopped being ready.
    hanging: BTreeMap<ResourceName, String>,
}

impl Kubernetes {
    /// Reaches the API server and reads the StatefulSets.
    ///
    /// # Errors
    /// When there are no credentials, the API server does not answer, or a StatefulSet is not there or has no headless
    /// service.
    pub fn open(settings: Settings) -> Result<Self, KubernetesError> {
        let access = Access::of(&settings)?;
        Self::with(access, settings)
    }

    fn with(access: Access, settings: Settings) -> Result<Self, KubernetesError> {
        let namespace = settings.namespace.or_else(|| access.namespace.clone());
        let mut opened = Self {
            client: Client::new(access)?,
            namespace: namespace.unwrap_or_else(|| "default".to_owned()),
            cluster_domain: settings.cluster_domain,
            sets: BTreeMap::new(),
            answered: BTreeMap::new(),
            hanging: BTreeMap::new(),
        };
        for (level, settings) in settings.sets {
            let set = opened.open_set(settings)?;
            opened.sets.insert(level, set);
        }
        Ok(opened)
    }

    /// The level and number of a pod of this fleet.
    fn place(&self, name: &ResourceName) -> Result<(Level, u64), KubernetesError> {
        let found = self.sets.iter().find_map(|(level, set)| Some((*level, set.stack.number(name)?)));
        found.ok_or_else(|| KubernetesError::Stranger(name.clone()))
    }

    fn set(&self, level: Level) -> Result<&Set, KubernetesError> {
        self.sets.get(&level).ok_or(KubernetesError::NoSet(level))
    }

    fn resource(&self, level: Level, set: &Set, name: ResourceName, note: String) -> Resource {
        let host = format!("{name}.{}.{}.svc.{}", set.service, self.namespace, self.cluster_domain);
        Resource {
            name,
            level,
            template: set.settings.stateful_set.clone(),
            address: format!("mqtt://{host}:{}", set.settings.port),
            admin: set.settings.admin_port.map(|port| format!("http://{host}:{port}")),
            pid: None,
            note,
        }
    }

    fn observe_set(&mut self, level: Level, look: Look) -> Result<Vec<Observed>, KubernetesError> {
        let set = self.set(level)?.clone();
        let seen = self.see(&set)?;
        let metrics = match look {
            Look::Conditions => Metrics::Unasked,
            Look::Everything => self.metrics(&seen),
        };
        let mut observed = Vec::new();
        for (number, name) in wanted(&set, &seen) {
            let pod = seen.pods.get(&number);
            observed.push(self.observed(level, &set, name, pod, number < seen.end, &metrics));
        }
        Ok(observed)
    }

    fn observed(
        &mut self,
        level: Level,
        set: &Set,
        name: ResourceName,
        pod: Option<&Pod>,
        shall_be: bool,
        metrics: &Metrics,
    ) -> Observed {
        let Some(pod) = pod else {
            let note = "the StatefulSet has not made its pod yet".to_owned();
            let resource = self.resource(level, set, name, note);
            return Observed { resource, condition: Condition::Starting, cpu: None, memory: None };
        };
        let answered = self.answered.get(&name).is_some_and(|uid| *uid == pod.metadata.uid);
        let (condition, mut note) = condition::of(pod, answered);
        // It is still there, and next in turn to be deleted.
        let condition = if shall_be { condition } else { Condition::Stopping };
        self.remember(&name, pod, &condition);
        let (container, now) = (set.settings.container.as_deref(), SystemTime::now());
        let memory = usage::memory(pod, container, metrics, now);
        let cpu = usage::cpu(pod, container, metrics, now).unwrap_or_else(|why| {
            if note.is_empty() {
                note = why.to_string();
            }
            None
        });
        Observed { resource: self.resource(level, set, name, note), condition, cpu, memory }
    }

    fn remember(&mut self, name: &ResourceName, pod: &Pod, condition: &Condition) {
        self.hanging.remove(name);
        match condition {
            Condition::Online => {
                self.answered.insert(name.clone(), pod.metadata.uid.clone());
            }
            Condition::Down(seen) | Condition::Ended(seen) => {
                self.hanging.insert(name.clone(), seen.clone());
            }
            Condition::Starting | Condition::Stopping => {}
        }
    }

    fn observe_all(&mut self, look: Look) -> Result<Vec<Observed>, KubernetesError> {
        let levels: Vec<Level> = self.sets.keys().copied().collect();
        let mut all = Vec::new();
        for level in levels {
            all.extend(self.observe_set(level, look)?);
        }
        let known = |name: &ResourceName| all.iter().any(|observed: &Observed| observed.resource.name == *name);
        self.answered.retain(|name, _| known(name));
        self.hanging.retain(|name, _| known(name));
        Ok(all)
    }

    fn allocate_pod(&mut self, name: &ResourceName) -> Result<Resource, KubernetesError> {
        let (level, number) = self.place(name)?;
        let set = self.set(level)?.clone();
        self.scale_up(&set, number, name)?;
        if let Some(seen) = self.hanging.get(name) {
            return Err(KubernetesError::Hanging { name: name.clone(), seen: seen.clone() });
        }
        Ok(self.resource(level, &set, name.clone(), String::new()))
    }

    fn release_pod(&mut self, name: &ResourceName) -> Result<Release, KubernetesError> {
        // An unknown name counts as removed.
        let Ok((level, number)) = self.place(name) else { return Ok(Release::Gone) };
        let set = self.set(level)?.clone();
        self.scale_down(&set, number, name)?;
        let there = self.see(&set)?.pods.contains_key(&number);
        Ok(if there { Release::Stopping } else { Release::Gone })
    }
}

/// The pods that there are or shall be, by number.
fn wanted(set: &Set, seen: &Seen) -> Vec<(u64, ResourceName)> {
    let mut numbers: Vec<u64> = (set.stack.first..seen.end).chain(seen.pods.keys().copied()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().filter_map(|number| Some((number, set.stack.resource(number)?))).collect()
}

impl Provider for Kubernetes {
    fn allocate(&mut self, wanted: &Allocation) -> Result<Resource, ProviderError> {
        Ok(self.allocate_pod(&wanted.name)?)
    }

    fn list(&mut self) -> Result<Vec<Resource>, ProviderError> {
        Ok(self.observe_all(Look::Conditions)?.into_iter().map(|observed| observed.resource).collect())
    }

    fn release(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        Ok(self.release_pod(name)?)
    }

    /// As [`release`](Self::release): the volumes of a StatefulSet outlive its pods unless it says otherwise.
    fn stop(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        Ok(self.release_pod(name)?)
    }

    fn stack(&self, level: Level) -> Option<Stack> {
        self.sets.get(&level).map(|set| set.stack.clone())
    }

    fn observe(&mut self, look: Look) -> Result<Vec<Observed>, ProviderError> {
        Ok(self.observe_all(look)?)
    }
}

#[cfg(test)]
mod tests;
