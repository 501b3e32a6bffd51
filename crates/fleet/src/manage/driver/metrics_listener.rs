//! The listener for Prometheus and autoscalers on other machines.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::DriverError;
use super::endpoint::HttpEndpoint;
use super::local_api::{MetricsApi, Shown};

/// A listener for Prometheus and autoscalers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsListener {
    /// The address it listens on.
    pub listen: SocketAddr,
    /// Its certificate with chain, and its key, PEM, for HTTPS.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// Listens for Prometheus and autoscalers.
pub(super) fn start(listener: MetricsListener, shown: Shown) -> Result<HttpEndpoint, DriverError> {
    let MetricsListener { listen: address, tls } = listener;
    #[cfg(feature = "kubernetes")]
    let identity = tls
        .map(|(certificate, key)| super::endpoint::ServerCertificate::read(certificate, key).map(Arc::new))
        .transpose();
    #[cfg(not(feature = "kubernetes"))]
    let identity = if tls.is_some() { Err(std::io::ErrorKind::Unsupported.into()) } else { Ok(None) };
    identity
        .and_then(|identity| HttpEndpoint::start(address, Arc::new(MetricsApi(shown)), identity))
        .map_err(|source| DriverError::Metrics { address, source })
}
