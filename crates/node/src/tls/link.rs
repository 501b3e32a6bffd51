//! TLS 1.3 between two nodes of a cluster.
//!
//! The cluster's secret proves the identity of the other node, over keys of the TLS connection, which no relay in
//! between can have. So its certificate need not name it: with an authority the certificate has to come from that
//! authority, and without one any certificate is accepted.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme, version,
};
use tidegate_x509::verifier::is_for_another_host;

use super::configuration::{Listing, build, setup};
use super::{ClientCertificates, TlsError, TlsSettings, TlsVersion, files};

/// The protocol that both sides name, so that no other server is taken for a node.
const ALPN: &[u8] = b"tidelink";
/// The label of exported keys of a connection [RFC 8446 7.5].
const EXPORTER_LABEL: &[u8] = b"EXPORTER-tidegate-link";
/// Bytes of such keys.
const BINDING_BYTES: usize = 32;

/// How the links of a node are encrypted, and which certificates of others it takes.
#[derive(Clone)]
pub struct LinkTls {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl fmt::Debug for LinkTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkTls").finish_non_exhaustive()
    }
}

impl LinkTls {
    /// Both sides show certificates of an authority: PEM files.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn of_authority(ca: &Path, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let settings = TlsSettings {
            client_certificates: ClientCertificates::Required,
            client_ca: Some(ca.to_owned()),
            minimum_version: TlsVersion::Tls13,
            ..TlsSettings::new(certificate, key)
        };
        let server = build(&settings, ALPN, Listing::Refuses)?.config;
        let provider = Arc::new(default_provider());
        let mut roots = RootCertStore::empty();
        for (certificate, number) in files::certificates(ca)?.into_iter().zip(1..) {
            let refused = |reason: String| TlsError::Certificate { file: ca.to_owned(), number, reason };
            roots.add(certificate).map_err(|error| refused(error.to_string()))?;
        }
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = Arc::new(OfAuthority(inner.build().map_err(setup)?));
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13]);
        let builder = builder.map_err(setup)?.dangerous().with_custom_certificate_verifier(verifier);
        let client = builder.with_client_auth_cert(files::certificates(certificate)?, files::private_key(key)?);
        Ok(Self::new(server, client.map_err(setup)?))
    }

    /// The listener shows a self-signed certificate (DER, with its key as PKCS #8).
    ///
    /// # Errors
    /// When they do not belong together.
    pub fn self_signed(certificate: Vec<u8>, key: Vec<u8>) -> Result<Self, TlsError> {
        let provider = Arc::new(default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let server = server.with_protocol_versions(&[&version::TLS13]).map_err(setup)?.with_no_client_auth();
        let key = PrivatePkcs8KeyDer::from(key).into();
        let mut server = server.with_single_cert(vec![CertificateDer::from(certificate)], key).map_err(setup)?;
        server.alpn_protocols = vec![ALPN.to_vec()];
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(&[&version::TLS13]).map_err(setup)?.dangerous();
        let client = builder.with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))).with_no_client_auth();
        Ok(Self::new(Arc::new(server), client))
    }

    fn new(server: Arc<ServerConfig>, mut client: ClientConfig) -> Self {
        client.alpn_protocols = vec![ALPN.to_vec()];
        client.resumption = rustls::client::Resumption::disabled();
        client.enable_sni = false;
        Self { server, client: Arc::new(client) }
    }

    /// The listener's side.
    pub(crate) fn listen(&self) -> Result<Connection, rustls::Error> {
        Ok(ServerConnection::new(Arc::clone(&self.server))?.into())
    }

    /// The dialer's side.
    pub(crate) fn dial(&self, address: std::net::IpAddr) -> Result<Connection, rustls::Error> {
        Ok(ClientConnection::new(Arc::clone(&self.client), ServerName::IpAddress(address.into()))?.into())
    }
}

/// Keys that only both ends of a connection have, once its handshake is over.
pub(crate) fn binding(connection: &Connection) -> Result<Vec<u8>, rustls::Error> {
    connection.export_keying_material(vec![0; BINDING_BYTES], EXPORTER_LABEL, None)
}

/// Accepts all certificates of an authority; their names are not checked.
#[derive(Debug)]
struct OfAuthority(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for OfAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(error) if is_for_another_host(&error) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    tidegate_x509::signatures_checked_by!(0);
}

/// Accepts any certificate whose key the other side has.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
