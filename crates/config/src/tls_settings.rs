//! The TLS keys of a listener: their words, their common checks, and the node's settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use tidegate_node::{
    CertificateFiles, ClientCertificates, IdentityField, IdentityRole, ListenAddress, OutdatedLists, TlsSettings,
    TlsVersion,
};

use tidegate_node::proxy_protocol::Network;

use super::sections::Listener;
use super::value::{Problem, words};
use tidegate_certificates::development;

words! {
    ClientCertificates {
        ClientCertificates::None => "none", "clients are not asked for one";
        ClientCertificates::Optional => "optional", "clients may show one, and it must be valid";
        ClientCertificates::Required => "required", "clients without a valid one do not get in";
    }
}

words! {
    OutdatedLists {
        OutdatedLists::Accept => "accept", "it still counts, with a warning in the log";
        OutdatedLists::Refuse => "refuse", "clients of its authority are refused until there is a newer one";
    }
}

words! {
    IdentityField {
        IdentityField::CommonName => "cn", "the common name of the subject";
        IdentityField::SanDns => "san-dns", "the first DNS name among the alternative names";
        IdentityField::SanEmail => "san-email", "the first email address among them";
        IdentityField::SanUri => "san-uri", "the first URI among them";
    }
}

words! {
    IdentityRole {
        IdentityRole::None => "none", "nothing but a key to the door";
        IdentityRole::Username => "username", "the user name";
        IdentityRole::ClientId => "client-id", "the client id";
    }
}

words! {
    TlsVersion {
        TlsVersion::Tls12 => "1.2", "TLS 1.2 and 1.3";
        TlsVersion::Tls13 => "1.3", "TLS 1.3 alone";
    }
}

impl Listener {
    /// The use of the identity of a client's certificate or pre-shared key.
    pub fn identity_role(&self) -> IdentityRole {
        if self.psk_file.is_some() { IdentityRole::Username } else { self.identity_as }
    }
}

/// The settings of TLS listeners, by their position.
pub fn of_listeners(listeners: &[Listener]) -> BTreeMap<usize, TlsSettings> {
    let listeners = listeners.iter().enumerate().filter(|(_, listener)| listener.address.is_tls());
    listeners.map(|(position, listener)| (position, settings(listener))).collect()
}

/// The networks of the proxies of listeners with the PROXY protocol, by their position.
pub fn proxies(listeners: &[Listener]) -> BTreeMap<usize, Vec<Network>> {
    let listeners = listeners.iter().enumerate().filter(|(_, listener)| listener.proxy_protocol);
    listeners.map(|(position, listener)| (position, listener.proxy_networks.0.clone())).collect()
}

/// The positions of Unix sockets that only the broker's user may open.
pub fn owner_only(listeners: &[Listener]) -> BTreeSet<usize> {
    let listeners = listeners.iter().enumerate().filter(|(_, listener)| listener.owner_only);
    listeners.map(|(position, _)| position).collect()
}

/// The origins of pages that may use a listener, by its position, where some are named.
pub fn allowed_origins(listeners: &[Listener]) -> BTreeMap<usize, Vec<String>> {
    let listeners = listeners.iter().enumerate().filter(|(_, listener)| !listener.allowed_origins.0.is_empty());
    listeners.map(|(position, listener)| (position, listener.allowed_origins.0.clone())).collect()
}

/// Errors in the key of one listener about its file.
pub(crate) fn file_problems(listener: &Listener) -> Vec<(&'static str, Problem)> {
    if !listener.owner_only || matches!(listener.address, ListenAddress::Unix(_)) {
        return Vec::new();
    }
    let text = format!("listener `{}` has `owner_only` and is no Unix socket", listener.name);
    vec![("owner_only", Problem::new(text).hint("set `address = \"unix:/PATH\"`, or leave the key out"))]
}

