//! Servers with certificates of X.509 version 1, as OpenSSL issues them by default.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, PublicKeyData, SigningKey};
use rustls::crypto::ring::{default_provider, sign::any_supported_type};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, Stream};
use tidegate_client::net::{Address, ConnectError, Driver, SocketOptions, Step, TlsConnector, TlsOptions, TlsVersion};
use tidegate_client::{Event, Options};

use crate::script::ACCEPTED;

const SEQUENCE: u8 = 0x30;
/// ecdsa-with-SHA256, 1.2.840.10045.4.3.2.
const ECDSA_SHA256: &[u8] = &[0x30, 0x0a, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];

fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len() as u16;
    let [high, low] = length.to_be_bytes();
    let head = match length {
        0..0x80 => vec![tag, low],
        0x80..0x100 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    [head, content].concat()
}

/// A name with this common name alone.
fn name(common: &str) -> Vec<u8> {
    let text = der(0x0c, &[common.as_bytes()]);
    der(SEQUENCE, &[&der(0x31, &[&der(SEQUENCE, &[&[6, 3, 0x55, 4, 3], &text])])])
}

/// A certificate of version 1 for the name `server`, valid until this time.
fn issue(issuer: &str, authority: &KeyPair, key: &KeyPair, until: &str) -> CertificateDer<'static> {
    let validity = der(SEQUENCE, &[&der(0x17, &[b"200101000000Z"]), &der(0x17, &[until.as_bytes()])]);
    let (issuer, subject, public) = (name(issuer), name("server"), key.subject_public_key_info());
    let signed = der(SEQUENCE, &[&[2, 1, 1], ECDSA_SHA256, &issuer, &validity, &subject, &public]);
    let signature = authority.sign(&signed).unwrap();
    der(SEQUENCE, &[&signed, ECDSA_SHA256, &der(3, &[&[0], &signature])]).into()
}

/// An authority of version 3 with this name, as a file.
struct Authority {
    key: KeyPair,
    file: PathBuf,
}

impl Authority {
    fn new(common: &str, label: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common);
        let pem = params.self_signed(&key).unwrap().pem();
        let file = std::env::temp_dir().join(format!("tidegate-version-1-{label}-{}.pem", std::process::id()));
        fs::write(&file, pem).unwrap();
        Self { key, file }
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        // A panic during another one would end the process before the test reports the first.
        let _ = fs::remove_file(&self.file);
    }
}

#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// A server for one client, which shows this certificate and signs with this key.
fn serve(certificate: CertificateDer<'static>, key: &KeyPair) -> (Address, JoinHandle<()>) {
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let shown = Shown(Arc::new(CertifiedKey::new(vec![certificate], any_supported_type(&private).unwrap())));
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(shown));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let mut socket = listener.accept().unwrap().0;
        let mut session = ServerConnection::new(Arc::new(config)).unwrap();
        let mut stream = Stream::new(&mut session, &mut socket);
        // A client that refuses the certificate ends the connection here.
        if stream.read_exact(&mut [0; 15]).is_ok() {
            stream.write_all(ACCEPTED).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    (Address::Tls { host: "127.0.0.1".to_owned(), port }, server)
}

/// Connects; returns why that is refused, if it is.
fn refusal(certificate: CertificateDer<'static>, key: &KeyPair, options: &TlsOptions) -> Option<String> {
    let (address, server) = serve(certificate, key);
    let sockets = SocketOptions { tls: Some(TlsConnector::new(options).unwrap()), ..SocketOptions::default() };
    let mut driver = Driver::new(Options::new("c"), address, sockets).unwrap();
    let refused = match driver.connect() {
        Ok(()) => {
            assert!(matches!(driver.next(None).unwrap(), Step::Event(Event::Connected(_))));
            None
        }
        Err(ConnectError::Tls { source, .. }) => Some(source.to_string()),
        Err(other) => panic!("{other}"),
    };
    drop(driver);
    server.join().unwrap();
    refused
}

fn trusting(authority: &Authority, any_hostname: bool) -> TlsOptions {
    TlsOptions { ca_file: Some(authority.file.clone()), any_hostname, ..TlsOptions::default() }
}

#[test]
fn version_1_is_accepted_where_the_name_is_not_checked() {
    let (authority, key) = (Authority::new("authority", "accepted"), KeyPair::generate().unwrap());
    let certificate = issue("authority", &authority.key, &key, "491231235959Z");
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let options = TlsOptions { version: Some(version), ..trusting(&authority, true) };
        assert_eq!(refusal(certificate.clone(), &key, &options), None, "{version:?}");
    }
    let refused = refusal(certificate, &key, &trusting(&authority, false)).unwrap();
    assert!(refused.contains("version 1") && refused.contains("version 3"), "{refused}");
}

#[test]
fn version_1_needs_a_trusted_authority_dates_and_its_own_key() {
    let (authority, key) = (Authority::new("authority", "needed"), KeyPair::generate().unwrap());
    let options = trusting(&authority, true);
    let stranger = KeyPair::generate().unwrap();
    let refused = |certificate, key: &KeyPair, part: &str| {
        let refused = refusal(certificate, key, &options).unwrap();
        assert!(refused.contains(part), "{refused}");
    };
    let valid = "491231235959Z";
    refused(issue("authority", &stranger, &key, valid), &key, "BadSignature");
    refused(issue("another", &authority.key, &key, valid), &key, "UnknownIssuer");
    refused(issue("authority", &authority.key, &key, "210101000000Z"), &key, "Expired");
    refused(issue("authority", &authority.key, &key, valid), &stranger, "BadSignature");
}
