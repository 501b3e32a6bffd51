//! Secret values are marked, and never shown.

use super::{from_file, neighbours};
use crate::loading::Loading;
use crate::overrides::Flags;
use crate::path::KeyPath;
use crate::sections::SECTIONS;
use crate::show::{Which, show};
use crate::source::Source;
use crate::value::{Kind, Raw};

/// Keys of text that holds no address with a password or a token: names, patterns, and paths of files.
const OPEN_TEXTS: &[&str] = &[
    "address",
    "allowed_origins",
    "name",
    "tenant",
    "listeners",
    "file",
    "algorithms",
    "issuer",
    "audience",
    "clients",
    "relays",
    "filter",
    "topic",
    "reasons",
    "prefix",
    "score",
    "bus_prefix",
    "sni",
    "users",
    "certificate_cn",
    "directory",
    "bus_ca",
    "bus_certificate",
    "bus_key",
    "exempt_networks",
    "banned_addresses",
    "banned_clients",
    "topics",
    "schema",
    "tables",
    "schema_type",
    "property_topics",
    "ping_factors",
    "weights",
    "banned_users",
    "client_ca",
    "response_information",
    "server_reference",
    "relay",
    "listen",
    "advertise",
    "client_address",
    "broker_ca",
    "broker_certificate",
    "broker_key",
    "client_id",
    "username",
    "ca",
    "certificate",
    "key",
    "local_listener",
    "path",
    "table",
    "tls_ca",
    "tls_certificate",
    "tls_key",
    "stream",
    "subject",
    "transactions_prefix",
    "group",
    "source",
    "measurement",
    "queue",
    "exchange",
    "routing_key",
    "bucket",
    "region",
    "prefix",
    "access_key",
    "tags",
    "headers",
    "authorization_file",
    "secret_file",
    "password_file",
    "from",
    "sql",
    "set",
    "to",
    "dead_letter",
    "dead_letter_topic",
    "rules",
    "local_username",
];

#[test]
fn every_key_of_text_is_known_to_hold_no_secret_or_is_marked() {
    for section in SECTIONS {
        for key in section.keys {
            let takes_text = matches!(key.kind, Kind::Text { .. } | Kind::Texts | Kind::Name { .. });
            let named = OPEN_TEXTS.contains(&key.name) || key.name.ends_with("_file") || key.name.ends_with("_claim");
            let path = format!("{}.{}", section.name, key.name);
            assert!(
                !takes_text || named || key.credentials,
                "{path}: mark it `credentials = true`, or add it to OPEN_TEXTS"
            );
            let word = |word| key.name.split('_').any(|part| part == word);
            let sounds_secret = ["url", "password", "passphrase", "secret", "token"].into_iter().any(word);
            let open = key.name.ends_with("_file") || !takes_text;
            assert!(!sounds_secret || open || key.credentials, "{path}: mark it `credentials = true`");
        }
    }
}

#[test]
fn no_marked_key_is_shown_with_its_secret() {
    const VALUE: &str = "mqtt://me:hunter2@host:1883/?token=t0ps3cret";
    let marked = SECTIONS.iter().flat_map(|section| section.keys.iter().map(move |key| (section, key)));
    let marked: Vec<_> = marked.filter(|(_, key)| key.credentials).collect();
    assert!(marked.len() >= 3);
    for (section, key) in marked {
        let path = KeyPath { section: section.name, index: 0, key: key.name };
        let mut loading = Loading::new(None);
        loading.config.resize(section.name, 1);
        let flag = Flags {
            set: vec![(path.to_string(), VALUE.to_owned(), format!("--set {path}={VALUE}"))],
            ..Flags::default()
        };
        loading.apply_flags(&flag);
        let shown = show(&loading.config, Which::Effective);
        assert!(shown.contains("host:1883"), "{shown}");
        loading.set(path, &Raw::Integer(4711), Source::Default);
        let all = format!("{shown}{}", loading.findings);
        for secret in ["hunter2", "t0ps3cret", "4711"] {
            assert!(!all.contains(secret), "{path}: {all}");
        }
    }
}

#[test]
fn no_file_is_so_broken_that_a_secret_is_shown() {
    let text = "[orchestrator]\nbrokers = [\n  \"a=mqtt://me:hunter2@h:1\",\n]\n[[auth]]\nkind = \"http\"\n\
                url = \"http://h/?token=t0ps3cret\"\n";
    for broken in neighbours(text) {
        if let Err(said) = from_file(&broken) {
            let tells = said.contains("hunter2") || said.contains("t0ps3cret");
            assert!(!tells, "{broken}\n{said}");
        }
    }
}
