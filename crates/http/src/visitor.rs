//! The client behind an HTTP connection: its credentials, and its session at the broker.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use hyper::{HeaderMap, Request};
use tidegate_connections::ConnectionPermit;
use tidegate_visitor::Fetches;
use tokio::sync::{Mutex, Semaphore, watch};

use crate::answer::{Answer, bad, not_let_in};
use crate::answer_room::AnswerRoom;
use crate::body_room::BodyRoom;
use crate::counters::Counters;
use crate::fields::parameters;
use crate::queue::Queues;
use crate::session::{Opening, Session, Term};
use crate::{Caller, Gateway, TlsSession};
use tidegate_visitor::{Credentials, Failure};

/// Bodies that are held at once for a connection, each until its messages are answered.
pub(crate) const MAX_BODIES: usize = 4;

/// One HTTP connection.
pub(crate) struct Visitor {
    pub(crate) gateway: Arc<dyn Gateway>,
    pub(crate) listener: u16,
    pub(crate) peer: SocketAddr,
    pub(crate) tls: Option<TlsSession>,
    /// Longest body, bytes.
    pub(crate) max_body: usize,
    /// Origins of pages that may use the listener.
    pub(crate) origins: Arc<[String]>,
    /// Whether only programs of this machine reach the socket that accepted the connection.
    pub(crate) is_loopback: bool,
    pub(crate) stop: watch::Receiver<bool>,
    /// The session of the last request, and its credentials.
    pub(crate) session: Mutex<Option<(Credentials, Session)>>,
    /// The queues of all connections.
    pub(crate) queues: Arc<Queues>,
    pub(crate) counters: Arc<Counters>,
    /// Bounds the bodies that are held at once.
    pub(crate) bodies: Semaphore,
    /// Bounds the questions to other nodes of all connections.
    pub(crate) fetches: Fetches,
    /// Bounds the histories that are read at once on all connections.
    pub(crate) readings: Arc<Semaphore>,
    /// Bounds the sessions of the listener.
    pub(crate) sessions: Arc<Semaphore>,
    /// Bounds the bodies that are held at once by all connections of the listener, KiB.
    pub(crate) body_room: Arc<BodyRoom>,
    /// Bounds the answers that wait for the client to read them.
    pub(crate) answer_room: AnswerRoom,
    /// The place of the connection at the listener.
    pub(crate) permit: ConnectionPermit,
}

impl Visitor {
    /// The session of these credentials stays with the connection; the credentials and its client id.
    pub(crate) async fn identified(&self, headers: &HeaderMap) -> Result<(Credentials, String), Box<Answer>> {
        let mut place = self.session.lock().await;
        let (credentials, session) = self.enter(&mut place, headers).await?;
        let found = (credentials.clone(), session.client_id().to_owned());
        put_back(&mut place, credentials, session);
        Ok(found)
    }

    /// The session of these credentials leaves the connection.
    pub(crate) async fn taken(&self, headers: &HeaderMap) -> Result<Session, Box<Answer>> {
        let mut place = self.session.lock().await;
        self.enter(&mut place, headers).await.map(|(_, session)| session)
    }

    /// The session for these credentials: the last request's, or a new one.
    pub(crate) async fn enter(
        &self,
        place: &mut Option<(Credentials, Session)>,
        headers: &HeaderMap,
    ) -> Result<(Credentials, Session), Box<Answer>> {
        let credentials = self.credentials(headers)?;
        if let Some((known, mut session)) = place.take()
            && known == credentials
            && session.is_alive()
        {
            return match session.resume() {
                Ok(()) => Ok((known, session)),
                Err(failure) => {
                    *place = Some((known, session));
                    Err(Box::new(not_let_in(failure)))
                }
            };
        }
        let session = self.open(&credentials, Term::Connection).await;
        session.map(|session| (credentials, session)).map_err(|failure| Box::new(not_let_in(failure)))
    }

    /// Opens a session for these credentials.
    pub(crate) async fn open(&self, credentials: &Credentials, term: Term) -> Result<Session, Failure> {
        Session::open(self.opening(credentials, term)).await
    }

    /// The parameters of a session for these credentials.
    pub(crate) fn opening(&self, credentials: &Credentials, term: Term) -> Opening {
        Opening {
            gateway: Arc::clone(&self.gateway),
            caller: self.caller(credentials),
            credentials: credentials.clone(),
            term,
            sessions: Arc::clone(&self.sessions),
            request: self.permit.busy(),
        }
    }

    /// The credentials of a request. An API key names its user.
    pub(crate) fn credentials(&self, headers: &HeaderMap) -> Result<Credentials, Box<Answer>> {
        let mut found = credentials(headers)?;
        if let (None, Some(token)) = (&found.user_name, &found.password) {
            found.user_name = self.gateway.user_of_key(token);
        }
        Ok(found)
    }

    pub(crate) fn caller(&self, credentials: &Credentials) -> Caller {
        let user_name = credentials.user_name.clone();
        Caller { listener: self.listener, peer: self.peer, tls: self.tls.clone(), user_name }
    }
}

/// The session rests with the connection until its next request.
pub(crate) fn put_back(place: &mut Option<(Credentials, Session)>, credentials: Credentials, mut session: Session) {
    session.rest();
    *place = Some((credentials, session));
}

/// The parameters of a request.
pub(crate) fn query(request: &Request<Incoming>) -> Result<Vec<(String, String)>, Box<Answer>> {
    parameters(request.uri().query().unwrap_or_default()).map_or_else(|| bad("the query has wrong escapes"), Ok)
}

/// The credentials of a request: a name and a password (`Basic`), or a token (`Bearer`), which is a password
/// without a name.
fn credentials(headers: &HeaderMap) -> Result<Credentials, Box<Answer>> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        let password = socket_token(headers).map(|token| token.as_bytes().to_vec());
        return Ok(Credentials { user_name: None, password });
    };
    let text = value.to_str().unwrap_or_default();
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Credentials { user_name: None, password: Some(rest.trim().as_bytes().to_vec()) });
    }
    let decoded = STANDARD.decode(rest.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"));
    let Some(decoded) = decoded else { return bad("`Authorization` is neither Basic nor Bearer") };
    let at = decoded.iter().position(|byte| *byte == b':');
    let (name, password) = decoded.split_at(at.unwrap_or(decoded.len()));
    let Ok(name) = std::str::from_utf8(name) else { return bad("the user name is no UTF-8") };
    Ok(Credentials { user_name: Some(name.to_owned()), password: password.get(1..).map(<[u8]>::to_vec) })
}

/// The token that a page shows for a WebSocket: browsers let it name subprotocols, and no other header.
fn socket_token(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).find_map(|one| one.trim().strip_prefix("bearer."))
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn credentials_are_a_name_and_a_password_or_a_token() {
        let of = |value: &str| credentials(&with(AUTHORIZATION, value)).ok();
        let ann = |password: Option<&str>| {
            Some(Credentials { user_name: Some("ann".into()), password: password.map(|it| it.as_bytes().to_vec()) })
        };
        assert_eq!(of("Basic YW5uOmE6Yg=="), ann(Some("a:b")));
        assert_eq!(of("basic YW5u"), ann(None));
        let token = Credentials { user_name: None, password: Some(b"ey.x".to_vec()) };
        assert_eq!(of("Bearer ey.x"), Some(token));
        assert_eq!(of("Digest x"), None);
        assert_eq!(of("Basic !"), None);
        assert_eq!(credentials(&HeaderMap::new()).ok(), Some(Credentials::default()));
    }
}
