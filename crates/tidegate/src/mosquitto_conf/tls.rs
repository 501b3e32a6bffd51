//! The TLS of a listener of theirs, while it is put together.

use super::Line;
use super::keys::truth;

/// Settings of TLS, each with its line.
#[derive(Clone, Debug, Default)]
pub(super) struct Tls<'a> {
    certificate: Option<Line<'a>>,
    key: Option<Line<'a>>,
    authorities: Option<Line<'a>>,
    revoked: Option<Line<'a>>,
    version: Option<Line<'a>>,
    required: Option<Line<'a>>,
    identity: Option<Line<'a>>,
    /// Whether there is something without which it would not be what it was, and which has no counterpart.
    pub(super) beyond_us: bool,
}

impl<'a> Tls<'a> {
    /// Takes a line.
    pub(super) fn take(&mut self, line: &Line<'a>) -> Result<(), String> {
        let place = match line.key {
            "certfile" => &mut self.certificate,
            "keyfile" => &mut self.key,
            "cafile" => &mut self.authorities,
            "crlfile" => &mut self.revoked,
            "tls_version" => &mut self.version,
            "require_certificate" => &mut self.required,
            _ => &mut self.identity,
        };
        let switch = ["require_certificate", "use_identity_as_username"].contains(&line.key);
        let on = !switch || truth(line.value)? == "true";
        *place = on.then_some(*line);
        Ok(())
    }

    /// Whether the listener speaks TLS there.
    pub(super) fn is_meant(&self) -> bool {
        self.certificate.is_some() || self.key.is_some() || self.beyond_us
    }

    /// Whether it can here.
    pub(super) fn is_whole(&self) -> bool {
        let authorities = self.required.is_none() || self.authorities.is_some();
        self.certificate.is_some() && self.key.is_some() && authorities && !self.beyond_us
    }

    /// Whether clients show certificates.
    pub(super) fn asks_for_certificates(&self) -> bool {
        self.is_whole() && self.required.is_some()
    }

    /// Whether a certificate says who a client is.
    pub(super) fn names_users(&self) -> bool {
        self.asks_for_certificates() && self.identity.is_some()
    }

    /// Our keys with their values.
    pub(super) fn settings(&self) -> Vec<(&'static str, String, Line<'a>)> {
        let own = |key, line: Option<Line<'a>>| line.map(|line| (key, line.value.to_owned(), line));
        let word = |key, value: &str, line: Option<Line<'a>>| line.map(|line| (key, value.to_owned(), line));
        let newest = self.version.filter(|line| line.value == "tlsv1.3");
        let clients = if self.asks_for_certificates() {
            [
                own("client_ca", self.authorities),
                own("crl", self.revoked),
                // OpenSSL takes nobody whose authority's list is outdated.
                word("crl_outdated", "refuse", self.revoked),
                word("client_certificate", "required", self.required),
                word("identity_as", "username", self.identity),
            ]
        } else {
            [None, None, None, None, None]
        };
        let server = [own("certificate", self.certificate), own("key", self.key), word("tls_minimum", "1.3", newest)];
        server.into_iter().chain(clients).flatten().collect()
    }

    /// Lines that say nothing here, since no certificates are asked for.
    pub(super) fn idle(&self) -> impl Iterator<Item = Line<'a>> {
        let idle = [self.authorities, self.revoked, self.identity];
        let asks = self.asks_for_certificates() || !self.is_whole();
        idle.into_iter().flatten().filter(move |_| !asks)
    }
}
