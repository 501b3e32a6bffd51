//! Errors between a manager and an API server.

use std::path::PathBuf;
use std::time::Duration;

use crate::level::Level;
use crate::provider::{ProviderError, ResourceName};

/// Why a request to Kubernetes failed.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// A file with credentials.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A kubeconfig that cannot be used.
    #[error("the kubeconfig {} cannot be used: {problem}", .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The fault, with its remedy.
        problem: String,
    },
    /// Not in a pod, and without an address of the API server.
    #[error("this is no pod with a service account ({0}); name a kubeconfig with `kubeconfig` in [kubernetes]")]
    NoServiceAccount(String),
    /// Certificates or keys for TLS.
    #[error("{object} cannot be used: {problem}")]
    Tls {
        /// The object.
        object: &'static str,
        /// The fault.
        problem: String,
    },
    /// No answer, or not in time.
    #[error("the API server {server} does not answer: {problem}")]
    Unreachable {
        /// Its address.
        server: String,
        /// The event.
        problem: String,
    },
    /// 401.
    #[error(
        "the API server does not accept the credentials (401): {0}; check the service account's token, or the kubeconfig's user"
    )]
    Unauthorized(String),
    /// 403.
    #[error("the right `{right}` is missing (403): {said}; grant it with a Role, as deploy/kubernetes/rbac.yaml does")]
    Forbidden {
        /// The right that is missing: verb, resource and namespace.
        right: String,
        /// The text of the API server.
        said: String,
    },
    /// 404.
    #[error("there is no {object}: {said}")]
    NotFound {
        /// The request.
        object: String,
        /// The text of the API server.
        said: String,
    },
    /// 409, again and again.
    #[error("another client keeps changing {object}: stopped after {tries} tries; the next observation tries again")]
    Conflict {
        /// The object of the change.
        object: String,
        /// How often it was tried.
        tries: u32,
    },
    /// 429, or 5xx with a time to wait.
    #[error("the API server is busy ({status}) and is left alone for {} s", .wait.as_secs())]
    Busy {
        /// The status of its answer.
        status: u16,
        /// For how long no request is sent.
        wait: Duration,
    },
    /// Any other refusal.
    #[error("the API server answers {status} to {object}: {said}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// The request.
        object: String,
        /// The text of the API server.
        said: String,
    },
    /// A malformed answer.
    #[error("the answer to {object} is not understood: {problem}")]
    Strange {
        /// The request.
        object: String,
        /// The fault.
        problem: String,
    },
    /// No StatefulSet for a level.
    #[error("no StatefulSet makes {0}s; name one in [kubernetes.{0}s] of the fleet file")]
    NoSet(Level),
    /// Only the last pod can go.
    #[error("{name} cannot go: the last pod of its StatefulSet is {last}, and only that one can")]
    NotLast {
        /// Who was to go.
        name: ResourceName,
        /// Who can.
        last: String,
    },
    /// Only the next pod can come.
    #[error("{name} cannot come: the next pod of its StatefulSet is {next}")]
    NotNext {
        /// The awaited resource.
        name: ResourceName,
        /// Who can.
        next: String,
    },
    /// A pod that does not work, and that Kubernetes has to start again.
    #[error("{name} exists and does not work ({seen}); its kubelet restarts it when its liveness probe fails")]
    Hanging {
        /// The name.
        name: ResourceName,
        /// The observed value.
        seen: String,
    },
    /// Not a name that this provider gives.
    #[error("{0} is no pod of this fleet's StatefulSets")]
    Stranger(ResourceName),
}

impl From<KubernetesError> for ProviderError {
    fn from(error: KubernetesError) -> Self {
        Self::Cloud(Box::new(error))
    }
}
