//! The settings of a TLS listener.

use std::path::PathBuf;

use super::facts::{IdentityRole, TlsVersion};

/// Default limit of concurrent handshakes of a listener.
pub const DEFAULT_MAX_HANDSHAKES: u32 = 4_096;

/// The settings of a TLS listener. Files are read at the start and at every reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// The server's certificates. The first that has the requested name (SNI) is presented; the first of all when none
    /// has it or the client requests no name.
    pub certificates: Vec<CertificateFiles>,
    /// Whether clients show a certificate.
    pub client_certificates: ClientCertificates,
    /// The authorities (PEM) whose certificates clients may show.
    pub client_ca: Option<PathBuf>,
    /// Lists of revoked certificates (PEM). With one, the list of the authority that issued a client's certificate must
    /// be there, or the client is refused.
    pub crl: Vec<PathBuf>,
    /// The policy when such a list is older than its own next update.
    pub crl_outdated: OutdatedLists,
    /// The part of the client's certificate that is its identity.
    pub identity_field: IdentityField,
    /// The use of the identity.
    pub identity_role: IdentityRole,
    /// The least version that is spoken.
    pub minimum_version: TlsVersion,
    /// Handshakes at once; further connections are closed as soon as they are accepted. Each may hold up to 32 KiB. 0
    /// is no limit.
    pub max_handshakes: u32,
}

impl TlsSettings {
    /// One certificate, none required from clients, TLS 1.2 and 1.3.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            certificates: vec![CertificateFiles { certificate: certificate.into(), key: key.into() }],
            client_certificates: ClientCertificates::None,
            client_ca: None,
            crl: Vec::new(),
            crl_outdated: OutdatedLists::Accept,
            identity_field: IdentityField::CommonName,
            identity_role: IdentityRole::None,
            minimum_version: TlsVersion::Tls12,
            max_handshakes: DEFAULT_MAX_HANDSHAKES,
        }
    }
}

/// A certificate of the server and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate (PEM), followed by those between it and the root.
    pub certificate: PathBuf,
    /// Its private key (PEM: PKCS#8, PKCS#1 or SEC1), not encrypted.
    pub key: PathBuf,
}

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked.
    #[default]
    None,
    /// Requested and optional; a presented one must be valid.
    Optional,
    /// Without a valid one they do not get in.
    Required,
}

/// The policy when a list of revoked certificates is older than its own next update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutdatedLists {
    /// The list still holds, and the log reports that it is outdated.
    #[default]
    Accept,
    /// Clients of its authority are refused until there is a newer one.
    Refuse,
}

/// A part of a client's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdentityField {
    /// The first common name of the subject.
    #[default]
    CommonName,
    /// The first DNS name among the alternative names.
    SanDns,
    /// The first email address among the alternative names.
    SanEmail,
    /// The first URI among the alternative names.
    SanUri,
}
