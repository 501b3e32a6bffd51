//! Answers: statuses of reasons, errors as JSON, and pages of other origins.

use std::fmt::Display;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::Frame;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ALLOW, CACHE_CONTROL,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, ORIGIN, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};
use tidegate_client::{QoS, ReasonCode};

use crate::events::Waiting;
use crate::pieces::Pieces;
use crate::{HistoryError, ReadError};
use tidegate_visitor::{Failure, Outcome};

/// Headers that a page of another origin may read: all, since user properties are headers of any name. No answer allows
/// credentials of the browser, so the star holds.
const EXPOSED: &str = "*";
/// Seconds for which a browser remembers the allowed requests.
const PREFLIGHT_AGE: &str = "600";

/// The header in which a browser says how the page that asks is related to the listener's origin.
const FETCH_SITE: &str = "sec-fetch-site";

/// The body of an answer.
pub(crate) enum Body {
    /// Known as a whole.
    Whole(Option<Bytes>),
    /// The same, in pieces whose reading is watched.
    Watched(Pieces),
    /// Events, as they come.
    Events(Waiting),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Watched(pieces) => Poll::Ready(pieces.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Events(events) => events.poll_next(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Watched(pieces) => pieces.len() == 0,
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(bytes) => {
                hyper::body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Watched(pieces) => hyper::body::SizeHint::with_exact(pieces.len() as u64),
            Self::Events(_) => hyper::body::SizeHint::default(),
        }
    }
}

pub(crate) type Answer = Response<Body>;

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::Whole(None));
    *answer.status_mut() = status;
    answer
}

/// Bytes of the body of an answer that is known as a whole.
pub(crate) fn length(answer: &Answer) -> u64 {
    match answer.body() {
        Body::Whole(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
        Body::Watched(pieces) => pieces.len() as u64,
        Body::Events(_) => 0,
    }
}

pub(crate) fn json(status: StatusCode, value: &Value) -> Answer {
    json_text(status, value.to_string())
}

/// An answer with a text that is JSON.
pub(crate) fn json_text(status: StatusCode, mut text: String) -> Answer {
    text.push('\n');
    let mut answer = Response::new(Body::Whole(Some(text.into())));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// An answer to a wrong request.
pub(crate) fn wrong(status: StatusCode, why: impl AsRef<str>) -> Answer {
    json(status, &json!({ "reason": why.as_ref() }))
}

/// An answer to a request that is wrong in itself.
pub(crate) fn bad_request(why: &str) -> Answer {
    wrong(StatusCode::BAD_REQUEST, why)
}

/// The same as an error.
pub(crate) fn bad<T>(why: impl Display) -> Result<T, Box<Answer>> {
    Err(Box::new(bad_request(&why.to_string())))
}

/// The answer to a method that the path does not have.
pub(crate) fn not_allowed(methods: &'static str) -> Answer {
    let mut answer = empty(StatusCode::METHOD_NOT_ALLOWED);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

/// Seconds until a client may repeat a read of a message that another node has.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// The answer to a client that does not get a retained message.
pub(crate) fn not_read(why: &ReadError) -> Box<Answer> {
    let status = match why {
        ReadError::NotAuthorized => StatusCode::FORBIDDEN,
        ReadError::InvalidTopic => StatusCode::BAD_REQUEST,
        ReadError::Silent(_) | ReadError::TooLong(_) | ReadError::SessionElsewhere => StatusCode::MISDIRECTED_REQUEST,
        ReadError::Moving | ReadError::Busy | ReadError::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut answer = wrong(status, why.to_string());
    if matches!(why, ReadError::Moving | ReadError::Busy) {
        answer.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS);
    }
    Box::new(answer)
}

/// The answer to a client that does not get a history.
pub(crate) fn no_history(why: &HistoryError) -> Box<Answer> {
    match why {
        HistoryError::Missing => Box::new(wrong(StatusCode::NOT_FOUND, why.to_string())),
        HistoryError::Read(why) => not_read(why),
    }
}

/// The status that says the same as a reason of MQTT.
pub(crate) fn status_of(code: ReasonCode) -> StatusCode {
    match code {
        code if !code.is_error() => StatusCode::OK,
        ReasonCode::BadUserNameOrPassword | ReasonCode::BadAuthenticationMethod => StatusCode::UNAUTHORIZED,
        ReasonCode::NotAuthorized | ReasonCode::Banned => StatusCode::FORBIDDEN,
        ReasonCode::QuotaExceeded | ReasonCode::ConnectionRateExceeded | ReasonCode::MessageRateTooHigh => {
            StatusCode::TOO_MANY_REQUESTS
        }
        ReasonCode::UseAnotherServer | ReasonCode::ServerMoved => StatusCode::MISDIRECTED_REQUEST,
        ReasonCode::PacketTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ReasonCode::TopicNameInvalid
        | ReasonCode::TopicFilterInvalid
        | ReasonCode::PayloadFormatInvalid
        | ReasonCode::QosNotSupported
        | ReasonCode::RetainNotSupported
        | ReasonCode::WildcardSubscriptionsNotSupported
        | ReasonCode::SharedSubscriptionsNotSupported => StatusCode::BAD_REQUEST,
        ReasonCode::UnspecifiedError | ReasonCode::ImplementationSpecificError => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The outcome of one message as JSON, with its status.
pub(crate) fn outcome(outcome: &Result<Outcome, Failure>) -> (StatusCode, Value) {
    match outcome {
        Ok(Outcome { code, why }) | Err(Failure::Refused(Outcome { code, why })) => {
            let reason = why.as_deref().unwrap_or(code.text());
            (status_of(*code), json!({ "reason_code": *code as u8, "reason": reason }))
        }
        Err(Failure::Ended(Outcome { code, why })) => {
            let reason = why.as_deref().unwrap_or(code.text());
            // Not the rules end a connection, but credentials that are no longer valid.
            let status = if *code == ReasonCode::NotAuthorized { StatusCode::UNAUTHORIZED } else { status_of(*code) };
            (status, json!({ "reason_code": *code as u8, "reason": reason }))
        }
        Err(Failure::Closed) => {
            let why = "the broker has closed the connection; it is not known whether the message arrived";
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "reason": why }))
        }
        Err(Failure::TooMany) => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "reason": "the listener has too many sessions" }))
        }
        Err(Failure::Invalid(why)) => (StatusCode::BAD_REQUEST, json!({ "reason": why })),
    }
}

