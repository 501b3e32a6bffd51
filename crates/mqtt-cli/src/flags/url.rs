//! `-L`: a server, who to be there, and a topic, in one.

use tidegate_units::percent::unescape;

/// The parts of a URL such as `mqtt://user:password@host:1883/topic`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// MQTT over WebSocket.
    pub(super) web: bool,
    /// MQTT over QUIC.
    pub(super) quic: bool,
    /// Over TLS.
    pub(super) tls: bool,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// The text after the host, without the first slash.
    pub(super) topic: String,
}

/// The form of a URL, for errors.
const FORM: &str = "mqtt://[USER[:PASSWORD]@]HOST[:PORT]/TOPIC";

/// Why a URL is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UrlError {
    /// It has no scheme.
    #[error("it has the form {FORM}")]
    Form,
    /// Its scheme is another one.
    #[error("the scheme is mqtt, mqtts, ws, wss or quic: {FORM}")]
    Scheme,
    /// Its host is empty.
    #[error("it names no host: {FORM}")]
    NoHost,
    /// Its port is no 16-bit number.
    #[error("the port is a number up to 65535")]
    Port,
    /// Its user name or password has a malformed `%`-sequence, or is not UTF-8.
    #[error("'{0}' has a '%' that is not followed by two hexadecimal digits")]
    Escape(String),
}

impl Url {
    /// Reads a URL. Topics are taken as they stand; `%`-sequences count in the user name and the password only.
    pub(super) fn parse(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Form)?;
        let (web, tls) = match scheme {
            "mqtt" | "tcp" => (false, false),
            "mqtts" | "tls" | "ssl" | "quic" => (false, true),
            "ws" => (true, false),
            "wss" => (true, true),
            _ => return Err(UrlError::Scheme),
        };
        let (authority, topic) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, server) = match authority.rsplit_once('@') {
            Some((user, server)) => (Some(user), server),
            None => (None, authority),
        };
        let (username, password) = match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
            Some((name, password)) => (Some(decode(name)?), (!password.is_empty()).then(|| decode(password))),
            None => (None, None),
        };
        let (host, port) = split_port(server)?;
        if host.is_empty() {
            return Err(UrlError::NoHost);
        }
        Ok(Self {
            web,
            quic: scheme == "quic",
            tls,
            username,
            password: password.transpose()?,
            host: host.to_owned(),
            port,
            topic: topic.to_owned(),
        })
    }
}

/// `host`, `host:port`, `[address]` or `[address]:port`.
fn split_port(server: &str) -> Result<(&str, Option<u16>), UrlError> {
    let (host, port) = match server.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or(rest))),
        None => match server.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (server, None),
        },
    };
    match port.map(str::parse) {
        None => Ok((host, None)),
        Some(Ok(port)) => Ok((host, Some(port))),
        Some(Err(_)) => Err(UrlError::Port),
    }
}

/// Puts characters in the place of their `%`-sequences.
fn decode(text: &str) -> Result<String, UrlError> {
    unescape(text).ok_or_else(|| UrlError::Escape(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn every_part() {
        let url = parse("mqtt://me%40home:a:b%25@example.org:1884/a/b%20");
        assert_eq!(url.username.as_deref(), Some("me@home"));
        assert_eq!(url.password.as_deref(), Some("a:b%"));
        assert_eq!((url.host.as_str(), url.port), ("example.org", Some(1884)));
        assert_eq!(url.topic, "a/b%20");
        assert!(!url.web);
    }

    #[test]
    fn the_least() {
        let url = parse("ws://[::1]");
        assert_eq!((url.host.as_str(), url.port, url.web), ("::1", None, true));
        assert_eq!((url.username, url.password, url.topic), (None, None, String::new()));
        assert_eq!(parse("mqtt://[::1]:5/t").port, Some(5));
        assert_eq!(parse("mqtt://me@h/t").username.as_deref(), Some("me"));
    }

    #[test]
    fn over_tls() {
        let of = |text| (parse(text).web, parse(text).tls);
        assert_eq!(
            (of("mqtts://h/t"), of("wss://h/t"), of("mqtt://h/t")),
            ((false, true), (true, true), (false, false))
        );
    }

    #[test]
    fn over_quic() {
        let url = parse("quic://h/t");
        assert_eq!((url.quic, url.web, url.tls), (true, false, true));
        assert!(!parse("mqtts://h/t").quic);
    }

    #[test]
    fn invalid_urls_are_refused() {
        for text in ["", "host/topic", "http://h/t", "mqtt:///t", "mqtt://h:x/t", "mqtt://a%zz@h/t", "mqtt://a%@h/t"] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }
}
