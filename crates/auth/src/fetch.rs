//! A blocking HTTP client for other servers, on the threads of the chain. It follows no redirects, bounds every read,
//! and ignores the proxy settings of the environment.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use zeroize::Zeroizing;

use crate::request::Secret;

/// Largest body of an answer, in bytes.
pub(crate) const MAX_BODY_LEN: u64 = 1024 * 1024;

/// Largest head of an answer, in bytes.
const MAX_HEAD_LEN: usize = 16 * 1024;

/// How long a connection is kept without a request.
const IDLE: Duration = Duration::from_secs(30);

/// Authorities in a file at most.
const MAX_AUTHORITIES: usize = 1024;

/// Why a server cannot be asked, or has not answered.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The URL is invalid.
    #[error("`{0}` is no URL of a server; write http://HOST:PORT/PATH or https://HOST/PATH")]
    Url(String),
    /// The URL holds a password, which would be shown in logs.
    #[error("a URL must not hold a user name or password; give them in a header")]
    UserInfo,
    /// A header cannot be sent.
    #[error("the header `{0}` cannot be sent; a header is NAME: VALUE, printable, on one line")]
    Header(String),
    /// The authorities cannot be read.
    #[error("cannot read certificates from {}: {problem}", file.display())]
    Authorities {
        /// The file.
        file: PathBuf,
        /// Why.
        problem: String,
    },
    /// The system has no certificate authorities.
    #[error(
        "the system has no certificate authorities to trust; install them (ca-certificates), or name a file with ca_file"
    )]
    NoAuthorities,
    /// The server has not answered as it should.
    #[error("{0}")]
    Server(String),
    /// The server has answered more than is read.
    #[error("the answer is larger than 1 MiB")]
    TooLarge,
}

/// A server at one URL.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    agent: ureq::Agent,
    url: String,
}

/// The answer of a server.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Zeroizing<Vec<u8>>,
}

impl Server {
    /// Checks the URL and prepares TLS. It sends nothing yet.
    pub(crate) fn new(url: &str, ca_file: Option<&Path>, connections: usize) -> Result<Self, FetchError> {
        let secure = check(url)?;
        let tls = if secure { tls(ca_file)? } else { TlsConfig::default() };
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_response_header_size(MAX_HEAD_LEN)
            .max_idle_connections(connections)
            .max_idle_connections_per_host(connections)
            .max_idle_age(IDLE)
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build()
            .into();
        Ok(Self { agent, url: url.to_owned() })
    }

    /// Sends a GET request.
    pub(crate) fn get(&self, timeout: Duration) -> Result<Reply, FetchError> {
        let request = self.agent.get(&self.url).config().timeout_global(Some(timeout)).build();
        reply(request.call())
    }

    /// Posts JSON. When a connection that had been kept turns out to be closed, it is tried once more on a new one.
    pub(crate) fn post(
        &self,
        headers: &[(String, Secret)],
        body: &[u8],
        timeout: Duration,
    ) -> Result<Reply, FetchError> {
        let mut tries = 2;
        loop {
            tries -= 1;
            let mut request = self.agent.post(&self.url).config().timeout_global(Some(timeout)).build();
            for (name, value) in headers {
                request = request.header(name, value.expose());
            }
            match request.header("content-type", "application/json").send(body) {
                Err(ureq::Error::Io(error)) if tries > 0 && was_closed(&error) => {}
                outcome => return reply(outcome),
            }
        }
    }
}

/// Whether a header can be sent.
pub(crate) fn check_header(name: &str, value: &Secret) -> Result<(), FetchError> {
    let fits = ureq::http::HeaderName::from_bytes(name.as_bytes()).is_ok()
        && ureq::http::HeaderValue::from_bytes(value.expose()).is_ok();
    if fits { Ok(()) } else { Err(FetchError::Header(name.to_owned())) }
}

/// Whether it is a URL that can be asked; true when with TLS.
fn check(url: &str) -> Result<bool, FetchError> {
    // The query may contain a token.
    let wrong = || FetchError::Url(url.split('?').next().unwrap_or_default().to_owned());
    if url.split_once("://").is_some_and(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or("").contains('@')) {
        return Err(FetchError::UserInfo);
    }
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    if uri.host().is_none_or(str::is_empty) {
        return Err(wrong());
    }
    match uri.scheme_str() {
        Some("http") => Ok(false),
        Some("https") => Ok(true),
        _ => Err(wrong()),
    }
}

fn tls(ca_file: Option<&Path>) -> Result<TlsConfig, FetchError> {
    let authorities = match ca_file {
        Some(file) => from_file(file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    if authorities.is_empty() {
        return Err(FetchError::NoAuthorities);
    }
    let authorities: Vec<Certificate<'static>> =
        authorities.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect();
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&authorities))
        .build())
}

fn from_file(file: &Path) -> Result<Vec<CertificateDer<'static>>, FetchError> {
    let failed = |problem: String| FetchError::Authorities { file: file.to_owned(), problem };
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))?;
    let certificates: Vec<_> =
        certificates.take(MAX_AUTHORITIES).collect::<Result<_, _>>().map_err(|error| failed(error.to_string()))?;
    if certificates.is_empty() { Err(failed("there is no certificate in it".to_owned())) } else { Ok(certificates) }
}

fn was_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// The text of an error; that of the operating system stands alone.
fn cause(error: ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

fn reply(outcome: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Reply, FetchError> {
    let response = outcome.map_err(|error| FetchError::Server(cause(error)))?;
    let status = response.status().as_u16();
    let mut body = Zeroizing::new(Vec::new());
    let read = response.into_body().into_reader().take(MAX_BODY_LEN + 1).read_to_end(&mut body);
    read.map_err(|error| FetchError::Server(error.to_string()))?;
    if body.len() as u64 > MAX_BODY_LEN {
        return Err(FetchError::TooLarge);
    }
    Ok(Reply { status, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_url_is_refused() {
        for wrong in ["", "x", "/path", "ftp://host/", "http://", "mqtt://host", "http:///x", "https://ho st/"] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(check("http://127.0.0.1:8080/auth?x=1"), Ok(false)));
        assert!(matches!(check("https://host/.well-known/jwks.json"), Ok(true)));
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        let error = check("https://user:hunter2@host/").err().map(|error| error.to_string());
        assert!(error.is_some_and(|text| !text.contains("hunter2")));
    }

    #[test]
    fn a_header_of_two_lines_is_refused() {
        assert!(check_header("authorization", &Secret::from("Bearer x")).is_ok());
        assert!(check_header("authorization", &Secret::from("x\r\nhost: y")).is_err());
        assert!(check_header("a b", &Secret::from("x")).is_err());
    }
}