/// The outcome of a published message as JSON, with its status. QoS 0 promises nothing, and so gets no 200.
pub(crate) fn published(qos: QoS, of: &Result<Outcome, Failure>) -> (StatusCode, Value) {
    match outcome(of) {
        (StatusCode::OK, value) if qos == QoS::AtMostOnce => (StatusCode::ACCEPTED, value),
        other => other,
    }
}

/// Why a session has ended, with the status that says the same.
pub(crate) fn ended(failure: Failure) -> (StatusCode, Value) {
    match failure {
        // There is no message that may have arrived.
        Failure::Closed => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "reason": "the broker has closed the connection" }))
        }
        other => outcome(&Err(other)),
    }
}

/// The answer to a client that the broker does not let in.
pub(crate) fn not_let_in(failure: Failure) -> Answer {
    if failure == Failure::Closed {
        // At accept: by a ban, a limit of connections, or since the broker stops.
        return wrong(StatusCode::SERVICE_UNAVAILABLE, "the broker takes no connection from this address now");
    }
    let (status, value) = outcome(&Err(failure));
    let mut answer = json(status, &value);
    if status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"tidegate\""));
    }
    answer
}

/// Which pages may use the listener: pages of the listener's own origin, and pages of `allowed` origins. A program that
/// is no browser says neither an origin nor a site. Where only programs of this machine reach the listener, the host has
/// to be this machine, since a page's own host name may lead to it.
///
/// # Errors
/// The answer to a page that may not.
pub(crate) fn origin(
    headers: &HeaderMap,
    allowed: &[String],
    is_loopback: bool,
) -> Result<Option<HeaderValue>, Box<Answer>> {
    let origin = headers.get(ORIGIN);
    let text = origin.and_then(|origin| origin.to_str().ok());
    if allowed.iter().any(|one| one == "*" || Some(one.as_str()) == text) {
        return Ok(origin.cloned());
    }
    let refused = |why: &str| Err(Box::new(wrong(StatusCode::FORBIDDEN, why)));
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let is_own = |text: &str| text.split_once("://").is_some_and(|(_, authority)| Some(authority) == host);
    let is_other_site = headers.get(FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none");
    if is_other_site || origin.is_some() && !text.is_some_and(is_own) {
        return refused("pages of this origin may not use the listener: name it in `allowed_origins`");
    }
    let is_named = |host: &str| allowed.iter().any(|one| one.split_once("://").is_some_and(|(_, it)| it == host));
    if is_loopback && !host.is_some_and(|host| is_this_machine(host) || is_named(host)) {
        return refused("`Host` is not this machine: name the origin of the host in `allowed_origins`");
    }
    Ok(origin.cloned())
}

/// Whether a `Host` header names this machine by its loopback address or as `localhost`.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Forbids browsers to guess the type of an answer, and to let it run or load anything.
pub(crate) fn confine(answer: &mut Answer) {
    let headers = answer.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
}

/// Tells a browser that a page may read the answer.
pub(crate) fn allow(answer: &mut Answer, origin: HeaderValue) {
    let headers = answer.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.insert(VARY, HeaderValue::from_static("Origin"));
}

/// The answer to the preflight request of a browser.
pub(crate) fn preflight(request: &HeaderMap) -> Answer {
    let mut answer = empty(StatusCode::NO_CONTENT);
    let headers = answer.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE"));
    if let Some(wanted) = request.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_AGE));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_may_succeed_soon_says_when() {
        let of = |why: &ReadError| {
            let answer = not_read(why);
            let again = answer.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
            (answer.status().as_u16(), again)
        };
        for why in [ReadError::Busy, ReadError::Moving] {
            assert_eq!(of(&why), (503, Some("1".to_owned())), "{why}");
        }
        for why in [ReadError::Silent("b".to_owned()), ReadError::TooLong("b".to_owned())] {
            assert_eq!(of(&why), (421, None), "{why}");
        }
    }

    #[test]
    fn each_reason_has_a_status() {
        let of = |code| status_of(code).as_u16();
        assert_eq!(of(ReasonCode::Success), 200);
        assert_eq!(of(ReasonCode::NoMatchingSubscribers), 200);
        assert_eq!(of(ReasonCode::BadUserNameOrPassword), 401);
        assert_eq!(of(ReasonCode::NotAuthorized), 403);
        assert_eq!(of(ReasonCode::QuotaExceeded), 429);
        assert_eq!(of(ReasonCode::ServerShuttingDown), 503);
        assert_eq!((of(ReasonCode::UseAnotherServer), of(ReasonCode::ServerMoved)), (421, 421));
        for code in ReasonCode::ALL {
            assert_eq!(status_of(*code).is_success(), !code.is_error(), "{code:?}");
        }
    }

    #[test]
    fn a_session_that_ends_without_rights_asks_for_credentials() {
        let why = Some("user name or password was refused".to_owned());
        let code = ReasonCode::NotAuthorized;
        let answer = not_let_in(Failure::Ended(Outcome { code, why: why.clone() }));
        assert!(answer.status() == 401 && answer.headers().contains_key(WWW_AUTHENTICATE));
        assert_eq!(not_let_in(Failure::Refused(Outcome { code, why })).status(), 403);
        let kicked = Failure::Ended(Outcome { code: ReasonCode::AdministrativeAction, why: None });
        assert_eq!(not_let_in(kicked).status(), 503);
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (hyper::header::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn pages_of_other_origins_are_refused_unless_named() {
        let headers = |origin: &'static str| headers(&[("host", "broker:8080"), ("origin", origin)]);
        let allowed = ["https://shop.example".to_owned()];
        assert!(origin(&headers("https://shop.example"), &allowed, false).is_ok_and(|it| it.is_some()));
        assert!(origin(&headers("http://broker:8080"), &allowed, false).is_ok());
        for other in ["https://evil.example", "null", "https://shop.example.evil", "http://broker:80801"] {
            assert!(origin(&headers(other), &allowed, false).is_err_and(|it| it.status() == 403), "{other}");
        }
        assert!(origin(&headers("null"), &["*".to_owned()], false).is_ok());
        assert!(origin(&HeaderMap::new(), &[], false).is_ok_and(|it| it.is_none()), "a client that is no page");
    }

    #[test]
    fn a_page_of_another_site_is_refused_without_an_origin() {
        let ask = |site, allowed: &[String]| {
            origin(&headers(&[("host", "broker:8080"), ("sec-fetch-site", site)]), allowed, false).is_ok()
        };
        for (site, may) in [("cross-site", false), ("same-site", false), ("same-origin", true), ("none", true)] {
            assert_eq!(ask(site, &["https://shop.example".to_owned()]), may, "{site}");
            assert!(ask(site, &["*".to_owned()]), "{site}");
        }
        let named =
            headers(&[("host", "broker"), ("sec-fetch-site", "cross-site"), ("origin", "https://shop.example")]);
        assert!(origin(&named, &["https://shop.example".to_owned()], true).is_ok());
        let scheme = headers(&[("host", "broker"), ("sec-fetch-site", "same-site"), ("origin", "https://broker")]);
        assert!(origin(&scheme, &[], false).is_err(), "another scheme is another origin");
    }

    #[test]
    fn a_loopback_listener_takes_no_foreign_host() {
        let ask = |host, is_loopback| {
            let allowed = ["https://shop.example".to_owned()];
            origin(&headers(&[("host", host)]), &allowed, is_loopback).is_ok()
        };
        for host in
            ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "[::1]", "shop.example"]
        {
            assert!(ask(host, true), "{host}");
        }
        for host in ["evil.example:8080", "192.0.2.1", "localhost.evil", "[::2]:1", "", "[::1"] {
            assert!(!ask(host, true) && ask(host, false), "{host}");
        }
        assert!(origin(&HeaderMap::new(), &[], true).is_err(), "HTTP/1.1 demands a host");
        let rebound = headers(&[
            ("host", "evil.example:8080"),
            ("origin", "http://evil.example:8080"),
            ("sec-fetch-site", "same-origin"),
        ]);
        assert!(origin(&rebound, &[], true).is_err());
    }

    #[test]
    fn a_message_of_qos_0_is_accepted_and_not_more() {
        let of = |qos, code| published(qos, &Ok(Outcome { code, why: None })).0.as_u16();
        assert_eq!(of(QoS::AtMostOnce, ReasonCode::Success), 202);
        assert_eq!(of(QoS::AtLeastOnce, ReasonCode::Success), 200);
        assert_eq!(of(QoS::AtMostOnce, ReasonCode::NotAuthorized), 403);
    }
}
