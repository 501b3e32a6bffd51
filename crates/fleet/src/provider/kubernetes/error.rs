//! What can go wrong between a manager and an API server.

use std::path::PathBuf;
use std::time::Duration;

use crate::level::Level;
use crate::provider::{ProviderError, ResourceName};

/// Why Kubernetes did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// A file with credentials.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A kubeconfig that cannot be used.
    #[error("the kubeconfig {} cannot be used: {problem}", .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// Neither in a pod nor told where the API server is.
    #[error("this is no pod with a service account ({0}); name a kubeconfig with `kubeconfig` in [kubernetes]")]
    NoServiceAccount(String),
    /// Certificates or keys for TLS.
    #[error("{what} cannot be used: {problem}")]
    Tls {
        /// Which.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// No answer, or not in time.
    #[error("the API server {server} does not answer: {problem}")]
    Unreachable {
        /// Its address.
        server: String,
        /// What happened.
        problem: String,
    },
    /// 401.
    #[error(
        "the API server does not know who asks (401): {0}; look at the service account's token, or the kubeconfig's user"
    )]
    Unauthorized(String),
    /// 403.
    #[error("the right `{right}` is missing (403): {said}; grant it with a Role, as deploy/kubernetes/rbac.yaml does")]
    Forbidden {
        /// The right that is missing: verb, resource and namespace.
        right: String,
        /// What the API server says.
        said: String,
    },
    /// 404.
    #[error("there is no {what}: {said}")]
    NotFound {
        /// What was asked for.
        what: String,
        /// What the API server says.
        said: String,
    },
    /// 409, again and again.
    #[error("somebody else changes {what} all the time: given up after {tries} tries; the next look asks again")]
    Conflict {
        /// What was to be changed.
        what: String,
        /// How often it was tried.
        tries: u32,
    },
    /// 429, or 5xx with a time to wait.
    #[error("the API server is busy ({status}) and is left alone for {} s", .wait.as_secs())]
    Busy {
        /// What it answered.
        status: u16,
        /// For how long nothing is asked.
        wait: Duration,
    },
    /// Any other refusal.
    #[error("the API server answers {status} to {what}: {said}")]
    Refused {
        /// What it answered.
        status: u16,
        /// What was asked.
        what: String,
        /// What the API server says.
        said: String,
    },
    /// An answer that is not what the API promises.
    #[error("the answer to {what} is not understood: {problem}")]
    Strange {
        /// What was asked.
        what: String,
        /// What is wrong with it.
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
        /// Who was to come.
        name: ResourceName,
        /// Who can.
        next: String,
    },
    /// A pod that does not work, and that Kubernetes has to start again.
    #[error("{name} is there and does not work ({seen}); its kubelet starts it again when its liveness probe fails")]
    Hanging {
        /// Which.
        name: ResourceName,
        /// What was seen.
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
