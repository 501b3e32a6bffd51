//! TLS of sinks: which certificate authorities are trusted. The certificate of a server is always checked.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The certificate authorities of a file, or the system's.
pub(crate) fn authorities(ca_file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, String> {
    let authorities = match ca_file {
        None => rustls_native_certs::load_native_certs().certs,
        Some(file) => {
            let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            read.map_err(|error| format!("cannot read certificates from {}: {error}", file.display()))?
        }
    };
    if authorities.is_empty() {
        return Err("there are no certificate authorities to trust; name a file with `ca`".to_owned());
    }
    Ok(authorities)
}

/// TLS that trusts the authorities of a file, or the system's.
pub(crate) fn client(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(authorities(ca_file)?);
    if added == 0 {
        return Err("there are no certificate authorities to trust; name a file with `ca`".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}
