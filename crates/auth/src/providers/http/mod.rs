//! A server that is asked about each client, by a POST of JSON.

mod answer;
mod breaker;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use zeroize::Zeroizing;

use super::{ProviderError, Workshop};
use crate::clock::Clock;
use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::fetch::{Server, check_header};
use crate::mark::Mark;
use crate::permits::Permits;
use crate::provider::{Context, Provider};
use crate::request::Request;
use crate::settings::{HttpSettings, WhenUnreachable};

use answer::AnswerError;
use breaker::Breaker;

/// Room for the body of a usual question, so that it is written without leaving copies of itself behind.
const QUESTION_LEN: usize = 4096;

/// A server that decides. Its concurrent requests have a limit, and after repeated failures it is left
/// alone for a while.
#[derive(Debug)]
pub(super) struct Http {
    name: String,
    settings: HttpSettings,
    server: Server,
    permits: Permits,
    breaker: Breaker,
    clock: Arc<dyn Clock>,
}

impl Http {
    pub(super) fn make(name: &str, settings: &HttpSettings, workshop: &Workshop) -> Result<Self, ProviderError> {
        let concurrency = settings.concurrency.max(1);
        let server = Server::new(&settings.url, settings.ca_file.as_deref(), concurrency)?;
        for (header, value) in &settings.headers {
            check_header(header, value)?;
        }
        if settings.url.starts_with("http://") && !is_local(&settings.url) {
            tracing::warn!(
                provider = name,
                "passwords go to this server without TLS; use https:// unless the network is trusted"
            );
        }
        Ok(Self {
            name: name.to_owned(),
            settings: settings.clone(),
            server,
            permits: Permits::new(concurrency),
            breaker: Breaker::new(settings.breaker_failures, settings.breaker_pause),
            clock: Arc::clone(&workshop.clock),
        })
    }

    fn ask(&self, request: &Request, left: Duration) -> Decision {
        let Some(_permit) = self.permits.acquire(left) else {
            return self.unreachable("too many questions to the server are under way");
        };
        let Some(attempt) = self.breaker.enter(self.clock.monotonic_ms()) else {
            return self.unreachable("the server has failed again and again and is left alone for a while");
        };
        let timeout = self.settings.timeout.min(left);
        let read = match question(request).map(|body| self.server.post(&self.settings.headers, &body, timeout)) {
            Ok(Ok(reply)) => answer::read(&self.name, reply.status, &reply.body),
            Ok(Err(error)) => Err(AnswerError::Failed(error.to_string())),
            Err(error) => Err(AnswerError::Unclear(error.to_string())),
        };
        let now_ms = self.clock.monotonic_ms();
        match read {
            Ok(decision) => {
                attempt.succeeded();
                decision
            }
            Err(AnswerError::Unclear(why)) => {
                // The server is reachable, but its answer is invalid: the client is refused.
                attempt.succeeded();
                tracing::warn!(provider = self.name, why, "cannot parse the server's answer");
                Decision::Deny(Refusal::new(RefusalKind::Unavailable, &self.name, why))
            }
            Err(AnswerError::Failed(why)) => {
                if attempt.failed(now_ms) {
                    let pause_ms = self.settings.breaker_pause.as_millis();
                    tracing::warn!(provider = self.name, why, %pause_ms, "the server gets no requests for a while");
                }
                self.unreachable(&why)
            }
        }
    }

    fn unreachable(&self, why: &str) -> Decision {
        match self.settings.unreachable {
            WhenUnreachable::Deny => Decision::Deny(Refusal::new(RefusalKind::Unavailable, &self.name, why)),
            WhenUnreachable::Ignore => Decision::Ignore,
        }
    }
}

impl Provider for Http {
    fn decide(&self, request: &Request, context: Context) -> Decision {
        self.ask(request, context.left)
    }

    fn mark(&self, _: &Identity) -> Option<Mark> {
        Some(Mark::of_settings(&self.settings.url))
    }

    fn cache_ttl(&self) -> Option<Duration> {
        Some(self.settings.cache_ttl)
    }

    fn looks_at_peer(&self) -> bool {
        true
    }
}

/// The request to the server. Unknown fields are left out; a password that is not UTF-8 is sent as `password_base64`.
fn question(request: &Request) -> Result<Zeroizing<Vec<u8>>, serde_json::Error> {
    let certificate = request.certificate.as_ref();
    let texts = [
        ("clientid", Some(&request.client_id)),
        ("username", request.user_name.as_ref()),
        ("listener", Some(&request.listener)),
        ("tls_server_name", request.sni.as_ref()),
        ("cert_common_name", certificate.and_then(|certificate| certificate.common_name.as_ref())),
        ("cert_dns", certificate.and_then(|certificate| certificate.dns.first())),
        ("cert_email", certificate.and_then(|certificate| certificate.emails.first())),
        ("cert_uri", certificate.and_then(|certificate| certificate.uris.first())),
        ("cert_fingerprint", certificate.map(|certificate| &certificate.fingerprint)),
    ];
    let known = texts.into_iter().filter_map(|(name, value)| Some((name, Cow::Borrowed(value?.as_str()))));
    let mut fields: BTreeMap<&str, Cow<'_, str>> = known.collect();
    if let Some(peer) = request.peer {
        fields.insert("peerhost", Cow::Owned(peer.ip().to_string()));
        fields.insert("peerport", Cow::Owned(peer.port().to_string()));
    }
    let encoded = request.password.as_ref().map(|password| match std::str::from_utf8(password.expose()) {
        Ok(text) => ("password", Zeroizing::new(text.to_owned())),
        Err(_) => ("password_base64", Zeroizing::new(BASE64.encode(password.expose()))),
    });
    if let Some((name, text)) = &encoded {
        fields.insert(name, Cow::Borrowed(text.as_str()));
    }
    // A password of the longest length that is all escapes is the worst case.
    let password_len = encoded.as_ref().map_or(0, |(_, text)| text.len() * 6);
    let mut body = Zeroizing::new(Vec::with_capacity(QUESTION_LEN + password_len));
    serde_json::to_writer(&mut *body, &fields)?;
    Ok(body)
}

/// Whether a URL leads to this machine.
fn is_local(url: &str) -> bool {
    let uri: Option<ureq::http::Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(|uri| uri.host()).unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
