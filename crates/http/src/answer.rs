//! Answers: statuses of reasons, errors as JSON, and pages of other origins.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::Frame;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, CONTENT_TYPE, HOST,
    HeaderValue, ORIGIN, VARY, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};
use tidegate_client::ReasonCode;
use tokio::sync::mpsc;

use crate::session::{Failure, Outcome};

/// Headers that a page of another origin may read.
const EXPOSED: &str = "ETag, X-MQTT-QoS, X-MQTT-Expiry, X-MQTT-Response-Topic, X-MQTT-Correlation-Data";
/// Seconds for which a browser remembers the allowed requests.
const PREFLIGHT_AGE: &str = "600";

/// The body of an answer.
pub(crate) enum Body {
    /// Known as a whole.
    Whole(Option<Bytes>),
    /// Events, as they come.
    Events(mpsc::Receiver<Bytes>),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Events(events) => events.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match self {
            Self::Whole(bytes) => {
                hyper::body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Events(_) => hyper::body::SizeHint::default(),
        }
    }
}

/// An answer.
pub(crate) type Answer = Response<Body>;

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Body::Whole(None));
    *answer.status_mut() = status;
    answer
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(Body::Whole(Some(format!("{value}\n").into())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// An answer to a wrong request.
pub(crate) fn wrong(status: StatusCode, why: impl AsRef<str>) -> Answer {
    json(status, &json!({ "reason": why.as_ref() }))
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
        Ok(Outcome { code, why }) | Err(Failure::Refused { code, why }) => {
            let reason = why.as_deref().unwrap_or(code.text());
            (status_of(*code), json!({ "reason_code": *code as u8, "reason": reason }))
        }
        Err(Failure::Closed) => {
            let why = "the broker has closed the connection; it is not known whether the message arrived";
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "reason": why }))
        }
        Err(Failure::Invalid(why)) => (StatusCode::BAD_REQUEST, json!({ "reason": why })),
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

/// Which pages may use the listener. A page of the listener's own origin always may; a client that is no page says no
/// origin.
///
/// # Errors
/// The answer to a page that may not.
pub(crate) fn origin(headers: &HeaderMap, allowed: &[String]) -> Result<Option<HeaderValue>, Box<Answer>> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(None) };
    let text = origin.to_str().unwrap_or_default();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let own = text.split_once("://").is_some_and(|(_, authority)| Some(authority) == host);
    if own || allowed.iter().any(|one| one == "*" || one == text) {
        return Ok(Some(origin.clone()));
    }
    let why = "pages of this origin may not use the listener: name it in `allowed_origins`";
    Err(Box::new(wrong(StatusCode::FORBIDDEN, why)))
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
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST"));
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
    fn each_reason_has_a_status() {
        let of = |code| status_of(code).as_u16();
        assert_eq!(of(ReasonCode::Success), 200);
        assert_eq!(of(ReasonCode::NoMatchingSubscribers), 200);
        assert_eq!(of(ReasonCode::BadUserNameOrPassword), 401);
        assert_eq!(of(ReasonCode::NotAuthorized), 403);
        assert_eq!(of(ReasonCode::QuotaExceeded), 429);
        assert_eq!(of(ReasonCode::ServerShuttingDown), 503);
        for code in ReasonCode::ALL {
            assert_eq!(status_of(*code).is_success(), !code.is_error(), "{code:?}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused_unless_named() {
        let headers = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("broker:8080"));
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
            headers
        };
        let allowed = ["https://shop.example".to_owned()];
        assert!(origin(&headers("https://shop.example"), &allowed).is_ok_and(|it| it.is_some()));
        assert!(origin(&headers("http://broker:8080"), &allowed).is_ok());
        for other in ["https://evil.example", "null", "https://shop.example.evil", "http://broker:80801"] {
            assert!(origin(&headers(other), &allowed).is_err_and(|it| it.status() == 403), "{other}");
        }
        assert!(origin(&headers("null"), &["*".to_owned()]).is_ok());
        assert!(origin(&HeaderMap::new(), &[]).is_ok_and(|it| it.is_none()), "a client that is no page");
    }
}
