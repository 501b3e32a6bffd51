//! Requests over HTTP/1.1, blocking, on the thread of a sink. Nothing is followed, nothing is unbounded, and the
//! environment's proxies are left alone.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ureq::RequestBuilder;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::WithBody;

use super::SinkError;
use super::tls::authorities;
use crate::open_error::{OpenError, TrustError};

/// Bytes of an answer that are read: enough to report why it is invalid.
const MAX_ANSWER: u64 = 64 << 10;
/// Characters of it that are repeated.
const SHOWN: usize = 200;

/// A server at one URL.
#[derive(Debug)]
pub(super) struct Server {
    agent: ureq::Agent,
    url: String,
    headers: Vec<(String, String)>,
    timeout: Duration,
}

/// Settings of the requests to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerSettings {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) timeout: Duration,
    /// Authorities that are trusted; without a file, the system's.
    pub(super) ca_file: Option<PathBuf>,
}

impl Server {
    pub(super) fn new(settings: ServerSettings) -> Result<Self, OpenError> {
        let ServerSettings { url, headers, timeout, ca_file } = settings;
        // The query may hold a token.
        let shown = url.split('?').next().unwrap_or_default();
        let uri: ureq::http::Uri =
            url.parse().map_err(|_| OpenError::setting("url", format!("`{shown}` is no URL")))?;
        let tls = match uri.scheme_str() {
            Some("http") => TlsConfig::default(),
            Some("https") => tls(ca_file.as_deref())?,
            _ => {
                let why = format!("`{shown}` is no URL: write http://HOST:PORT/PATH or https://HOST/PATH");
                return Err(OpenError::setting("url", why));
            }
        };
        for (name, value) in &headers {
            let fits = ureq::http::HeaderName::from_bytes(name.as_bytes()).is_ok()
                && ureq::http::HeaderValue::from_bytes(value.as_bytes()).is_ok();
            if !fits {
                return Err(OpenError::setting("headers", format!("the header `{name}` cannot be sent")));
            }
        }
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build()
            .into();
        Ok(Self { agent, url, headers, timeout })
    }

    /// Posts a body. Done at 2xx; errors that a retry does not mend are refusals, all others are tried again.
    pub(super) fn post(&self, content_type: &str, more: &[(&str, &str)], body: &[u8]) -> Result<(), SinkError> {
        let headers: Vec<(&str, &str)> = [("content-type", content_type)].iter().chain(more).copied().collect();
        let answer = self.send(self.agent.post(&self.url), &headers, body)?;
        if (200..300).contains(&answer.status) {
            return Ok(());
        }
        let said = answer.said();
        Err(match answer.status {
            // Bad Request, Content Too Large, Unsupported Media Type, Unprocessable: the body is to blame.
            400 | 413 | 415 | 422 => SinkError::Refused(said),
            // Conflict: with another request, which passes, or with the body.
            409 => SinkError::Limited(said),
            // The settings, rights or the server are.
            _ => SinkError::Away(said),
        })
    }

    /// Puts a body at a path of the server.
    pub(super) fn put(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<HttpAnswer, SinkError> {
        self.send(self.agent.put(format!("{}{path}", self.url)), headers, body)
    }

    fn send(
        &self,
        request: RequestBuilder<WithBody>,
        more: &[(&str, &str)],
        body: &[u8],
    ) -> Result<HttpAnswer, SinkError> {
        let mut request = request.config().timeout_global(Some(self.timeout)).build();
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        for (name, value) in more {
            request = request.header(*name, *value);
        }
        let response = request.send(body).map_err(away)?;
        let status = response.status().as_u16();
        // Read to its end, so that the connection can be used again.
        let mut answer = Vec::new();
        let _ = response.into_body().into_reader().take(MAX_ANSWER).read_to_end(&mut answer);
        let text: String = String::from_utf8_lossy(&answer).chars().take(SHOWN).collect();
        Ok(HttpAnswer { status, text: text.trim().to_owned() })
    }
}

/// The error of the operating system stands alone.
fn away(error: ureq::Error) -> SinkError {
    match error {
        ureq::Error::Io(error) => SinkError::away(error),
        other => SinkError::away(other),
    }
}

/// The answer of a server: its status, and the beginning of its text.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) text: String,
}

impl HttpAnswer {
    /// The answer as an error: many servers have no text beside the status.
    pub(super) fn said(&self) -> String {
        let Self { status, text } = self;
        if text.is_empty() {
            format!("the server answers {status}")
        } else {
            format!("the server answers {status}: {text}")
        }
    }
}

fn tls(ca_file: Option<&Path>) -> Result<TlsConfig, TrustError> {
    let authorities = authorities(ca_file)?;
    let authorities: Vec<Certificate<'static>> =
        authorities.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned()).collect();
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::new_with_certs(&authorities))
        .build())
}
