//! Clients whose certificate is itself in the file of trusted authorities, as `openssl req -x509` makes it.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DistinguishedName, Error};
use tidegate_x509::purpose::Purpose;
use tidegate_x509::verifier::is_authority;

/// Accepts a client's certificate that is the same, byte by byte, as one of the file, although it is that of an
/// authority. The holder of its key could issue any other certificate, so no other client is admitted by this.
#[derive(Debug)]
pub(super) struct Listed {
    /// It checks the dates before it refuses the certificate of an authority.
    pub(super) inner: Arc<dyn ClientCertVerifier>,
    pub(super) trusted: Vec<CertificateDer<'static>>,
}

impl ClientCertVerifier for Listed {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.inner.verify_client_cert(end_entity, intermediates, now) {
            Err(Error::InvalidCertificate(reason)) if is_authority(&reason) && self.trusted.contains(end_entity) => {
                // The verifier inside refused it before it looked at its purposes.
                if !Purpose::Client.is_of(end_entity) {
                    return Err(CertificateError::InvalidPurpose.into());
                }
                Ok(ClientCertVerified::assertion())
            }
            other => other,
        }
    }

    tidegate_x509::signatures_checked_by!(inner);
}
