//! The client's certificate, which the listener has verified.

use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::mark::Mark;
use crate::provider::{Context, Provider};
use crate::request::{ClientCertificate, Request};
use crate::settings::{CertificateSettings, NameSource};

/// Longest name that a certificate may give, in bytes: the limit of MQTT.
const MAX_NAME_LEN: usize = 65_535;

/// Why a certificate names no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NameError {
    #[error("the certificate has no {0}")]
    Missing(&'static str),
    #[error("the certificate's {0} cannot be a name in MQTT")]
    Invalid(&'static str),
}

/// Takes names from certificates. A connection without one is left to the next provider.
#[derive(Debug)]
pub(super) struct Certificate {
    name: String,
    settings: CertificateSettings,
}

impl Certificate {
    pub(super) fn new(name: &str, settings: &CertificateSettings) -> Self {
        Self { name: name.to_owned(), settings: settings.clone() }
    }

    fn identity(&self, certificate: &ClientCertificate) -> Result<Identity, NameError> {
        let user_name = named(certificate, self.settings.user_name)?;
        let client_id = self.settings.client_id.map(|source| named(certificate, source)).transpose()?;
        Ok(Identity {
            user_name: Some(user_name.to_owned()),
            client_id: client_id.map(str::to_owned),
            attributes: attributes(certificate),
            ..Identity::default()
        })
    }
}

impl Provider for Certificate {
    fn decide(&self, request: &Request, _: Context) -> Decision {
        let Some(certificate) = &request.certificate else {
            return Decision::Ignore;
        };
        match self.identity(certificate) {
            Ok(identity) => Decision::Allow(identity),
            Err(why) => Decision::Deny(Refusal::new(RefusalKind::NotAuthorized, &self.name, why.to_string())),
        }
    }

    /// That the certificate itself is still accepted is for its listener to say.
    fn mark(&self, _: &Identity) -> Option<Mark> {
        Some(Mark::of_settings(&self.settings))
    }
}

/// A name of a certificate, if it has it and MQTT can say it [MQTT-1.5.4-2].
fn named(certificate: &ClientCertificate, source: NameSource) -> Result<&str, NameError> {
    let (field, name) = match source {
        NameSource::CommonName => ("common name", certificate.common_name.as_ref()),
        NameSource::Dns => ("DNS name", certificate.dns.first()),
        NameSource::Email => ("mail address", certificate.emails.first()),
        NameSource::Uri => ("URI", certificate.uris.first()),
        NameSource::Fingerprint => ("fingerprint", Some(&certificate.fingerprint)),
    };
    match name {
        None => Err(NameError::Missing(field)),
        Some(name) if name.is_empty() || name.len() > MAX_NAME_LEN || name.contains(char::is_control) => {
            Err(NameError::Invalid(field))
        }
        Some(name) => Ok(name),
    }
}

fn attributes(certificate: &ClientCertificate) -> Vec<(String, String)> {
    let one = |name: &str, value: Option<&String>| value.map(|value| (name.to_owned(), value.clone()));
    [
        one("cert.common_name", certificate.common_name.as_ref()),
        one("cert.dns", certificate.dns.first()),
        one("cert.email", certificate.emails.first()),
        one("cert.uri", certificate.uris.first()),
        one("cert.fingerprint", Some(&certificate.fingerprint)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn decide(settings: &CertificateSettings, certificate: Option<ClientCertificate>) -> Decision {
        let request = Request { certificate, client_id: "c".to_owned(), ..Request::default() };
        let left = Duration::from_secs(1);
        Certificate::new("certs", settings).decide(&request, Context { left })
    }

    fn certificate() -> ClientCertificate {
        ClientCertificate {
            common_name: Some("meter 7".to_owned()),
            dns: vec!["m7.example".to_owned(), "other.example".to_owned()],
            fingerprint: "ab".to_owned(),
            ..ClientCertificate::default()
        }
    }

    const BY_NAME: CertificateSettings =
        CertificateSettings { user_name: NameSource::CommonName, client_id: Some(NameSource::Dns) };

    #[test]
    fn names_come_from_the_certificate() {
        let Decision::Allow(identity) = decide(&BY_NAME, Some(certificate())) else { panic!("refused") };
        assert_eq!(identity.user_name.as_deref(), Some("meter 7"));
        assert_eq!(identity.client_id.as_deref(), Some("m7.example"));
        assert!(identity.attributes.contains(&("cert.fingerprint".to_owned(), "ab".to_owned())));
    }

    #[test]
    fn without_a_certificate_the_next_provider_is_asked() {
        assert_eq!(decide(&BY_NAME, None), Decision::Ignore);
    }

    #[test]
    fn a_certificate_without_the_name_is_refused() {
        let settings = CertificateSettings { user_name: NameSource::Email, client_id: None };
        assert!(matches!(decide(&settings, Some(certificate())), Decision::Deny(_)));
        let odd = ClientCertificate { common_name: Some("a\0b".to_owned()), ..certificate() };
        assert!(matches!(decide(&BY_NAME, Some(odd)), Decision::Deny(_)));
        let empty = ClientCertificate { common_name: Some(String::new()), ..certificate() };
        assert!(matches!(decide(&BY_NAME, Some(empty)), Decision::Deny(_)));
    }
}
