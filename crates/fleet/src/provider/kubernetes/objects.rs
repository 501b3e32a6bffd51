//! The objects of the API, as far as this provider reads them. Other fields are skipped.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) owner_references: Vec<Owner>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Owner {
    pub(super) uid: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct StatefulSet {
    pub(super) metadata: Metadata,
    pub(super) spec: StatefulSetSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatefulSetSpec {
    /// 1 by default.
    pub(super) replicas: Option<u64>,
    pub(super) service_name: Option<String>,
    #[serde(default)]
    pub(super) ordinals: Ordinals,
    pub(super) selector: Selector,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Ordinals {
    pub(super) start: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Selector {
    pub(super) match_labels: BTreeMap<String, String>,
}

/// The scale subresource.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Scale {
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) spec: ScaleSpec,
}

/// An API server leaves 0 out.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScaleSpec {
    pub(super) replicas: u64,
}

/// A page of a list.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct List<T> {
    #[serde(default)]
    pub(super) metadata: ListMetadata,
    /// `null` where a server of Go has an empty list.
    pub(super) items: Option<Vec<T>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListMetadata {
    #[serde(rename = "continue")]
    pub(super) next: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Pod {
    pub(super) metadata: Metadata,
    pub(super) spec: PodSpec,
    #[serde(default)]
    pub(super) status: PodStatus,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PodSpec {
    #[serde(default)]
    pub(super) containers: Vec<Container>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Container {
    pub(super) name: String,
    #[serde(default)]
    pub(super) resources: Resources,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources {
    pub(super) limits: BTreeMap<String, String>,
    pub(super) requests: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodStatus {
    pub(super) phase: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) conditions: Vec<PodCondition>,
    pub(super) container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PodCondition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerStatus {
    pub(super) name: String,
    pub(super) state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerState {
    pub(super) waiting: Option<Reason>,
    pub(super) terminated: Option<Reason>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reason {
    pub(super) reason: String,
    pub(super) message: String,
}

/// The metrics of a pod at `metrics.k8s.io`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PodMetrics {
    pub(super) metadata: Metadata,
    pub(super) timestamp: String,
    #[serde(default)]
    pub(super) containers: Vec<ContainerMetrics>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ContainerMetrics {
    pub(super) name: String,
    #[serde(default)]
    pub(super) usage: BTreeMap<String, String>,
}

/// Why a request was refused.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    pub(super) message: String,
}
