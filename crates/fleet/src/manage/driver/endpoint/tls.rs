//! TLS of an endpoint.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::TimedStream;

/// When a certificate and its key were modified.
type FileTimes = [Option<SystemTime>; 2];

/// The certificate of an endpoint. A changed file is read at the next connection, so that a renewal needs no restart.
#[derive(Debug)]
pub(in super::super) struct ServerCertificate {
    certificate: PathBuf,
    key: PathBuf,
    read: Mutex<(FileTimes, Arc<ServerConfig>)>,
}

impl ServerCertificate {
    /// Reads a certificate with its chain, and its key, both PEM.
    pub(in super::super) fn read(certificate: PathBuf, key: PathBuf) -> io::Result<Self> {
        let config = config(&certificate, &key)?;
        let read = Mutex::new((modified([&certificate, &key]), config));
        Ok(Self { certificate, key, read })
    }

    /// The newest configuration that can be read.
    fn config(&self) -> Arc<ServerConfig> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let now = modified([&self.certificate, &self.key]);
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

    /// Completes the handshake.
    pub(super) fn accept(&self, mut socket: TimedStream) -> io::Result<StreamOwned<ServerConnection, TimedStream>> {
        let mut connection = ServerConnection::new(self.config()).map_err(io::Error::other)?;
        while connection.is_handshaking() {
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

fn modified(files: [&PathBuf; 2]) -> FileTimes {
    files.map(|file| std::fs::metadata(file).and_then(|about| about.modified()).ok())
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
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};

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

    /// Writes a file with this modification time.
    fn write_at(file: PathBuf, text: &str, seconds: u64) {
        fs::write(&file, text).unwrap();
        let file = fs::File::options().append(true).open(file).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
    }

    /// Writes a new certificate before its key, with `between` after the first, and returns it.
    fn renew(folder: &CertificateFolder, seconds: u64, between: impl FnOnce()) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(["manager".to_owned()]).unwrap();
        write_at(folder.file("certificate"), &made.cert.pem(), seconds);
        between();
        write_at(folder.file("key"), &made.signing_key.serialize_pem(), seconds);
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
        let first = renew(&folder, 1, || ());
        let identity = ServerCertificate::read(folder.file("certificate"), folder.file("key")).unwrap();
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let endpoint = HttpEndpoint::start(address, Arc::new(Hello), Some(Arc::new(identity))).unwrap();
        assert!(get(endpoint.address(), first.clone()).unwrap().contains("hello"));
        // A request between the two files gets the old certificate.
        let second = renew(&folder, 2, || assert!(get(endpoint.address(), first.clone()).is_ok()));
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
