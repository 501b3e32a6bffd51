//! The TLS of a listener of theirs, while it is put together.

use tidegate_conversion::{Setting, Value};

use crate::lines::Line;
use crate::values::{Invalid, truth};

type NumberedLine<'a> = Option<(usize, Line<'a>)>;

/// Settings of TLS, each with its line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls<'a> {
    certificate: NumberedLine<'a>,
    key: NumberedLine<'a>,
    authorities: NumberedLine<'a>,
    folder: NumberedLine<'a>,
    revoked: NumberedLine<'a>,
    newest: NumberedLine<'a>,
    required: NumberedLine<'a>,
    identity: NumberedLine<'a>,
    /// Whether it is for pre-shared keys.
    has_hint: bool,
    /// A setting without a counterpart, without which the listener would be more open.
    pub(crate) beyond: Option<&'static str>,
}

/// Whether a text begins with the 40 digits of a SHA-1.
fn is_hash(text: &str) -> bool {
    text.bytes().take(40).filter(u8::is_ascii_hexdigit).count() == 40
}

impl<'a> Tls<'a> {
    /// Processes a line; returns the difference in the result.
    ///
    /// # Errors
    ///
    /// When Mosquitto does not start with it.
    pub(crate) fn take(&mut self, index: usize, line: Line<'a>) -> Result<Option<&'static str>, Invalid> {
        let here = Some((index, line));
        if self.has_hint && ["cafile", "certfile"].contains(&line.key) {
            return Err(Invalid::TwoProofs);
        }
        match line.key {
            "certfile" => self.certificate = here,
            "keyfile" => self.key = here,
            "cafile" => self.authorities = here,
            "capath" => self.folder = here,
            "crlfile" => self.revoked = here,
            "require_certificate" => self.required = here.filter(|_| truth(&line) == Ok(true)),
            "use_identity_as_username" => self.identity = here.filter(|_| truth(&line) == Ok(true)),
            "use_subject_as_username" if truth(&line)? => {
                self.beyond = Some("the whole subject of a certificate cannot be a user name here");
            }
            "tls_version" => match line.word() {
                "tlsv1.3" => self.newest = here,
                "tlsv1.2" => {}
                "tlsv1.1" | "tlsv1" => return Ok(Some("TLS 1.2 is the least that is spoken here")),
                other => return Err(Invalid::TlsVersion(other.to_owned())),
            },
            "psk_hint" => {
                self.has_hint = true;
                self.beyond = Some("pre-shared keys are not spoken here");
            }
            "tls_engine_kpass_sha1" if !is_hash(line.text()) => return Err(Invalid::Hash),
            "tls_engine" => self.beyond = Some("keys of an OpenSSL engine cannot be used here"),
            "tls_keyform" if line.word() == "engine" => {
                self.beyond = Some("keys of an OpenSSL engine cannot be used here");
            }
            _ => {}
        }
        Ok(None)
    }

    /// Why a listener with it cannot be had here.
    pub(crate) fn lacks(&self) -> Option<&'static str> {
        if self.beyond.is_some() {
            return self.beyond;
        }
        match (self.certificate.is_some(), self.key.is_some()) {
            (true, true) => {}
            (false, false) if self.required.is_none() && self.identity.is_none() && !self.is_meant() => return None,
            (false, false) => return Some("it asks for TLS, and has neither `certfile` nor `keyfile`"),
            (true, false) => return Some("it has `certfile` without `keyfile`"),
            (false, true) => return Some("it has `keyfile` without `certfile`"),
        }
        if self.required.is_some() && self.authorities.is_none() {
            return Some("it asks for certificates, and `cafile` names no authorities for them (`capath` is not read)");
        }
        if self.identity.is_some() && self.required.is_none() {
            return Some("`use_identity_as_username` without `require_certificate` refuses all clients");
        }
        None
    }

    fn is_meant(&self) -> bool {
        self.authorities.is_some() || self.folder.is_some() || self.revoked.is_some()
    }

    /// Whether the listener uses TLS.
    pub(crate) fn is_on(&self) -> bool {
        self.certificate.is_some() && self.key.is_some()
    }

    /// Whether a certificate says who a client is.
    pub(crate) fn names_users(&self) -> bool {
        self.required.is_some() && self.identity.is_some()
    }

    /// Our keys with their values.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        if !self.is_on() {
            return Vec::new();
        }
        let own = |key, place: NumberedLine<'_>| {
            place.map(|(at, line)| Setting::new(key, Value::Text(line.text().into()), at))
        };
        let word = |key, value: &str, place: NumberedLine<'_>| {
            place.map(|(at, _)| Setting::new(key, Value::Text(value.into()), at))
        };
        let server =
            [own("certificate", self.certificate), own("key", self.key), word("tls_minimum", "1.3", self.newest)];
        let clients = [
            word("client_certificate", "required", self.required),
            own("client_ca", self.authorities),
            own("crl", self.revoked),
            // OpenSSL refuses all clients of an authority whose revocation list is outdated.
            word("crl_outdated", "refuse", self.revoked),
            word("identity_as", "username", self.identity),
        ];
        let clients = clients.into_iter().filter(|_| self.required.is_some());
        server.into_iter().chain(clients).flatten().collect()
    }

    /// Lines without effect here, since no certificates are requested.
    pub(crate) fn idle(&self) -> impl Iterator<Item = usize> {
        let idle = [self.authorities, self.revoked, self.folder];
        let asks = self.required.is_some();
        idle.into_iter().flatten().filter(move |_| !asks).map(|(index, _)| index)
    }
}
