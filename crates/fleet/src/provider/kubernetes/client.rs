//! Requests to an API server.
//!
//! A small client of our own. The crate `kube` would add about 90 crates, a second async stack beside the manager's one
//! thread, and second versions of `base64` and `syn`; this provider reads four kinds of objects and writes one.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_units::percent::escape;
use ureq::http::{Method, Request, Response};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use super::access::{Access, Identity};
use super::error::KubernetesError;
use super::objects::{List, Status};

/// Time for an answer.
#[cfg(not(test))]
const TIMEOUT: Duration = Duration::from_secs(5);
#[cfg(test)]
const TIMEOUT: Duration = Duration::from_millis(1500);
/// Longest answer, bytes: a page of 500 pods with everything that a cluster notes about them.
const MAX_ANSWER: u64 = 32 * 1024 * 1024;
/// Objects of a list per page.
const PAGE: usize = 500;
/// Pages of a list.
const MAX_PAGES: usize = 40;
/// Tries of a list whose pages expire while they are read.
const MAX_LISTS: usize = 3;
/// Longest time for which a busy API server is left alone.
const MAX_REST: Duration = Duration::from_secs(60);
/// Longest text of the API server that is passed on, characters.
const MAX_TEXT: usize = 300;

/// An object, or a list of them.
#[derive(Clone, Debug)]
pub(super) struct Target<'a> {
    /// `api/v1`, or `apis/GROUP/VERSION`.
    pub(super) group: &'static str,
    pub(super) namespace: &'a str,
    pub(super) resource: &'static str,
    pub(super) name: Option<&'a str>,
    pub(super) subresource: Option<&'static str>,
}

impl Target<'_> {
    fn path(&self) -> String {
        let mut path = format!("/{}/namespaces/{}/{}", self.group, self.namespace, self.resource);
        for part in [self.name, self.subresource].into_iter().flatten() {
            path.push('/');
            path.push_str(part);
        }
        path
    }

    /// The resource as a Role names it.
    fn kind(&self) -> String {
        self.subresource.map_or_else(|| self.resource.to_owned(), |sub| format!("{}/{sub}", self.resource))
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind())?;
        if let Some(name) = self.name {
            write!(f, " {name}")?;
        }
        write!(f, " in namespace {}", self.namespace)
    }
}

/// An answer that is no success.
enum Refusal {
    /// 409: another client was faster.
    Conflict,
    /// 410: the list has to be read again.
    Expired,
    Other(KubernetesError),
}

/// A client of one API server.
#[derive(Debug)]
pub(super) struct Client {
    agent: ureq::Agent,
    server: String,
    identity: Identity,
    /// No request is sent before.
    resting_until: Option<Instant>,
}

/// The result of a change.
#[derive(Debug, PartialEq)]
pub(super) enum Put<T> {
    /// It is made.
    Done(T),
    /// The object has changed since it was read.
    Conflict,
}