/// Errors in the keys of one listener about proxies, each with its key.
pub(crate) fn proxy_problems(listener: &Listener) -> Vec<(&'static str, Problem)> {
    let name = &listener.name;
    let problem = |key, text: String, hint: &str| vec![(key, Problem::new(text).hint(hint))];
    match (listener.proxy_protocol, listener.proxy_networks.0.is_empty()) {
        (true, _) if listener.address.host_port().is_none() => {
            let text = format!("listener `{name}` is a Unix socket, and the PROXY protocol is not spoken there");
            problem("proxy_protocol", text, "let the proxy connect over TCP, to an address on loopback")
        }
        (true, _) if matches!(listener.address, ListenAddress::Quic(_)) => {
            let text = format!("listener `{name}` speaks QUIC, and the PROXY protocol is not spoken over UDP");
            problem("proxy_protocol", text, "let clients reach this listener directly; QUIC follows moving clients")
        }
        (true, _) if listener.address.is_http() || listener.address.is_coap() => {
            let spoken = if listener.address.is_coap() { "CoAP" } else { "HTTP" };
            let text = format!("listener `{name}` speaks {spoken}, and the PROXY protocol is not spoken there");
            problem("proxy_protocol", text, "let clients reach this listener directly")
        }
        (true, true) => {
            let text = format!("listener `{name}` has `proxy_protocol` and names no proxy");
            problem("proxy_protocol", text, "add `proxy_networks = [\"10.0.0.0/8\"]` with the addresses of the proxies")
        }
        (false, false) => {
            let text = format!("listener `{name}` has `proxy_networks` and does not speak the PROXY protocol");
            problem("proxy_networks", text, "add `proxy_protocol = true`, or leave the networks out")
        }
        _ => Vec::new(),
    }
}

/// Whether a listener speaks QUIC, which is always encrypted, to this machine only, and has no certificate of its own.
pub(crate) fn takes_development_certificate(listener: &Listener) -> bool {
    let has_none = listener.certificate.0.is_empty() && listener.key.0.is_empty();
    has_none && listener.address.is_local() && matches!(listener.address, ListenAddress::Quic(_))
}

/// True if a listener takes the certificate for development.
pub fn needs_development_certificate(listeners: &[Listener]) -> bool {
    listeners.iter().any(takes_development_certificate)
}

fn settings(listener: &Listener) -> TlsSettings {
    let pairs = listener.certificate.0.iter().zip(&listener.key.0);
    let pairs = pairs.map(|(certificate, key)| (certificate.clone(), key.clone()));
    let development = takes_development_certificate(listener).then(development::directory).flatten();
    TlsSettings {
        certificates: pairs
            .chain(development.map(|directory| development::server_files(&directory)))
            .map(|(certificate, key)| CertificateFiles { certificate, key })
            .collect(),
        client_certificates: listener.client_certificate,
        client_ca: listener.client_ca.as_ref().map(PathBuf::from),
        crl: listener.crl.0.clone(),
        crl_outdated: listener.crl_outdated,
        identity_field: listener.identity_from,
        identity_role: listener.identity_as,
        minimum_version: listener.tls_minimum,
        max_handshakes: listener.max_handshakes,
    }
}

/// The problems of one listener with its pre-shared keys, each with the key that is to blame.
pub(crate) fn dtls_problems(listener: &Listener) -> Vec<(&'static str, Problem)> {
    let name = &listener.name;
    let mut found = Vec::new();
    let mut add = |key, text: String, hint: &str| found.push((key, Problem::new(text).hint(hint)));
    let has_keys = listener.psk_file.is_some();
    match (&listener.address, has_keys) {
        (ListenAddress::Coaps(_), false) => {
            let text = format!("listener `{name}` speaks DTLS and has no keys of clients");
            add("address", text, "add `psk_file = \"FILE\"` with a line IDENTITY:KEY for each client");
        }
        (ListenAddress::Coaps(_), true) | (_, false) => {}
        (_, true) => {
            let text = format!("listener `{name}` has `psk_file` and does not speak DTLS");
            add("psk_file", text, "begin its address with coaps://");
        }
    }
    if has_keys && listener.identity_as != IdentityRole::None {
        let text = format!("listener `{name}` has `identity_as`, and the identity of a key is the user name");
        add("identity_as", text, "leave it out");
    }
    found
}

