//! The service account that a kubelet gives to a pod.

use std::path::Path;

use super::{Access, Identity, KubernetesError, certificates, read_file, read_text};

/// The directory in which a kubelet puts it.
pub(super) const DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Reads it: the API server's address from the environment, the rest from files.
pub(super) fn read(directory: &Path, environment: impl Fn(&str) -> Option<String>) -> Result<Access, KubernetesError> {
    let variable = |name: &str| {
        let value = environment(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| KubernetesError::NoServiceAccount(format!("{name} is not set")))
    };
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let token = directory.join("token");
    // It is read again for each request; that it is there is seen now.
    read_text(&token)?;
    Ok(Access {
        server: format!("https://{host}:{port}"),
        authorities: certificates("the service account's ca.crt", &read_file(&directory.join("ca.crt"))?)?,
        identity: Identity::TokenFile(token),
        namespace: Some(read_text(&directory.join("namespace"))?.trim().to_owned()),
    })
}
