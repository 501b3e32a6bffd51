//! The identity of a client by its certificate.

use super::facts::IdentityRole;
use super::facts::{ClientCertificate, Identity};
use super::settings::{IdentityField, TlsSettings};
use super::x509;

/// Reads the certificate that a client has shown, and takes its identity from it as the listener asks.
pub(crate) fn client_facts(
    certificate: &[u8],
    settings: &TlsSettings,
) -> (Option<ClientCertificate>, Option<Identity>) {
    let client = x509::read(certificate);
    let identity = client.as_ref().and_then(|client| identity(client, settings));
    (client, identity)
}

fn identity(client: &ClientCertificate, settings: &TlsSettings) -> Option<Identity> {
    let value = match settings.identity_field {
        IdentityField::CommonName => client.common_name.as_ref(),
        IdentityField::SanDns => client.dns.first(),
        IdentityField::SanEmail => client.emails.first(),
        IdentityField::SanUri => client.uris.first(),
    };
    let role = settings.identity_role;
    value.filter(|_| role != IdentityRole::None).map(|value| Identity { value: value.clone(), role })
}
