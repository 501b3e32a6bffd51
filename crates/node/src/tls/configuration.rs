//! From settings to a configuration of `rustls`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore, ServerConfig, version};

use super::error::{TlsError, VERSION_1};
use super::facts::TlsVersion;
use super::listed::Listed;
use super::resolver::ByServerName;
use super::settings::{CertificateFiles, ClientCertificates, OutdatedLists, TlsSettings};
use super::{files, time, x509};

impl TlsSettings {
    /// Reads all files, to check whether a listener can be created from them.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn check(&self) -> Result<(), TlsError> {
        build(self, b"mqtt", Listing::Admits).map(drop)
    }
}

/// Tickets given to a client of TLS 1.3. Each is used once, and a device makes one connection.
const TICKETS: usize = 1;

/// When the list of revoked certificates of a file has to be followed by another, seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListDue {
    pub(super) file: PathBuf,
    pub(super) next_update: i64,
}

/// A TLS configuration made of a listener's files.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) config: Arc<ServerConfig>,
    /// Checks the certificates of clients, where these may show one.
    pub(super) verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// When the lists of revoked certificates are outdated.
    pub(super) lists: Vec<ListDue>,
}

/// Whether the certificate of an authority, if it is itself in the file of authorities, admits its owner.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    Admits,
    /// Only certificates that an authority has issued admit.
    Refuses,
}

/// Reads all files and makes a configuration of them.
pub(super) fn build(settings: &TlsSettings, alpn: &[u8], listing: Listing) -> Result<Built, TlsError> {
    let provider = Arc::new(default_provider());
    let versions = match settings.minimum_version {
        TlsVersion::Tls12 => &[&version::TLS13, &version::TLS12][..],
        TlsVersion::Tls13 => &[&version::TLS13][..],
    };
    let certificates =
        settings.certificates.iter().map(|files| certified_key(files, &provider)).collect::<Result<Vec<_>, _>>()?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let mut lists = Vec::new();
    let verifier = client_verifier(settings, &provider, listing, &mut lists)?;
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).map_err(setup)?;
    let builder = match &verifier {
        Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(ByServerName::new(certificates)));
    config.alpn_protocols = vec![alpn.to_vec()];
    // Clients keep the tickets, so resumption costs no memory here. The key is this configuration's own: a session of
    // another listener, or from before a reload, needs a full handshake.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = Ticketer::new().map_err(setup)?;
    config.send_tls13_tickets = TICKETS;
    Ok(Built { config: Arc::new(config), verifier, lists })
}

pub(super) fn setup(error: impl std::fmt::Display) -> TlsError {
    TlsError::Setup { reason: error.to_string() }
}

fn certified_key(
    files: &CertificateFiles,
    provider: &CryptoProvider,
) -> Result<(Vec<Box<str>>, Arc<CertifiedKey>), TlsError> {
    let chain = files::certificates(&files.certificate)?;
    let key = files::private_key(&files.key)?;
    let signer = provider.key_provider.load_private_key(key);
    let signer = signer.map_err(|error| TlsError::Key { file: files.key.clone(), reason: error.to_string() })?;
    let names = check_chain(&files.certificate, &chain)?;
    let certified = CertifiedKey::new(chain, signer);
    match certified.keys_match() {
        // A key that does not expose its public half cannot be compared.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(rustls::Error::InconsistentKeys(_)) => {
            let (certificate, key) = (files.certificate.clone(), files.key.clone());
            return Err(TlsError::Mismatch { certificate, key });
        }
        Err(error) => {
            let (file, reason) = (files.certificate.clone(), error.to_string());
            return Err(TlsError::Certificate { file, number: 1, reason });
        }
    }
    Ok((names, Arc::new(certified)))
}

/// Reads each certificate of a chain, warns of expired ones, and returns the names of the first.
fn check_chain(file: &Path, chain: &[CertificateDer<'_>]) -> Result<Vec<Box<str>>, TlsError> {
    let mut names = Vec::new();
    for (certificate, number) in chain.iter().zip(1..) {
        let Some(read) = x509::read(certificate) else {
            return Err(TlsError::Certificate { file: file.into(), number, reason: "it is no X.509".into() });
        };
        if number == 1 && x509::is_version_1(certificate) {
            return Err(TlsError::Certificate { file: file.into(), number, reason: VERSION_1.into() });
        }
        if read.not_after < time::now() {
            let name = read.common_name.as_deref().unwrap_or_default();
            tracing::warn!(file = %file.display(), number, name, "this certificate has expired; clients will refuse it");
        }
        if number == 1 {
            names = read.dns;
        }
    }
    Ok(names)
}

fn client_verifier(
    settings: &TlsSettings,
    provider: &Arc<CryptoProvider>,
    listing: Listing,
    lists: &mut Vec<ListDue>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    if settings.client_certificates == ClientCertificates::None {
        return Ok(None);
    }
    let file = settings.client_ca.as_ref().ok_or(TlsError::NoClientAuthority)?;
    let mut roots = RootCertStore::empty();
    let trusted = files::certificates(file)?;
    for (certificate, number) in trusted.iter().zip(1..) {
        let refused = |reason: String| TlsError::Certificate { file: file.clone(), number, reason };
        let end = x509::read(certificate).ok_or_else(|| refused("it is no X.509".to_owned()))?.not_after;
        if end < time::now() {
            tracing::warn!(file = %file.display(), number, "this authority has expired: its clients are refused");
        }
        roots.add(certificate.clone()).map_err(|error| refused(error.to_string()))?;
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    if !settings.crl.is_empty() {
        for file in &settings.crl {
            let read = files::revocation_lists(file)?;
            let due = read.iter().filter_map(|list| x509::next_update(list));
            lists.extend(due.map(|next_update| ListDue { file: file.clone(), next_update }));
            builder = builder.with_crls(read);
        }
        if settings.crl_outdated == OutdatedLists::Refuse {
            builder = builder.enforce_revocation_expiration();
        }
        builder = builder.only_check_end_entity_revocation();
    }
    if settings.client_certificates == ClientCertificates::Optional {
        builder = builder.allow_unauthenticated();
    }
    let file = settings.crl.first().unwrap_or(file).clone();
    let inner = builder.build().map_err(|error| match error {
        rustls::client::VerifierBuilderError::InvalidCrl(reason) => {
            TlsError::Crl { file, reason: format!("{reason:?}") }
        }
        other => setup(other),
    })?;
    // No list can revoke a certificate that is its own authority.
    let admits_listed = settings.crl.is_empty() && listing == Listing::Admits;
    Ok(Some(if admits_listed { Arc::new(Listed { inner, trusted }) } else { inner }))
}
