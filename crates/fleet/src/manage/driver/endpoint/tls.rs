//! TLS of an endpoint.

use std::io;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// The certificate of an endpoint. A changed file is read at the next connection, so that a renewal needs no restart.
#[derive(Debug)]
pub(in super::super) struct ServerCertificate {
    certificate: PathBuf,
    key: PathBuf,
    read: Mutex<(Option<SystemTime>, Arc<ServerConfig>)>,
}

impl ServerCertificate {
    /// Reads a certificate with its chain, and its key, both PEM.
    pub(in super::super) fn read(certificate: PathBuf, key: PathBuf) -> io::Result<Self> {
        let config = config(&certificate, &key)?;
        let read = Mutex::new((changed(&certificate), config));
        Ok(Self { certificate, key, read })
    }

    /// The newest configuration that can be read.
    fn config(&self) -> Arc<ServerConfig> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let now = changed(&self.certificate);
        if now != read.0 {
            match config(&self.certificate, &self.key) {
                Ok(config) => *read = (now, config),
                Err(error) => {
                    tracing::warn!(%error, "certificates changed and cannot be used; the old ones stay in use");
                    read.0 = now;
                }
            }
        }
        Arc::clone(&read.1)
    }

    /// Completes the handshake before `deadline`.
    pub(super) fn accept(
        &self,
        mut socket: TcpStream,
        deadline: Instant,
    ) -> io::Result<StreamOwned<ServerConnection, TcpStream>> {
        let mut connection = ServerConnection::new(self.config()).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake is too slow"));
            }
            socket.set_read_timeout(Some(left))?;
            socket.set_write_timeout(Some(left))?;
            if connection.wants_write() {
                connection.write_tls(&mut socket)?;
            } else if connection.read_tls(&mut socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            } else {
                connection.process_new_packets().map_err(io::Error::other)?;
            }
        }
        Ok(StreamOwned::new(connection, socket))
    }
}

fn changed(path: &PathBuf) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|about| about.modified()).ok()
}

fn config(certificate: &PathBuf, key: &PathBuf) -> io::Result<Arc<ServerConfig>> {
    let about = |path: &PathBuf, error: String| io::Error::other(format!("{}: {error}", path.display()));
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain: Vec<CertificateDer<'static>> = chain.map_err(|error| about(certificate, error.to_string()))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| about(key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| about(certificate, error.to_string()))?;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr};

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::super::{Answers, Head, HttpAnswer, HttpEndpoint};
    use super::*;

    struct Hello;

    impl Answers for Hello {
        fn answer(&self, _: &Head) -> HttpAnswer {
            HttpAnswer::error("200 OK", "hello")
        }
    }

    /// A directory that ends with the test.
    struct CertificateFolder(PathBuf);

    impl CertificateFolder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tidegate-endpoint-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for CertificateFolder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Writes a new certificate, and returns it.
    fn renew(folder: &CertificateFolder) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(["manager".to_owned()]).unwrap();
        fs::write(folder.file("key"), made.signing_key.serialize_pem()).unwrap();
        fs::write(folder.file("certificate"), made.cert.pem()).unwrap();
        made.cert.der().clone()
    }

    fn get(address: SocketAddr, trusted: CertificateDer<'static>) -> io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connection = ClientConnection::new(Arc::new(config), ServerName::try_from("manager").unwrap()).unwrap();
        let mut stream = StreamOwned::new(connection, TcpStream::connect(address)?);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: manager\r\n\r\n")?;
        let mut text = Vec::new();
        // The endpoint closes the connection without close_notify: the length says where the answer ends.
        let _ = stream.read_to_end(&mut text);
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn a_renewed_certificate_is_used_without_a_restart() {
        let folder = CertificateFolder::new("renewed");
        let first = renew(&folder);
        let file = fs::File::options().append(true).open(folder.file("certificate")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let identity = ServerCertificate::read(folder.file("certificate"), folder.file("key")).unwrap();
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let endpoint = HttpEndpoint::start(address, Arc::new(Hello), Some(Arc::new(identity))).unwrap();
        assert!(get(endpoint.address(), first.clone()).unwrap().contains("hello"));
        let second = renew(&folder);
        assert!(get(endpoint.address(), second).unwrap().contains("hello"));
        assert!(get(endpoint.address(), first).is_err());
    }

    #[test]
    fn a_missing_certificate_is_named() {
        let folder = CertificateFolder::new("missing");
        let error = ServerCertificate::read(folder.file("certificate"), folder.file("key")).unwrap_err();
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}
