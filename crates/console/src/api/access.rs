//! Clients that may use the API: clients with the token, or without one clients on this machine that are no web page.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use tidegate_admin::ListenerToken;

use super::answers::refusal;

/// The rights of clients. `/healthz` and `/readyz` are for everybody who reaches the console. Clones have the same token.
#[derive(Clone, Default)]
pub struct Access {
    /// Replaced by a reload.
    token: Option<Arc<RwLock<ListenerToken>>>,
    /// Whether others than this machine reach the console.
    remote: bool,
    /// Whether they may read `/metrics` without the token.
    open_metrics: bool,
}

impl fmt::Debug for Access {
    /// Leaves the token out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Access");
        shown.field("token", &self.token.is_some()).field("remote", &self.remote);
        shown.field("open_metrics", &self.open_metrics).finish()
    }
}

impl Access {
    /// For a console that only this machine reaches: without a token for every process on it, but for no web page that
    /// a browser on it shows.
    pub fn local() -> Self {
        Self::default()
    }

    /// For a console that others reach: the API needs a token, metrics do unless they are open.
    pub fn remote(open_metrics: bool) -> Self {
        Self { token: None, remote: true, open_metrics }
    }

    /// The same with a token, which the API then needs in every case.
    #[must_use]
    pub fn with_token(self, token: &ListenerToken) -> Self {
        Self { token: Some(Arc::new(RwLock::new(token.clone()))), ..self }
    }

    /// Another token for a console that asks for one; returns whether it is another one.
    pub fn replace_token(&self, token: ListenerToken) -> bool {
        let Some(place) = &self.token else { return false };
        let mut place = place.write().unwrap_or_else(PoisonError::into_inner);
        let is_other = *place != token;
        *place = token;
        is_other
    }

    /// Whether a request brings the token; nothing where none is asked for.
    fn is_borne(&self, headers: &HeaderMap) -> Option<bool> {
        let token = self.token.as_ref()?.read().unwrap_or_else(PoisonError::into_inner);
        Some(bears(headers, token.as_str()))
    }

    /// Whether a request to the API is allowed.
    fn check_api(&self, headers: &HeaderMap) -> Result<(), Refused> {
        match self.is_borne(headers) {
            Some(false) => Err(Refused::NoToken),
            None if self.remote => Err(Refused::NeedsToken),
            None if is_of_browser(headers) => Err(Refused::WebPage),
            Some(true) | None => Ok(()),
        }
    }

    /// Whether the console asks for a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether a request brings the token of a console that has one.
    pub(crate) fn is_proved(&self, headers: &HeaderMap) -> bool {
        self.is_borne(headers) == Some(true)
    }

    fn check_metrics(&self, headers: &HeaderMap) -> Result<(), Refused> {
        if !self.remote || self.open_metrics {
            return Ok(());
        }
        if self.is_proved(headers) { Ok(()) } else { Err(Refused::NoToken) }
    }
}

/// Why a request is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    NoToken,
    NeedsToken,
    WebPage,
}

