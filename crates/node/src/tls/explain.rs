//! Failures of TLS with a broker, for people.

use rustls::{AlertDescription, CertificateError};

use super::certificate_problem;

/// An explanation of a failure, for people.
pub(crate) fn explain(error: &rustls::Error) -> String {
    use rustls::Error;
    match error {
        // Authorities of one name have different keys: then it is the signature that is wrong.
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "its certificate comes from no authority that is trusted here; name a file with the authority".to_owned()
        }
        Error::InvalidCertificate(
            reason @ (CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }),
        ) => format!("its certificate is for another host name: {reason}"),
        Error::InvalidCertificate(reason) => {
            format!("its certificate is not accepted: {}", certificate_problem(reason))
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "it requires a certificate, and was shown none".to_owned()
        }
        Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::AccessDenied),
        ) => format!("it does not accept the certificate that it was shown ({alert:?})"),
        Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => "it does not speak TLS there".to_owned(),
        other => other.to_string(),
    }
}
