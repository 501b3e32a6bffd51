//! Certificates for tests: authorities, issued certificates, and files of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName, DnType,
    IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tidegate_node::{Node, PreparedTls, TlsError, TlsSettings};

/// A directory that no other test uses; removed at the end.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tidegate-node-tls-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A certificate and its key, PEM.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// An authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        Self::from(CertificateParams::default(), name)
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Its own certificate and key, as a peer that shows them has them.
    pub(crate) fn itself(&self) -> Issued {
        Issued { certificate: self.0.pem(), key: self.0.key().serialize_pem() }
    }

    /// One for these names, as `openssl req -x509` makes it.
    pub(crate) fn with_names(name: &str, sans: &[&str]) -> Self {
        let sans: Vec<String> = sans.iter().map(|name| (*name).to_owned()).collect();
        Self::from(CertificateParams::new(sans).unwrap(), name)
    }

    /// One for `localhost` with another time, or other purposes.
    pub(crate) fn edited(name: &str, edit: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        edit(&mut params);
        Self::from(params, name)
    }

    fn from(mut params: CertificateParams, name: &str) -> Self {
        params.distinguished_name = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Issues a certificate for these names.
    pub(crate) fn issue(&self, name: &str, sans: &[&str], edit: impl FnOnce(&mut CertificateParams)) -> Issued {
        let sans: Vec<String> = sans.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(sans).unwrap();
        params.distinguished_name = named(name);
        edit(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// A certificate for `localhost` and 127.0.0.1.
    pub(crate) fn server(&self) -> Issued {
        self.issue("server", &["localhost", "127.0.0.1"], |_| {})
    }

    /// A list of revoked certificates with these serial numbers.
    pub(crate) fn revoke(&self, serials: &[u64]) -> String {
        self.revoke_until(2099, serials)
    }

    /// The same, to be followed by another list in a year.
    pub(crate) fn revoke_until(&self, year: i32, serials: &[u64]) -> String {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(year, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut full = DistinguishedName::new();
    full.push(DnType::CommonName, name);
    full
}

/// The alternative name that is a URI.
pub(crate) fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

/// Settings of a listener with this certificate.
pub(crate) fn settings(directory: &Directory, issued: &Issued) -> TlsSettings {
    TlsSettings::new(directory.write("server.pem", &issued.certificate), directory.write("server.key", &issued.key))
}

/// The configuration of a client that trusts this authority.
pub(crate) fn client_config(authority: &str, identity: Option<&Issued>) -> ClientConfig {
    client_config_of(authority, identity, rustls::ALL_VERSIONS)
}

/// The same for these versions only.
pub(crate) fn client_config_of(
    authority: &str,
    identity: Option<&Issued>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    match identity {
        None => builder.with_no_client_auth(),
        Some(issued) => {
            let chain = CertificateDer::pem_slice_iter(issued.certificate.as_bytes()).collect::<Result<_, _>>();
            let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain.unwrap(), key).unwrap()
        }
    }
}

/// The authority of all tests that need no other, and a directory with its server certificate.
pub(crate) struct Common {
    pub(crate) settings: TlsSettings,
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) authority: Authority,
    pub(crate) directory: Directory,
}

pub(crate) static COMMON: LazyLock<Common> = LazyLock::new(|| {
    let (authority, directory) = (Authority::new("test authority"), Directory::new());
    let settings = settings(&directory, &authority.server());
    directory.write("ca.pem", &authority.pem());
    Common { settings, client: Arc::new(client_config(&authority.pem(), None)), authority, directory }
});

/// Has a node read the files of its first listeners again. Returns the number of listeners that use them.
pub(crate) fn read_again(node: &Node, listeners: &[&TlsSettings]) -> Result<usize, TlsError> {
    let settings: BTreeMap<usize, TlsSettings> =
        (0..).zip(listeners.iter().map(|&settings| settings.clone())).collect();
    node.handle().prepare_tls(&settings).map(PreparedTls::apply)
}
