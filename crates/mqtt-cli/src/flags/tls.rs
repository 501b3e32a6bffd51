//! TLS: the trusted authorities, and the client's certificate.

use std::path::PathBuf;

use clap::Args;
use tidegate_client::net::{TlsConnector, TlsOptions, TlsVersion};

use super::value::ValueError;
use super::{UsageError, heading};

/// The port of MQTT over TLS, by convention.
pub(super) const TLS_PORT: u16 = 8883;

/// Flags of TLS. Any of them asks for it, and so do the port 8883 and a URL that begins with `mqtts` or `wss`.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct TlsFlags {
    /// Speak TLS, and trust the authorities in this file (PEM) [default: the system's]
    #[arg(long, value_name = "FILE", help_heading = heading::TLS)]
    cafile: Option<PathBuf>,

    /// Speak TLS, and trust the authorities in the files of this directory
    #[arg(long, value_name = "DIRECTORY", help_heading = heading::TLS)]
    capath: Option<PathBuf>,

    /// The client's certificate (PEM); with --key
    #[arg(long, value_name = "FILE", requires = "key", help_heading = heading::TLS)]
    cert: Option<PathBuf>,

    /// The private key (PEM) of --cert
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = heading::TLS)]
    key: Option<PathBuf>,

    /// Take a certificate for another host, also one of X.509 version 1, from a trusted authority; any server with one
    /// can then pass for this one, and so can any client with one of version 1
    #[arg(long, help_heading = heading::TLS)]
    insecure: bool,

    /// Only this version: tlsv1.2 or tlsv1.3 [default: either]
    #[arg(long, value_name = "VERSION", value_parser = parse_tls_version, help_heading = heading::TLS)]
    tls_version: Option<TlsVersion>,

    /// The protocol to agree on (ALPN), such as mqtt
    #[arg(long, value_name = "PROTOCOL", help_heading = heading::TLS)]
    tls_alpn: Option<String>,

    /// Speak TLS, and trust the authorities of the system
    #[arg(long, conflicts_with_all = ["cafile", "capath"], help_heading = heading::TLS)]
    tls_use_os_certs: bool,

    /// Speak no TLS although the port is 8883
    #[arg(long, help_heading = heading::TLS)]
    no_tls: bool,
}

/// `tlsv1.2`, `tlsv1.3`, or these without `tlsv`.
fn parse_tls_version(text: &str) -> Result<TlsVersion, ValueError> {
    match text.strip_prefix("tlsv").unwrap_or(text) {
        "1.2" => Ok(TlsVersion::Tls12),
        "1.3" => Ok(TlsVersion::Tls13),
        _ => Err(ValueError::TlsVersion),
    }
}

impl TlsFlags {
    /// A flag that asks for TLS, if there is one.
    fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--cafile", self.cafile.is_some()),
            ("--capath", self.capath.is_some()),
            ("--cert", self.cert.is_some()),
            ("--insecure", self.insecure),
            ("--tls-version", self.tls_version.is_some()),
            ("--tls-alpn", self.tls_alpn.is_some()),
            ("--tls-use-os-certs", self.tls_use_os_certs),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Whether TLS is to be spoken, when `wanted` says what the URL asks for, if there is one, and `port` is that which
    /// was given.
    ///
    /// # Errors
    /// When the flags contradict each other or the URL.
    pub(super) fn is_wanted(&self, wanted: Option<bool>, port: Option<u16>) -> Result<bool, UsageError> {
        match (self.given(), wanted) {
            (Some(flag), _) if self.no_tls => {
                Err(UsageError::new(format!("{flag} and --no-tls contradict each other")))
            }
            (None, Some(true)) if self.no_tls => Err(UsageError::new("the URL asks for TLS, and --no-tls for none")),
            // A password must not travel in the clear against a flag for TLS.
            (Some(flag), Some(false)) => {
                Err(UsageError::new(format!("{flag} asks for TLS, and the URL for none: write mqtts:// or wss://")))
            }
            (Some(_), None) | (_, Some(true)) => Ok(true),
            (None, _) => Ok(port == Some(TLS_PORT) && !self.no_tls),
        }
    }

    /// # Errors
    /// When a flag asks for no TLS where it is always spoken.
    pub(super) fn refuse_none(&self) -> Result<(), UsageError> {
        if self.no_tls {
            return Err(UsageError::new("--no-tls: QUIC is always encrypted; leave the flag out"));
        }
        if self.tls_alpn.as_deref().is_some_and(|alpn| alpn != "mqtt") {
            return Err(UsageError::new("--tls-alpn: MQTT over QUIC is agreed on as `mqtt`; leave the flag out"));
        }
        Ok(())
    }

    /// # Errors
    /// When a flag asks for TLS where it is not spoken.
    pub(super) fn refuse_over(&self, transport: &str) -> Result<(), UsageError> {
        self.given().map_or(Ok(()), |flag| Err(UsageError::new(format!("{flag}: TLS is not spoken over {transport}"))))
    }

    /// The connector for QUIC. If no authority is named, and a broker on this machine has made a certificate for
    /// development, that is trusted.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub(super) fn quic_connector(&self, host: &str) -> Result<TlsConnector, UsageError> {
        let named = self.cafile.is_some() || self.capath.is_some() || self.tls_use_os_certs;
        let development = if named { None } else { tidegate_certificates::development::authority_for(host) };
        self.connector_with(self.cafile.clone().or(development))
    }

    /// The connector of TLS connections.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub(super) fn connector(&self) -> Result<TlsConnector, UsageError> {
        self.connector_with(self.cafile.clone())
    }

    fn connector_with(&self, ca_file: Option<PathBuf>) -> Result<TlsConnector, UsageError> {
        let options = TlsOptions {
            ca_file,
            ca_directory: self.capath.clone(),
            certificate: self.cert.clone(),
            key: self.key.clone(),
            any_hostname: self.insecure,
            version: self.tls_version,
            alpn: self.tls_alpn.clone(),
        };
        TlsConnector::new(&options).map_err(|error| UsageError::new(crate::chain::chain(&error)))
    }
}
