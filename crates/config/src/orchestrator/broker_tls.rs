//! TLS to brokers by the configuration.

use std::path::PathBuf;

use tidegate_client::net::{TlsConnector, TlsFileError, TlsOptions};
use tidegate_node::BrokerLinkTls;

use crate::sections::orchestrator::Orchestrator;

/// Why TLS cannot be spoken to brokers.
#[derive(Debug, thiserror::Error)]
pub enum BrokerTlsError {
    /// There is no list of authorities.
    #[error(
        "the system has no list of authorities to trust: set orchestrator.broker_ca to a file with that of the brokers"
    )]
    NoRoots,
    /// A file cannot be used.
    #[error("TLS to brokers cannot be set up (orchestrator.broker_ca, broker_certificate, broker_key): {}", with_causes(.0))]
    File(TlsFileError),
}

fn with_causes(error: &TlsFileError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl Orchestrator {
    /// The TLS settings for brokers. The files are read at each call, so that a broker that is added later gets the
    /// present ones.
    ///
    /// # Errors
    /// If a file cannot be used, or no authority is trusted.
    pub fn broker_tls(&self) -> Result<BrokerLinkTls, BrokerTlsError> {
        let file = |path: &Option<String>| path.as_ref().filter(|path| !path.is_empty()).map(PathBuf::from);
        let options = TlsOptions {
            ca_file: file(&self.broker_ca),
            certificate: file(&self.broker_certificate),
            key: file(&self.broker_key),
            any_hostname: self.broker_any_host_name,
            ..TlsOptions::default()
        };
        let connector = TlsConnector::new(&options).map_err(|error| match error {
            TlsFileError::NoSystemRoots => BrokerTlsError::NoRoots,
            other => BrokerTlsError::File(other),
        })?;
        if self.broker_any_host_name {
            tracing::warn!(
                "orchestrator.broker_any_host_name is set: the owner of any certificate of a trusted authority can impersonate a broker"
            );
        }
        Ok(BrokerLinkTls::new(connector.client_config()))
    }
}
