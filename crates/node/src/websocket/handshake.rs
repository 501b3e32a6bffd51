//! The opening handshake [RFC 6455, section 4.2]: from an HTTP request to a WebSocket that speaks MQTT.

use std::fmt::Write as _;

use data_encoding::BASE64;
use httparse::{Header, Request, Status};

use super::site::Site;

/// Longest request head, bytes. Cookies of a shared host name can make one long.
pub const HEAD_MAX: usize = 8 * 1024;
/// Most header fields in a request.
const HEADERS_MAX: usize = 64;
/// The suffix of the key before it is hashed.
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The subprotocols that are served: the name that MQTT registered, then the one of its 3.1 days.
const SUBPROTOCOLS: [&str; 2] = ["mqtt", "mqttv3.1"];

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// More bytes are needed.
    Partial,
    /// The connection is a WebSocket from the byte at `length` on; `response` is sent first.
    Accepted {
        /// Bytes of the request.
        length: usize,
        /// The response with status 101.
        response: Vec<u8>,
    },
    /// The request is refused; the connection closes after `response`.
    Refused {
        /// Why, for the log.
        refusal: Refusal,
        /// The response with a text for people.
        response: Vec<u8>,
    },
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not a request of HTTP/1.1.
    #[error("the request is not HTTP/1.1")]
    NotHttp,
    /// The request head is too long.
    #[error("the request head is longer than 8 KiB or has more than 64 fields")]
    TooLong,
    /// A method other than GET.
    #[error("the method is not GET")]
    Method,
    /// Another path than the listener's.
    #[error("the path is not the listener's")]
    Path,
    /// A page of an origin that the listener does not allow.
    #[error("pages of this origin may not connect")]
    Origin,
    /// A plain request that wants no WebSocket.
    #[error("the request asks for no WebSocket")]
    NoUpgrade,
    /// Another version than 13.
    #[error("the WebSocket version is not 13")]
    Version,
    /// No key, or not one of 16 bytes in base64.
    #[error("the WebSocket key is missing or not 16 bytes in base64")]
    Key,
    /// The subprotocol `mqtt` is not offered [MQTT-6.0.0-3].
    #[error("the subprotocol mqtt is not offered")]
    Subprotocol,
}

impl Refusal {
    fn status(self) -> &'static str {
        match self {
            Self::NotHttp | Self::Key | Self::Subprotocol => "400 Bad Request",
            Self::TooLong => "431 Request Header Fields Too Large",
            Self::Method => "405 Method Not Allowed",
            Self::Path => "404 Not Found",
            Self::Origin => "403 Forbidden",
            Self::NoUpgrade | Self::Version => "426 Upgrade Required",
        }
    }

    fn fields(self) -> &'static str {
        match self {
            Self::Method => "Allow: GET\r\n",
            Self::NoUpgrade | Self::Version => "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
            _ => "",
        }
    }

    fn advice(self, path: &str) -> String {
        match self {
            Self::NotHttp => "this port speaks MQTT over WebSocket; for plain MQTT use a tcp:// listener".into(),
            Self::TooLong => "send fewer or shorter header fields".into(),
            Self::Method => "open the WebSocket with GET".into(),
            Self::Path => format!("MQTT over WebSocket is served at {path}; put that path into the client's URL"),
            Self::Origin => "name it in `allowed_origins` of the listener".into(),
            Self::NoUpgrade => format!("this is MQTT over WebSocket: connect an MQTT client to ws://HOST:PORT{path}"),
            Self::Version => "use WebSocket version 13".into(),
            Self::Key => "send Sec-WebSocket-Key with 16 random bytes in base64".into(),
            Self::Subprotocol => "offer the subprotocol: Sec-WebSocket-Protocol: mqtt".into(),
        }
    }

    /// The whole response: the reason and a remedy, for the user of the client.
    fn response(self, path: &str) -> Vec<u8> {
        let text = format!("{self}: {}\n", self.advice(path));
        let (status, fields) = (self.status(), self.fields());
        let mut response = format!("HTTP/1.1 {status}\r\n{fields}Content-Type: text/plain; charset=utf-8\r\n");
        // Writing into a string cannot fail.
        let _ = write!(response, "Content-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len());
        response.into_bytes()
    }
}

/// Reads a request head from the beginning of `bytes`, for a listener that serves `site`.
pub fn handshake(bytes: &[u8], site: &Site) -> Handshake {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = Request::new(&mut fields);
    let head = bytes.get(..HEAD_MAX).unwrap_or(bytes);
    let outcome = match request.parse(head) {
        Ok(Status::Partial) if bytes.len() >= HEAD_MAX => Err(Refusal::TooLong),
        Ok(Status::Partial) => return Handshake::Partial,
        Ok(Status::Complete(length)) => accept(&request, site).map(|response| (length, response)),
        Err(httparse::Error::TooManyHeaders) => Err(Refusal::TooLong),
        Err(_) => Err(Refusal::NotHttp),
    };
    match outcome {
        Ok((length, response)) => Handshake::Accepted { length, response },
        Err(refusal) => Handshake::Refused { refusal, response: refusal.response(site.path()) },
    }
}

