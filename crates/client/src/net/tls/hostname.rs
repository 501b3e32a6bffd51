//! A verifier that takes a certificate for any host, as `--insecure` asks.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tidegate_x509::verifier::is_for_another_host;

use super::version1::Version1;

/// Checks everything but the name. The name is the last thing that the inner verifier checks, and it does not read
/// certificates of X.509 version 1.
#[derive(Debug)]
pub(super) struct AnyHostname {
    pub(super) inner: Arc<WebPkiServerVerifier>,
    /// The trusted authorities and the signature algorithms of the inner verifier.
    pub(super) roots: Arc<RootCertStore>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyHostname {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(certificate) = Version1::read(end_entity) {
            return certificate.verify(&self.roots, &self.algorithms, now).map(|()| ServerCertVerified::assertion());
        }
        match self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp, now) {
            Err(error) if is_for_another_host(&error) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match Version1::read(certificate) {
            Some(certificate) => certificate
                .verify_tls12(message, signature, &self.algorithms)
                .map(|()| HandshakeSignatureValid::assertion()),
            None => self.inner.verify_tls12_signature(message, certificate, signature),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match Version1::read(certificate) {
            Some(certificate) => certificate
                .verify_tls13(message, signature, &self.algorithms)
                .map(|()| HandshakeSignatureValid::assertion()),
            None => self.inner.verify_tls13_signature(message, certificate, signature),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