impl Client {
    pub(super) fn new(access: Access) -> Result<Self, KubernetesError> {
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .max_response_header_size(64 * 1024)
            .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls(&access)?)
            .build()
            .into();
        Ok(Self { agent, server: access.server, identity: access.identity, resting_until: None })
    }

    pub(super) fn get<T: DeserializeOwned>(&mut self, target: &Target<'_>) -> Result<T, KubernetesError> {
        self.ask(&Method::GET, "get", target, "", None).map_err(|refusal| refusal.error(target))
    }

    /// Puts an object in place of the one with the same resource version.
    pub(super) fn put<T: DeserializeOwned>(
        &mut self,
        target: &Target<'_>,
        object: &Value,
    ) -> Result<Put<T>, KubernetesError> {
        match self.ask(&Method::PUT, "update", target, "", Some(object)) {
            Ok(object) => Ok(Put::Done(object)),
            Err(Refusal::Conflict) => Ok(Put::Conflict),
            Err(refusal) => Err(refusal.error(target)),
        }
    }

    /// All objects with some labels, page by page.
    pub(super) fn list<T: DeserializeOwned>(
        &mut self,
        target: &Target<'_>,
        labels: &str,
    ) -> Result<Vec<T>, KubernetesError> {
        for _ in 0..MAX_LISTS {
            match self.pages(target, labels) {
                Err(Refusal::Expired) => {}
                read => return read.map_err(|refusal| refusal.error(target)),
            }
        }
        Err(Refusal::Expired.error(target))
    }

    fn pages<T: DeserializeOwned>(&mut self, target: &Target<'_>, labels: &str) -> Result<Vec<T>, Refusal> {
        let query = format!("?limit={PAGE}&labelSelector={}", escape(labels));
        let mut all = Vec::new();
        let mut next = String::new();
        for _ in 0..MAX_PAGES {
            let more = if next.is_empty() { String::new() } else { format!("&continue={}", escape(&next)) };
            let page: List<T> = self.ask(&Method::GET, "list", target, &format!("{query}{more}"), None)?;
            all.extend(page.items.unwrap_or_default());
            next = page.metadata.next;
            if next.is_empty() {
                return Ok(all);
            }
        }
        let problem = format!("it has more than {MAX_PAGES} pages");
        Err(Refusal::Other(KubernetesError::Strange { object: target.to_string(), problem }))
    }

    fn ask<T: DeserializeOwned>(
        &mut self,
        method: &Method,
        verb: &str,
        target: &Target<'_>,
        query: &str,
        body: Option<&Value>,
    ) -> Result<T, Refusal> {
        self.check_rest()?;
        let mut response = self.send(method, &format!("{}{query}", target.path()), body).map_err(Refusal::Other)?;
        let status = response.status().as_u16();
        let wait = rest(&response);
        let read = response.body_mut().with_config().limit(MAX_ANSWER).read_to_string();
        let text = read.map_err(|error| Refusal::Other(self.unreachable(error)))?;
        if (200..300).contains(&status) {
            return serde_json::from_str(&text).map_err(|error| {
                Refusal::Other(KubernetesError::Strange { object: target.to_string(), problem: error.to_string() })
            });
        }
        Err(self.refusal(status, wait, verb, target, &text))
    }

    /// A kept connection may turn out to be closed: then it is tried once more on a new one. That is safe for a change,
    /// too, because it names the version that it changes.
    fn send(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Response<ureq::Body>, KubernetesError> {
        let bearer = self.identity.bearer()?;
        let mut tries = 2;
        loop {
            tries -= 1;
            let request = Request::builder().method(method.clone()).uri(format!("{}{path}", self.server));
            let request = request.header("accept", "application/json").header("content-type", "application/json");
            let request = match &bearer {
                Some(bearer) => request.header("authorization", bearer),
                None => request,
            };
            let request = request.body(body.map(Value::to_string).unwrap_or_default()).map_err(|_| {
                // The token may be the fault: it is not shown.
                KubernetesError::Unauthorized("the token cannot stand in a header".to_owned())
            })?;
            match self.agent.run(request) {
                Err(ureq::Error::Io(error)) if tries > 0 && was_closed(&error) => {}
                outcome => return outcome.map_err(|error| self.unreachable(error)),
            }
        }
    }

    fn unreachable(&self, error: ureq::Error) -> KubernetesError {
        // The error of the operating system stands alone.
        let problem = match error {
            ureq::Error::Io(error) => error.to_string(),
            other => other.to_string(),
        };
        KubernetesError::Unreachable { server: self.server.clone(), problem }
    }

    fn check_rest(&mut self) -> Result<(), Refusal> {
        let left = self.resting_until.map(|until| until.saturating_duration_since(Instant::now()));
        if let Some(wait) = left.filter(|left| !left.is_zero()) {
            return Err(Refusal::Other(KubernetesError::Busy { status: 429, wait }));
        }
        self.resting_until = None;
        Ok(())
    }

    fn refusal(&mut self, status: u16, wait: Option<Duration>, verb: &str, target: &Target<'_>, text: &str) -> Refusal {
        let said = said(text);
        let object = target.to_string();
        let error = match (status, wait) {
            (409, _) => return Refusal::Conflict,
            (410, _) => return Refusal::Expired,
            (401, _) => KubernetesError::Unauthorized(said),
            (403, _) => {
                let right = format!("{verb} {} in namespace {}", target.kind(), target.namespace);
                KubernetesError::Forbidden { right, said }
            }
            (404, _) => KubernetesError::NotFound { object, said },
            (429, wait) | (500.., wait @ Some(_)) => {
                let wait = wait.unwrap_or(Duration::from_secs(1)).min(MAX_REST);
                self.resting_until = Instant::now().checked_add(wait);
                KubernetesError::Busy { status, wait }
            }
            _ => KubernetesError::Refused { status, object, said },
        };
        Refusal::Other(error)
    }
}

