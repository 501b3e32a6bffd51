//! The operations of a running broker over HTTP, and the rights that they need.
//!
//! A client with the token of `admin.token_file` may, from anywhere. A console without a token answers this machine
//! only: the connection comes from loopback, the request names a loopback host, and it has a header that no web page of
//! another origin can send. So neither the network nor a page in a browser on this machine can ask.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use tidegate_admin::{COMMAND_HEADER, Reloaded};

use super::answers::json;
use super::changes::Operations;
use super::cluster_wide::reload_everywhere;
use super::{Access, Control};

/// The operations of a console, if it has any.
#[derive(Clone, Default)]
pub(crate) struct Offered(pub(crate) Option<Arc<dyn Operations>>);

impl fmt::Debug for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offered({})", self.0.is_some())
    }
}

/// The peer of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// `POST /api/v1/reload`: 200 when the new configuration is in force on each node that answers, 409 when it is wrong on
/// one of them, where the old one stays.
pub(crate) async fn reload<S: Control>(
    State((access, Offered(operations), source)): State<(Access, Offered, Arc<S>)>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    if let Some(reason) = refusal(&access, peer, &headers, "reload") {
        return json(StatusCode::FORBIDDEN, &Reloaded::refused(reason));
    }
    let Some(operations) = operations else {
        return json(StatusCode::NOT_FOUND, &Reloaded::refused("this broker has nothing to reload"));
    };
    match tokio::task::spawn_blocking(move || reload_everywhere(&*source, &*operations)).await {
        Ok(outcome) if outcome.applied => json(StatusCode::OK, &outcome),
        Ok(outcome) => json(StatusCode::CONFLICT, &outcome),
        Err(_) => {
            let outcome = Reloaded::refused("the reload did not come to its end; see the log");
            json(StatusCode::INTERNAL_SERVER_ERROR, &outcome)
        }
    }
}

/// Why a request is refused. A console with a token asks for it in every case.
fn refusal(access: &Access, peer: SocketAddr, headers: &HeaderMap, command: &str) -> Option<&'static str> {
    if access.has_token() {
        let reason = "the request must bring the token of `admin.token_file`";
        return (!access.is_proved(headers)).then_some(reason);
    }
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if !is_loopback(peer.ip()) {
        return Some(
            "without the token of `admin.token_file` only a connection from this machine's loopback address may ask for it",
        );
    }
    if !value(header::HOST.as_str()).is_some_and(names_loopback) {
        return Some("the request must name a loopback host, such as 127.0.0.1");
    }
    if value(COMMAND_HEADER) != Some(command) || headers.contains_key(header::ORIGIN) {
        return Some("the request must have the header `Tidegate-Command` with its command and come from no web page");
    }
    None
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether a Host header is a loopback address or `localhost`, whatever name a DNS server gives to it.
fn names_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(peer: &str, headers: &[(&'static str, &'static str)]) -> bool {
        asked_of(&Access::local(), peer, headers)
    }

    fn asked_of(access: &Access, peer: &str, headers: &[(&'static str, &'static str)]) -> bool {
        let headers =
            headers.iter().map(|(name, value)| ((*name).parse().unwrap(), (*value).parse().unwrap())).collect();
        refusal(access, peer.parse().unwrap(), &headers, "reload").is_none()
    }

    #[test]
    fn this_machine_may_ask() {
        for host in ["127.0.0.1:18083", "localhost", "[::1]:18083", "127.1.2.3"] {
            assert!(asked("127.0.0.1:5", &[("host", host), (COMMAND_HEADER, "reload")]), "{host}");
        }
        assert!(asked("[::1]:5", &[("host", "localhost:1"), (COMMAND_HEADER, "reload")]));
        assert!(asked("[::ffff:127.0.0.1]:5", &[("host", "localhost:1"), (COMMAND_HEADER, "reload")]));
    }

    #[test]
    fn a_token_is_asked_for_on_this_machine_too() {
        let access = Access::local().with_token(&"0123456789abcdef".parse().unwrap());
        let local = [("host", "127.0.0.1"), (COMMAND_HEADER, "reload")];
        assert!(!asked_of(&access, "127.0.0.1:5", &local));
        let bearer = ("authorization", "Bearer 0123456789abcdef");
        assert!(asked_of(&access, "127.0.0.1:5", &[local[0], local[1], bearer]));
        assert!(asked_of(&access, "192.0.2.1:5", &[bearer]));
    }

    #[test]
    fn no_other_client_may_and_no_web_page() {
        assert!(!asked("192.0.2.1:5", &[("host", "127.0.0.1"), (COMMAND_HEADER, "reload")]));
        assert!(!asked("127.0.0.1:5", &[("host", "127.0.0.1")]));
        assert!(!asked("127.0.0.1:5", &[("host", "127.0.0.1"), (COMMAND_HEADER, "stop")]));
        // A rebound DNS name leads to loopback.
        assert!(!asked("127.0.0.1:5", &[("host", "evil.example"), (COMMAND_HEADER, "reload")]));
        assert!(!asked("127.0.0.1:5", &[("host", "127.0.0.1.evil.example:80"), (COMMAND_HEADER, "reload")]));
        assert!(!asked("127.0.0.1:5", &[(COMMAND_HEADER, "reload")]));
        let origin = [("host", "127.0.0.1"), (COMMAND_HEADER, "reload"), ("origin", "http://127.0.0.1:18083")];
        assert!(!asked("127.0.0.1:5", &origin));
    }
}
