//! Verifiers of `rustls` that accept a certificate which another verifier refuses for one reason.

use rustls::{CertificateError, Error};

/// True if a certificate is refused only because it is that of an authority.
pub fn is_authority(reason: &CertificateError) -> bool {
    matches!(reason, CertificateError::Other(_)) && reason.to_string().contains("CaUsedAsEndEntity")
}

/// True if a certificate is refused only because it is for another host. A verifier checks the name last.
pub fn is_for_another_host(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })
    )
}

/// The functions of a verifier for signatures of a handshake, which another verifier in its field checks.
#[macro_export]
macro_rules! signatures_checked_by {
    ($field:tt) => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &::rustls::pki_types::CertificateDer<'_>,
            signature: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            self.$field.verify_tls12_signature(message, certificate, signature)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &::rustls::pki_types::CertificateDer<'_>,
            signature: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            self.$field.verify_tls13_signature(message, certificate, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<::rustls::SignatureScheme> {
            self.$field.supported_verify_schemes()
        }
    };
}
