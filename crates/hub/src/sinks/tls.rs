//! TLS of sinks: which certificate authorities are trusted. The certificate of a server is always checked.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::open_error::TrustError;

/// The certificate authorities of a file, or the system's.
pub(crate) fn authorities(ca_file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let authorities = match ca_file {
        None => rustls_native_certs::load_native_certs().certs,
        Some(file) => {
            let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            read.map_err(|error| TrustError::Read { file: file.to_owned(), error })?
        }
    };
    if authorities.is_empty() {
        return Err(TrustError::NoAuthorities);
    }
    Ok(authorities)
}

/// TLS that trusts the authorities of a file, or the system's.
pub(crate) fn client(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, TrustError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(authorities(ca_file)?);
    if added == 0 {
        return Err(TrustError::NoAuthorities);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config?.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}