impl Refusal {
    fn error(self, target: &Target<'_>) -> KubernetesError {
        let object = target.to_string();
        match self {
            Self::Conflict => KubernetesError::Conflict { object, tries: 1 },
            Self::Expired => KubernetesError::Refused {
                status: 410,
                object,
                said: "the list changes faster than it is read".to_owned(),
            },
            Self::Other(error) => error,
        }
    }
}

/// How long a server asks to be left alone.
fn rest(response: &Response<ureq::Body>) -> Option<Duration> {
    let value = response.headers().get("retry-after")?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

/// The server's text of a refusal: the message of a Status, or the beginning of any other body.
fn said(text: &str) -> String {
    let status: Result<Status, _> = serde_json::from_str(text);
    let message = status.ok().map(|status| status.message).filter(|message| !message.is_empty());
    let message = message.unwrap_or_else(|| text.to_owned());
    let plain =
        message.chars().map(|character| if tidegate_units::visible::is_hidden(character) { ' ' } else { character });
    plain.take(MAX_TEXT).collect()
}

fn was_closed(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}

fn tls(access: &Access) -> Result<TlsConfig, KubernetesError> {
    let provider = Arc::new(ring::default_provider());
    check_tls(access, &provider)?;
    let owned = |der: &[u8]| Certificate::from_der(der).to_owned();
    let authorities: Vec<Certificate<'static>> = access.authorities.iter().map(|der| owned(der.as_ref())).collect();
    let client = match &access.identity {
        Identity::Certificate(chain, key) => {
            let chain: Vec<Certificate<'static>> = chain.iter().map(|der| owned(der.as_ref())).collect();
            let key = PrivateKey::from_pem(key.0.as_slice()).map_err(|error| client_key(&error))?;
            Some(ClientCert::new_with_certs(&chain, key))
        }
        _ => None,
    };
    Ok(TlsConfig::builder()
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::new_with_certs(&authorities))
        .client_cert(client)
        .build())
}

/// Finds a key that does not belong to its certificate, for which `ureq` would panic at the first request.
fn check_tls(access: &Access, provider: &Arc<rustls::crypto::CryptoProvider>) -> Result<(), KubernetesError> {
    let failed = |object, error: rustls::Error| KubernetesError::Tls { object, problem: error.to_string() };
    let mut roots = RootCertStore::empty();
    for authority in &access.authorities {
        roots.add(authority.clone()).map_err(|error| failed("the certificate authority", error))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| failed("TLS", error))?.with_root_certificates(roots);
    match &access.identity {
        Identity::Certificate(chain, key) => {
            let key = PrivateKeyDer::from_pem_slice(&key.0).map_err(|error| client_key(&error))?;
            let checked = builder.with_client_auth_cert(chain.clone(), key).map(drop);
            checked.map_err(|error| failed("the client's certificate", error))
        }
        _ => Ok(()),
    }
}

fn client_key(error: &dyn fmt::Display) -> KubernetesError {
    KubernetesError::Tls { object: "the client's key", problem: error.to_string() }
}
