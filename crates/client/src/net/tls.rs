//! TLS of the client: trusted authorities, and the client's certificate.

mod files;
mod hostname;
mod listed;
mod session;
mod version1;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore, version};

pub use files::TlsFileError;
use hostname::AnyHostname;
use listed::Listed;
pub(super) use session::TlsStream;

/// The protocol of MQTT over QUIC with one stream.
const QUIC_ALPN: &[u8] = b"mqtt";

/// Trusted authorities, and the client's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// A file (PEM) of authorities to trust. Without this and `ca_directory`, the system's authorities are trusted. A
    /// server may show one of these certificates as its own.
    pub ca_file: Option<PathBuf>,
    /// A directory of such files.
    pub ca_directory: Option<PathBuf>,
    /// A file (PEM) with the client's certificate and those between it and the root; needs `key`.
    pub certificate: Option<PathBuf>,
    /// The private key (PEM) of that certificate, not encrypted.
    pub key: Option<PathBuf>,
    /// Accept a certificate for another host, and one of X.509 version 1, which has no purpose: that of a client counts
    /// as a server's. A trusted authority must have signed it.
    pub any_hostname: bool,
    /// The only version to use; `None` for any.
    pub version: Option<TlsVersion>,
    /// A protocol to agree on (ALPN). Over WebSocket it is `http/1.1` in any case, and over QUIC `mqtt`.
    pub alpn: Option<String>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2
    Tls12,
    /// 1.3
    Tls13,
}

/// Opens TLS connections. Connections of the same connector resume each other's sessions.
#[derive(Clone, Debug)]
pub struct TlsConnector {
    plain: Arc<ClientConfig>,
    web: Arc<ClientConfig>,
    quic: Arc<ClientConfig>,
}

impl TlsConnector {
    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn new(options: &TlsOptions) -> Result<Self, TlsFileError> {
        let provider = Arc::new(default_provider());
        let versions = match options.version {
            None => &[&version::TLS13, &version::TLS12][..],
            Some(TlsVersion::Tls12) => &[&version::TLS12][..],
            Some(TlsVersion::Tls13) => &[&version::TLS13][..],
        };
        let setup = |error: rustls::Error| TlsFileError::Setup { reason: error.to_string() };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(versions).map_err(setup)?;
        let (roots, trusted) = roots(options)?;
        let roots = Arc::new(roots);
        let algorithms = provider.signature_verification_algorithms;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider).build();
        let verifier = verifier.map_err(|error| TlsFileError::Setup { reason: error.to_string() })?;
        let checks_name = !options.any_hostname;
        let inner: Arc<dyn ServerCertVerifier> =
            if checks_name { verifier } else { Arc::new(AnyHostname { inner: verifier, roots, algorithms }) };
        let verifier = Arc::new(Listed { inner, trusted, checks_name });
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut plain = match (&options.certificate, &options.key) {
            (Some(certificate), Some(key)) => {
                let (chain, signer) = (files::certificates(certificate)?, files::private_key(key)?);
                builder.with_client_auth_cert(chain, signer).map_err(|error| TlsFileError::ClientKey {
                    certificate: certificate.clone(),
                    key: key.clone(),
                    reason: error.to_string(),
                })?
            }
            (None, None) => builder.with_no_client_auth(),
            (Some(_), None) => return Err(TlsFileError::Incomplete { given: "certificate", missing: "key" }),
            (None, Some(_)) => return Err(TlsFileError::Incomplete { given: "key", missing: "certificate" }),
        };
        plain.alpn_protocols = options.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let mut web = plain.clone();
        web.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut quic = plain.clone();
        quic.alpn_protocols = vec![QUIC_ALPN.to_vec()];
        Ok(Self { plain: Arc::new(plain), web: Arc::new(web), quic: Arc::new(quic) })
    }

    /// The rustls configuration for MQTT without WebSocket.
    #[must_use]
    pub fn client_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.plain)
    }

    pub(super) fn config(&self, websocket: bool) -> Arc<ClientConfig> {
        Arc::clone(if websocket { &self.web } else { &self.plain })
    }

    /// The same for QUIC.
    pub(super) fn quic_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.quic)
    }
}

impl PartialEq for TlsConnector {
    /// Whether both resume each other's sessions.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.plain, &other.plain)
    }
}

impl Eq for TlsConnector {}

/// The trusted authorities, and the certificates of the named files.
fn roots(options: &TlsOptions) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsFileError> {
    let mut roots = RootCertStore::empty();
    let mut named = Vec::new();
    if let Some(file) = &options.ca_file {
        named.extend(files::certificates(file)?);
        for (certificate, number) in named.iter().cloned().zip(1..) {
            let refused = |error: rustls::Error| TlsFileError::Authority {
                file: file.clone(),
                number,
                reason: error.to_string(),
            };
            roots.add(certificate).map_err(refused)?;
        }
    }
    if let Some(directory) = &options.ca_directory {
        // A directory may contain other files: unusable ones are skipped.
        let found = files::directory(directory)?;
        roots.add_parsable_certificates(found.iter().cloned());
        named.extend(found);
    }
    if options.ca_file.is_none() && options.ca_directory.is_none() {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(TlsFileError::NoSystemRoots);
        }
    }
    if roots.is_empty() {
        return Err(TlsFileError::NoAuthority { directory: options.ca_directory.clone().unwrap_or_default() });
    }
    Ok((roots, named))
}
