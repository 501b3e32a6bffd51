//! TLS between MQTT and TCP.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::load::error::LoadError;
use crate::load::plan::Target;

/// TLS between MQTT and TCP.
pub(super) struct Tls {
    session: ClientConnection,
    /// The protocol that the broker has to agree to first (ALPN), until its answer is known.
    must_agree: Option<&'static [u8]>,
}

/// The common settings of all connections to a broker. Sessions are not resumed: each client must cost as much as a new
/// one.
///
/// # Errors
/// When the certificates cannot be used.
pub(super) fn config(target: &Target, alpn: Option<&[u8]>) -> Result<Arc<ClientConfig>, LoadError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| certificates(target, &error.to_string()))?;
    let mut config = match &target.ca_file {
        Some(_) => builder.with_root_certificates(roots(target)?).with_no_client_auth(),
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate { provider }))
            .with_no_client_auth(),
    };
    config.resumption = rustls::client::Resumption::disabled();
    config.alpn_protocols = alpn.map(<[u8]>::to_vec).into_iter().collect();
    Ok(Arc::new(config))
}

fn certificates(target: &Target, problem: &str) -> LoadError {
    let path = target.ca_file.as_ref().map_or_else(String::new, |path| path.display().to_string());
    LoadError::Certificates { path, problem: problem.to_owned() }
}

fn roots(target: &Target) -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = &target.ca_file else { return Ok(roots) };
    let wrong = |error: &dyn std::fmt::Display| certificates(target, &error.to_string());
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(&error))? {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    Ok(roots)
}

/// The name that the broker's certificate is for.
///
/// # Errors
/// If the name is invalid.
pub(super) fn server_name(target: &Target) -> Result<ServerName<'static>, LoadError> {
    let name = target.server_name.as_ref().unwrap_or(&target.host).clone();
    ServerName::try_from(name).map_err(|error| certificates(target, &error.to_string()))
}

impl Tls {
    /// A new session; `None` when the configuration allows none.
    pub(super) fn new(
        config: &Arc<ClientConfig>,
        name: &ServerName<'static>,
        must_agree: Option<&'static [u8]>,
    ) -> Option<Self> {
        ClientConnection::new(Arc::clone(config), name.clone()).ok().map(|session| Self { session, must_agree })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.session.is_handshaking()
    }

    pub(super) fn has_output(&self) -> bool {
        self.session.wants_write()
    }

    pub(super) fn say_last(&mut self) {
        self.session.send_close_notify();
    }

    /// Takes in plain bytes, and gives out encrypted ones.
    pub(super) fn encrypt(&mut self, mut bytes: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let taken = self.session.writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.take_output(sealed)?;
            if bytes.is_empty() {
                return Ok(());
            }
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
    }

    /// Gives out encrypted bytes.
    pub(super) fn take_output(&mut self, sealed: &mut Vec<u8>) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(sealed)?;
        }
        Ok(())
    }

    /// Takes in encrypted bytes, and gives out plain ones.
    pub(super) fn decrypt(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> io::Result<()> {
        while !bytes.is_empty() {
            self.session.read_tls(&mut bytes)?;
            let state = self
                .session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let before = plain.len();
            plain.resize(before + state.plaintext_bytes_to_read(), 0);
            self.session.reader().read_exact(&mut plain[before..])?;
        }
        self.agreed()
    }

    /// Fails once the broker has answered and not agreed to the protocol that is spoken.
    fn agreed(&mut self) -> io::Result<()> {
        if !self.is_open() {
            return Ok(());
        }
        match self.must_agree.take() {
            Some(protocol) if self.session.alpn_protocol() != Some(protocol) => {
                let name = String::from_utf8_lossy(protocol);
                let problem = format!("its TLS does not agree to `{name}` (ALPN): check the port");
                Err(io::Error::new(io::ErrorKind::InvalidData, problem))
            }
            _ => Ok(()),
        }
    }
}

/// Takes any certificate. A measurement is no place to prove identities, and many brokers that are measured have
/// certificates of their own making.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