fn accept(request: &Request<'_, '_>, site: &Site) -> Result<Vec<u8>, Refusal> {
    let fields = &*request.headers;
    if request.version != Some(1) {
        return Err(Refusal::NotHttp);
    }
    if request.method != Some("GET") {
        return Err(Refusal::Method);
    }
    let target = request.path.unwrap_or_default();
    let asked = target.split_once('?').map_or(target, |(asked, _query)| asked);
    if !site.serves(asked) {
        return Err(Refusal::Path);
    }
    let upgrade = tokens(fields, "connection").any(|token| token.eq_ignore_ascii_case("upgrade"))
        && tokens(fields, "upgrade").any(|token| token.eq_ignore_ascii_case("websocket"));
    if !upgrade {
        return Err(Refusal::NoUpgrade);
    }
    // No browser sends several.
    let mut origins = values(fields, "origin");
    let origin = origins.next();
    if !site.allows(origin, value(fields, "host")) || origin.is_some() && origins.any(|other| Some(other) != origin) {
        return Err(Refusal::Origin);
    }
    if value(fields, "sec-websocket-version") != Some("13") {
        return Err(Refusal::Version);
    }
    let key = value(fields, "sec-websocket-key").ok_or(Refusal::Key)?;
    if BASE64.decode(key.as_bytes()).ok().is_none_or(|nonce| nonce.len() != 16) {
        return Err(Refusal::Key);
    }
    let subprotocol = SUBPROTOCOLS
        .into_iter()
        .find(|served| tokens(fields, "sec-websocket-protocol").any(|offered| offered == *served))
        .ok_or(Refusal::Subprotocol)?;
    Ok(format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\
         Sec-WebSocket-Protocol: {subprotocol}\r\n\r\n",
        accept_value(key)
    )
    .into_bytes())
}

/// The proof that the server understood the handshake.
fn accept_value(key: &str) -> String {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key.as_bytes());
    hash.update(ACCEPT_SUFFIX);
    BASE64.encode(&hash.digest().bytes())
}

/// The values of all fields of a name.
fn values<'a>(fields: &'a [Header<'a>], name: &'a str) -> impl Iterator<Item = &'a str> {
    fields
        .iter()
        .filter(move |field| field.name.eq_ignore_ascii_case(name))
        .filter_map(|field| std::str::from_utf8(field.value).ok())
        .map(str::trim)
}

fn value<'a>(fields: &'a [Header<'a>], name: &'a str) -> Option<&'a str> {
    values(fields, name).next()
}