/// Errors in the keys of one listener together, each with its key.
pub(crate) fn problems(listener: &Listener) -> Vec<(&'static str, Problem)> {
    let mut found = Vec::new();
    let mut add = |key, text: String, hint: &str| found.push((key, Problem::new(text).hint(hint)));
    let name = &listener.name;
    let (certificates, keys) = (listener.certificate.0.len(), listener.key.0.len());
    let asks = listener.client_certificate != ClientCertificates::None;
    if asks && listener.address.is_http() {
        let text = format!("listener `{name}` speaks HTTP, where clients say who they are by a password or a token");
        add("client_certificate", text, "leave it out");
    }
    if !listener.allowed_origins.0.is_empty() && !listener.address.is_http() && !listener.address.is_websocket() {
        let text = format!("listener `{name}` has `allowed_origins` and speaks neither HTTP nor WebSocket");
        add(
            "allowed_origins",
            text,
            "begin its address with ws://, wss://, http:// or https://, or leave the origins out",
        );
    }
    if !listener.address.is_tls() {
        let given = [
            ("certificate", certificates > 0),
            ("key", keys > 0),
            ("client_ca", listener.client_ca.is_some()),
            ("client_certificate", asks),
        ];
        if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
            let text = format!("listener `{name}` has `{key}` and does not speak TLS");
            add(key, text, "begin its address with mqtts://, wss://, quic:// or https://");
        }
        return found;
    }
    if takes_development_certificate(listener) {
        if development::directory().is_none() {
            let text = format!("listener `{name}` has no certificate, and there is no place for one for development");
            add("address", text, "set HOME, or add `certificate = \"FILE\"` and `key = \"FILE\"`");
        }
    } else if certificates == 0 {
        let text = format!("listener `{name}` speaks TLS and has no certificate");
        add(
            "address",
            text,
            "add `certificate = \"FILE\"` and `key = \"FILE\"`; `tidegate cert dev` makes a pair to try it",
        );
    } else if certificates != keys {
        let text = format!("listener `{name}` has {certificates} of `certificate` and {keys} of `key`");
        add("certificate", text, "give each certificate its key, in the same order");
    }
    if asks && listener.client_ca.is_none() {
        let text = format!("listener `{name}` asks clients for a certificate and trusts no authority");
        add("client_certificate", text, "add `client_ca = \"FILE\"` with the authorities");
    }
    if !asks {
        let useless = [
            ("client_ca", listener.client_ca.is_some()),
            ("crl", !listener.crl.0.is_empty()),
            ("crl_outdated", listener.crl_outdated != OutdatedLists::Accept),
            ("identity_as", listener.identity_as != IdentityRole::None),
        ];
        if let Some((key, _)) = useless.into_iter().find(|(_, given)| *given) {
            let text = format!("listener `{name}` has `{key}` and does not ask clients for a certificate");
            add(key, text, "add `client_certificate = \"required\"` or `\"optional\"`");
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::source::FileText;
    use crate::{Config, Inputs};

    use super::*;

    fn load(listener: &str) -> Result<Config, String> {
        let text = format!("[[listener]]\nallow_anonymous = true\n{listener}\n");
        let file = Some(FileText::new("t.toml", text));
        Config::load(Inputs { file, ..Inputs::default() }).map_err(|findings| findings.to_string())
    }

    #[test]
    fn every_key_reaches_the_node() {
        let config = load(
            "address = \"wss://0.0.0.0:443\"\ncertificate = [\"a.pem\", \"b.pem\"]\nkey = [\"a.key\", \"b.key\"]\n\
             client_certificate = \"optional\"\nclient_ca = \"ca.pem\"\ncrl = \"crl.pem\"\ncrl_outdated = \"refuse\"\nidentity_from = \"san-uri\"\n\
             identity_as = \"client-id\"\ntls_minimum = \"1.3\"\nmax_handshakes = 7\nproxy_protocol = true\n\
             proxy_networks = [\"10.0.0.0/8\", \"::1\"]\nallowed_origins = \"https://shop.example\"",
        )
        .unwrap();
        let tls = &of_listeners(&config.listeners)[&0];
        let pairs: Vec<_> = tls
            .certificates
            .iter()
            .map(|files| (files.certificate.to_str().unwrap(), files.key.to_str().unwrap()))
            .collect();
        assert_eq!(pairs, [("a.pem", "a.key"), ("b.pem", "b.key")]);
        assert_eq!(
            (tls.client_certificates, tls.identity_field),
            (ClientCertificates::Optional, IdentityField::SanUri)
        );
        assert_eq!((tls.identity_role, tls.minimum_version), (IdentityRole::ClientId, TlsVersion::Tls13));
        assert_eq!((tls.client_ca.as_deref(), tls.crl.len()), (Some(std::path::Path::new("ca.pem")), 1));
        assert_eq!((tls.max_handshakes, tls.crl_outdated), (7, OutdatedLists::Refuse));
        assert_eq!(
            proxies(&config.listeners)[&0].iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.0.0.0/8", "::1/128"]
        );
        assert_eq!(allowed_origins(&config.listeners)[&0], ["https://shop.example"]);
    }

    #[test]
    fn conflicting_keys_are_reported_at_their_line() {
        let tls = "address = \"mqtts://0.0.0.0:8883\"\n";
        let with = "address = \"mqtts://0.0.0.0:8883\"\ncertificate = \"a\"\nkey = \"a\"\n";
        for (keys, line, part) in [
            (tls.to_owned(), 3, "speaks TLS and has no certificate"),
            (format!("{tls}certificate = [\"a\", \"b\"]\nkey = \"a\""), 4, "has 2 of `certificate` and 1 of `key`"),
            ("address = \"1883\"\nkey = \"a\"".to_owned(), 4, "has `key` and does not speak TLS"),
            (format!("{with}client_certificate = \"required\""), 6, "trusts no authority"),
            (format!("{with}client_ca = \"a\""), 6, "does not ask clients for a certificate"),
            (format!("{with}identity_as = \"username\""), 6, "does not ask clients for a certificate"),
            (format!("{with}crl = \"a\""), 6, "does not ask clients for a certificate"),
            (format!("{with}client_certificate = \"always\""), 6, "must be \"none\", \"optional\" or \"required\""),
            (format!("{with}tls_minimum = \"1.1\""), 6, "\"1.2\" or \"1.3\""),
            ("address = \"1883\"\nproxy_protocol = true".to_owned(), 4, "names no proxy"),
            ("address = \"1883\"\nproxy_networks = \"::1\"".to_owned(), 4, "does not speak the PROXY protocol"),
            ("address = \"1883\"\nproxy_networks = \"10.0.0.1/8\"".to_owned(), 4, "the network is 10.0.0.0/8"),
            ("address = \"unix:/x\"\nproxy_protocol = true".to_owned(), 4, "is a Unix socket"),
            ("address = \"1883\"\nowner_only = true".to_owned(), 4, "is no Unix socket"),
            ("address = \"1883\"\nallowed_origins = \"*\"".to_owned(), 4, "speaks neither HTTP nor WebSocket"),
            ("address = \"quic://0.0.0.0:1\"".to_owned(), 3, "speaks TLS and has no certificate"),
            ("address = \"quic://1\"\nproxy_protocol = true".to_owned(), 4, "not spoken over UDP"),
            ("address = \"coap://1\"\nproxy_protocol = true".to_owned(), 4, "speaks CoAP"),
            ("address = \"coap://1\"\npsk_file = \"keys\"".to_owned(), 4, "does not speak DTLS"),
        ] {
            let said = load(&keys).map(drop).unwrap_err();
            assert!(said.contains(part) && said.contains(&format!("t.toml:{line}:")), "{keys}\n{said}");
        }
    }
}
