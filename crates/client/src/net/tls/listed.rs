//! Servers whose certificate is itself in the file of trusted authorities, as `openssl req -x509` makes it.

use std::sync::Arc;

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error};
use tidegate_x509::purpose::Purpose;
use tidegate_x509::verifier::is_authority;

/// Accepts a server's certificate that is the same, byte by byte, as one of the files, although it is that of an
/// authority. The holder of its key could issue any other certificate, so no other server is trusted by this.
#[derive(Debug)]
pub(super) struct Listed {
    /// It checks the dates before it refuses the certificate of an authority.
    pub(super) inner: Arc<dyn ServerCertVerifier>,
    /// The certificates of the named files; certificates of the system belong to no server.
    pub(super) trusted: Vec<CertificateDer<'static>>,
    /// False where any name is accepted.
    pub(super) checks_name: bool,
}

impl ServerCertVerifier for Listed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp, now) {
            Err(Error::InvalidCertificate(reason)) if is_authority(&reason) && self.trusted.contains(end_entity) => {
                // The verifier inside refused it before it looked at its purposes.
                if !Purpose::Server.is_of(end_entity) {
                    return Err(CertificateError::InvalidPurpose.into());
                }
                if self.checks_name {
                    verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    tidegate_x509::signatures_checked_by!(inner);
}