impl Refused {
    fn response(self) -> Response {
        let (status, text) = match self {
            Self::NoToken => (
                StatusCode::UNAUTHORIZED,
                "the header `Authorization: Bearer TOKEN` with the token of `admin.token_file` is missing or wrong",
            ),
            Self::NeedsToken => (
                StatusCode::FORBIDDEN,
                "others than this machine reach the admin address, so the API needs a token: set `admin.token_file`",
            ),
            Self::WebPage => (
                StatusCode::FORBIDDEN,
                "without `admin.token_file` the API answers programs on this machine, addressed as 127.0.0.1, [::1] or \
                 localhost, and no web pages",
            ),
        };
        let mut response = refusal(status, text);
        if self == Self::NoToken {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Whether a request brings the token. How long that takes tells nothing about it but its length.
fn bears(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let Some((scheme, given)) = given.split_at_checked(b"Bearer ".len()) else { return false };
    if !scheme.eq_ignore_ascii_case(b"Bearer ") || given.len() != token.len() {
        return false;
    }
    let differing = given.iter().zip(token.as_bytes()).fold(0, |differing, (one, other)| differing | (one ^ other));
    std::hint::black_box(differing) == 0
}

/// Whether a web page other than the console's own may be behind a request: a browser sends one on behalf of any page
/// that it shows, and a page's own host name may lead to this machine.
fn is_of_browser(headers: &HeaderMap) -> bool {
    // Browsers say whether the page that asks is the console's own, which only reads; what changes something brings an
    // Origin, too.
    let own = headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none");
    if headers.contains_key(header::ORIGIN) || !own {
        return true;
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    !is_this_machine(host)
}

/// Whether a Host header names this machine by its loopback address or as `localhost`.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(name, _)| name),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Lets requests to the API through that may be.
pub(crate) async fn guard_api(State(access): State<Access>, request: Request, next: Next) -> Response {
    match access.check_api(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.response(),
    }
}

/// Lets requests for metrics through that may be.
pub(crate) async fn guard_metrics(State(access): State<Access>, request: Request, next: Next) -> Response {
    match access.check_metrics(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn code(result: Result<(), Refused>) -> u16 {
        result.map_or_else(|refused| refused.response().status().as_u16(), |()| 200)
    }

    #[test]
    fn a_token_proves_only_where_there_is_one() {
        let bearer = headers(&[("authorization", "Bearer 0123456789abcdef")]);
        assert!(!Access::local().is_proved(&bearer));
        let access = Access::remote(false).with_token(&TOKEN.parse().unwrap());
        assert!(access.is_proved(&bearer) && !access.is_proved(&headers(&[])));
        assert!(!access.is_proved(&headers(&[("authorization", "Bearer 0123456789abcdeg")])));
    }

    #[test]
    fn local_programs_need_no_token_and_web_pages_get_nothing() {
        let access = Access::local();
        for host in ["127.0.0.1:18083", "localhost:18083", "[::1]:18083", "127.0.0.1", "LOCALHOST"] {
            assert_eq!(code(access.check_api(&headers(&[("host", host)]))), 200, "{host}");
            let page = headers(&[("host", host), ("origin", "http://evil.example")]);
            assert_eq!(code(access.check_api(&page)), 403);
            for (site, expected) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
                assert_eq!(
                    code(access.check_api(&headers(&[("host", host), ("sec-fetch-site", site)]))),
                    expected,
                    "{site}"
                );
            }
            let change =
                headers(&[("host", host), ("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:18083")]);
            assert_eq!(code(access.check_api(&change)), 403);
        }
        for host in
            ["evil.example:18083", "127.0.0.1.evil.example", "", "[::1", "192.0.2.1:18083", "localhost.evil.example"]
        {
            assert_eq!(code(access.check_api(&headers(&[("host", host)]))), 403, "{host}");
            let rebound = headers(&[("host", host), ("sec-fetch-site", "same-origin")]);
            assert_eq!(code(access.check_api(&rebound)), 403, "{host}");
        }
        assert_eq!(code(access.check_metrics(&headers(&[("host", "evil.example")]))), 200);
    }

    #[test]
    fn a_token_is_asked_for_and_nothing_else_will_do() {
        let local = Access::local().with_token(&TOKEN.parse().unwrap());
        let remote = Access::remote(false).with_token(&TOKEN.parse().unwrap());
        for access in [&local, &remote] {
            for (given, expected) in [
                ("Bearer 0123456789abcdef", 200),
                ("bearer 0123456789abcdef", 200),
                ("Bearer 0123456789abcdeF", 401),
                ("Bearer 0123456789abcde", 401),
                ("Bearer 0123456789abcdef0", 401),
                ("Bearer ", 401),
                ("Basic 0123456789abcdef", 401),
                ("", 401),
            ] {
                let given = headers(&[("host", "127.0.0.1"), ("authorization", given)]);
                assert_eq!(code(access.check_api(&given)), expected, "{given:?}");
            }
            assert_eq!(code(access.check_api(&headers(&[("host", "127.0.0.1")]))), 401);
        }
        assert_eq!(code(remote.check_metrics(&headers(&[]))), 401);
        assert_eq!(code(remote.check_metrics(&headers(&[("authorization", "Bearer 0123456789abcdef")]))), 200);
        assert_eq!(code(local.check_metrics(&headers(&[]))), 200);
    }

    #[test]
    fn a_replaced_token_holds_no_longer() {
        let access = Access::remote(false).with_token(&TOKEN.parse().unwrap());
        let served = access.clone();
        let bearer = |token: &str| headers(&[("authorization", &format!("Bearer {token}"))]);
        assert!(!access.replace_token(TOKEN.parse().unwrap()), "the same one");
        let other = "fedcba9876543210";
        assert!(access.replace_token(other.parse().unwrap()));
        assert_eq!(code(served.check_api(&bearer(TOKEN))), 401);
        assert_eq!(code(served.check_api(&bearer(other))), 200);
        assert!(!Access::local().replace_token(other.parse().unwrap()), "none is asked for");
    }

    #[test]
    fn without_a_token_others_get_only_metrics_if_configured() {
        for (open, expected) in [(true, 200), (false, 401)] {
            let access = Access::remote(open);
            assert_eq!(code(access.check_api(&headers(&[("host", "127.0.0.1")]))), 403);
            assert_eq!(code(access.check_metrics(&headers(&[]))), expected);
        }
    }

    #[test]
    fn a_token_is_not_shown() {
        assert!(!format!("{:?}", Access::local().with_token(&TOKEN.parse().unwrap())).contains(TOKEN));
    }
}