/// The items of a list that may be spread over several fields.
fn tokens<'a>(fields: &'a [Header<'a>], name: &'a str) -> impl Iterator<Item = &'a str> {
    values(fields, name).flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = "GET /mqtt HTTP/1.1\r\nHost: example.org:8080\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://example.com\r\n\
        Sec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Version: 13\r\n\r\n";

    fn site() -> Site {
        Site::new("/mqtt", &[])
    }

    fn refused(request: &str) -> (Refusal, String) {
        match handshake(request.as_bytes(), &site()) {
            Handshake::Refused { refusal, response } => (refusal, String::from_utf8_lossy(&response).into_owned()),
            other => panic!("{request:?} gave {other:?}"),
        }
    }

    fn accepted(request: &str) -> (usize, String) {
        match handshake(request.as_bytes(), &site()) {
            Handshake::Accepted { length, response } => (length, String::from_utf8_lossy(&response).into_owned()),
            other => panic!("{request:?} gave {other:?}"),
        }
    }

    #[test]
    fn a_listener_may_serve_every_path() {
        for path in ["/", "/mqtt", "/ws/a?token=b"] {
            let request = REQUEST.replace("/mqtt HTTP", &format!("{path} HTTP"));
            assert!(
                matches!(handshake(request.as_bytes(), &Site::new("/*", &[])), Handshake::Accepted { .. }),
                "{path}"
            );
        }
    }

    #[test]
    fn the_example_of_the_standard_is_answered_byte_by_byte() {
        let (length, response) = accepted(&format!("{REQUEST}\u{2}\u{3}"));
        assert_eq!(length, REQUEST.len());
        let expected = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";
        assert_eq!(response, expected);
    }

    #[test]
    fn pages_of_other_origins_are_refused_if_some_are_named() {
        let of = |origin: &str, allowed: &[&str]| {
            let request = REQUEST.replace("Origin: http://example.com\r\n", origin);
            let allowed: Vec<String> = allowed.iter().map(|&one| one.to_owned()).collect();
            match handshake(request.as_bytes(), &Site::new("/mqtt", &allowed)) {
                Handshake::Accepted { .. } => None,
                Handshake::Refused { refusal, response } => {
                    Some((refusal, String::from_utf8_lossy(&response).contains("403 Forbidden")))
                }
                Handshake::Partial => panic!("the request is whole"),
            }
        };
        let shop = "Origin: https://shop.example\r\n";
        assert_eq!(of(shop, &[]), None, "all may without a list");
        assert_eq!(of(shop, &["*"]), None);
        assert_eq!(of(shop, &["https://a.example", "https://shop.example"]), None);
        for allowed in ["https://a.example", "http://shop.example", "https://shop.example.com"] {
            assert_eq!(of(shop, &[allowed]), Some((Refusal::Origin, true)), "{allowed}");
        }
        assert_eq!(of("Origin: null\r\n", &["https://shop.example"]), Some((Refusal::Origin, true)));
        assert_eq!(of("Origin: http://example.org:8080\r\n", &["https://shop.example"]), None, "its own");
        assert_eq!(of("", &["https://shop.example"]), None, "no page");
        let two = format!("{shop}Origin: https://evil.example\r\n");
        assert_eq!(of(&two, &["https://shop.example"]), Some((Refusal::Origin, true)));
    }

    #[test]
    fn every_prefix_of_a_request_waits_for_more() {
        for length in 0..REQUEST.len() {
            let outcome = handshake(&REQUEST.as_bytes()[..length], &site());
            assert_eq!(outcome, Handshake::Partial, "{length} bytes");
        }
    }

    #[test]
    fn lists_cases_and_queries_are_understood() {
        let request = REQUEST
            .replace("Upgrade: websocket", "uPGRADE: h2c, WebSocket")
            .replace("Connection: Upgrade", "Connection: keep-alive\r\nconnection: upgrade, x")
            .replace("/mqtt HTTP", "/mqtt?token=1 HTTP");
        accepted(&request);
    }

    /// [MQTT-6.0.0-4]: `mqtt` is chosen at any position; the older name only when it is the only one.
    #[test]
    fn the_subprotocol_is_mqtt_where_it_is_offered() {
        let field = "Sec-WebSocket-Protocol: mqtt";
        let both = REQUEST.replace(field, "Sec-WebSocket-Protocol: mqttv3.1, mqtt");
        assert!(accepted(&both).1.contains("Sec-WebSocket-Protocol: mqtt\r\n"));
        let two = REQUEST.replace(field, "Sec-WebSocket-Protocol: mqttv3.1\r\nSec-WebSocket-Protocol: mqtt");
        assert!(accepted(&two).1.contains("Sec-WebSocket-Protocol: mqtt\r\n"));
        let old = REQUEST.replace(field, "Sec-WebSocket-Protocol: mqttv3.1");
        assert!(accepted(&old).1.contains("Sec-WebSocket-Protocol: mqttv3.1\r\n"));
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let without = |part: &str| REQUEST.replace(part, "");
        let cases = [
            ("\u{10}\u{c}\0\u{4}MQTT".into(), Refusal::NotHttp, "400", "use a tcp:// listener"),
            (REQUEST.replace("HTTP/1.1", "HTTP/1.0"), Refusal::NotHttp, "400", "HTTP/1.1"),
            (REQUEST.replace("GET", "POST"), Refusal::Method, "405", "Allow: GET"),
            (REQUEST.replace("/mqtt HTTP", "/ HTTP"), Refusal::Path, "404", "served at /mqtt"),
            (without("Upgrade: websocket\r\n"), Refusal::NoUpgrade, "426", "ws://HOST:PORT/mqtt"),
            (without("Connection: Upgrade\r\n"), Refusal::NoUpgrade, "426", "Upgrade: websocket"),
            (REQUEST.replace("Version: 13", "Version: 8"), Refusal::Version, "426", "Version: 13"),
            (without("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), Refusal::Key, "400", "base64"),
            (REQUEST.replace("dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ="), Refusal::Key, "400", "base64"),
            (without("Sec-WebSocket-Protocol: mqtt\r\n"), Refusal::Subprotocol, "400", "Protocol: mqtt"),
            (REQUEST.replace(": mqtt\r", ": mqtts\r"), Refusal::Subprotocol, "400", "Protocol: mqtt"),
        ];
        for (request, refusal, status, advice) in cases {
            let (actual, response) = refused(&request);
            assert_eq!(actual, refusal, "{request}");
            assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
            assert!(response.contains(advice), "{response}");
            let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{response}");
        }
    }

    #[test]
    fn a_head_without_end_is_refused_at_its_limit() {
        let long = format!("GET /mqtt HTTP/1.1\r\nCookie: {}", "x".repeat(HEAD_MAX));
        assert_eq!(handshake(&long.as_bytes()[..HEAD_MAX - 1], &site()), Handshake::Partial);
        assert_eq!(refused(&long).0, Refusal::TooLong);
        let many = format!("GET /mqtt HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(refused(&many).0, Refusal::TooLong);
    }
}
