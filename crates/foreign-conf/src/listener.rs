//! A listener of another broker while its settings are collected.

use tidegate_conversion::{Setting, Value};

/// The address of a listener has no port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address with a port")]
pub(crate) struct AddressError(String);

/// How clients of a listener speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Tls,
    WebSocket,
    SecureWebSocket,
    Quic,
}

impl Kind {
    /// Whether it has a certificate.
    pub(crate) const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::SecureWebSocket | Self::Quic)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::WebSocket => "ws",
            Self::SecureWebSocket => "wss",
            Self::Quic => "quic",
        }
    }
}

/// The clients that may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// All clients.
    Everyone,
    /// The clients that the providers accept; without others, the file of users is the only provider.
    Users,
    /// The same, and clients without a user name.
    UsersAndAnonymous,
    /// No client, for this reason.
    Refused(String),
}

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shown {
    #[default]
    No,
    Optional,
    Required,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each flag is a setting of the other broker")]
pub(crate) struct Listener {
    /// Its name there, such as `tcp.default`.
    pub(crate) name: String,
    /// The setting that opened it; `None` for a listener that exists without a setting.
    pub(crate) opened_by: Option<usize>,
    pub(crate) kind: Kind,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    /// The path of a WebSocket.
    pub(crate) path: String,
    pub(crate) certificate: Option<(usize, String)>,
    pub(crate) key: Option<(usize, String)>,
    pub(crate) authorities: Option<(usize, String)>,
    pub(crate) revoked: Option<(usize, String)>,
    /// Whether a certificate is asked for at all, and whether one is required.
    pub(crate) verifies: bool,
    pub(crate) requires: bool,
    /// Whether the common name of the certificate is the user name.
    pub(crate) names_users: bool,
    pub(crate) enabled: bool,
    /// Why it cannot be had here.
    pub(crate) closed: Option<String>,
    /// The clients that may connect, where they differ from the other listeners'.
    pub(crate) access: Option<Access>,
    pub(crate) settings: Vec<Setting>,
}

impl Listener {
    pub(crate) fn new(name: &str, kind: Kind, opened_by: Option<usize>) -> Self {
        Self {
            name: name.to_owned(),
            opened_by,
            kind,
            host: "0.0.0.0".to_owned(),
            port: None,
            path: "/mqtt".to_owned(),
            certificate: None,
            key: None,
            authorities: None,
            revoked: None,
            verifies: false,
            requires: false,
            names_users: false,
            enabled: true,
            closed: None,
            access: None,
            settings: Vec::new(),
        }
    }

    /// Closes it; the first reason is kept.
    pub(crate) fn close(&mut self, reason: impl Into<String>) {
        self.closed.get_or_insert_with(|| reason.into());
    }

    /// Takes `HOST:PORT`, `:PORT` or `PORT`.
    pub(crate) fn take_place(&mut self, text: &str, any: &str) -> Result<(), AddressError> {
        let text = text.trim();
        let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
        self.port = Some(port.parse().map_err(|_| AddressError(text.to_owned()))?);
        let host = host.trim_matches(['[', ']']);
        host.clone_into(&mut self.host);
        if host.is_empty() || host == "*" {
            any.clone_into(&mut self.host);
        }
        Ok(())
    }

    /// Its address as ours writes it.
    pub(crate) fn address(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let port = self.port.unwrap_or_default();
        match self.kind {
            Kind::Tcp => format!("{host}:{port}"),
            Kind::Tls => format!("mqtts://{host}:{port}"),
            Kind::WebSocket => format!("ws://{host}:{port}{}", self.path),
            Kind::SecureWebSocket => format!("wss://{host}:{port}{}", self.path),
            Kind::Quic => format!("quic://{host}:{port}"),
        }
    }

    /// The name that ours gets.
    pub(crate) fn our_name(&self) -> String {
        format!("{}-{}", self.kind.word(), self.port.unwrap_or_default())
    }

    /// Whether clients show a certificate.
    pub(crate) const fn shown(&self) -> Shown {
        match (self.verifies, self.requires) {
            (false, _) => Shown::No,
            (true, false) => Shown::Optional,
            (true, true) => Shown::Required,
        }
    }

    /// A part that it needs and lacks.
    pub(crate) fn lacks(&self) -> Option<String> {
        if self.port.is_none() {
            return Some("it has no address".to_owned());
        }
        if self.kind.is_secure() && (self.certificate.is_none() || self.key.is_none()) {
            return Some("it has no certificate and key".to_owned());
        }
        if self.shown() != Shown::No && self.authorities.is_none() {
            return Some("it asks for certificates, and no file of authorities is named".to_owned());
        }
        if self.names_users && self.shown() != Shown::Required {
            return Some("certificates name its users, and it does not require them".to_owned());
        }
        None
    }

    /// Its settings here.
    pub(crate) fn own_settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        let mut file = |key, place: &Option<(usize, String)>| {
            settings.extend(place.as_ref().map(|(line, path)| Setting::new(key, Value::Text(path.clone()), *line)));
        };
        if self.kind.is_secure() {
            file("certificate", &self.certificate);
            file("key", &self.key);
        }
        if self.kind.is_secure() && self.shown() != Shown::No {
            file("client_ca", &self.authorities);
            file("crl", &self.revoked);
            let line = self.authorities.as_ref().map(|(line, _)| *line);
            let word = if self.requires { "required" } else { "optional" };
            let mut set = |key, text: &str| settings.push(Setting { key, value: Value::Text(text.to_owned()), line });
            set("client_certificate", word);
            if self.revoked.is_some() {
                set("crl_outdated", "refuse");
            }
            if self.names_users {
                set("identity_as", "username");
            }
        }
        settings.extend(self.settings.iter().cloned());
        settings
    }
}
