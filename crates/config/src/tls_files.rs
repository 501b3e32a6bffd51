//! The files of TLS listeners: whether they can be used, and the key that names a file with a fault.

use std::path::Path;

use tidegate_certificates::development;
use tidegate_node::TlsError;

use super::finding::Findings;
use super::origins::Origins;
use super::path::KeyPath;
use super::sections::Listener;
use super::tls_settings::{of_listeners, takes_development_certificate};
use super::value::Problem;

/// Reads the files of all TLS listeners of a configuration.
///
/// # Errors
/// The fault of each listener, at the key that names the file.
pub fn check(listeners: &[Listener], origins: &Origins) -> Result<(), Findings> {
    let mut findings = Findings::about(origins.file().cloned());
    for (index, settings) in of_listeners(listeners) {
        let Some(listener) = listeners.get(index) else { continue };
        if is_made_at_start(listener, development::directory().as_deref()) {
            continue;
        }
        let Err(error) = settings.check() else { continue };
        let key = key_of(listener, &error);
        let source = origins.source(&KeyPath { section: "listener", index, key }).clone();
        findings.push(Problem::new(format!("listener `{}`: {error}", listener.name)), source);
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// Whether the certificate of a listener does not exist yet: the broker makes one for development when it starts.
fn is_made_at_start(listener: &Listener, directory: Option<&Path>) -> bool {
    let is_missing = |directory: &Path| !development::server_files(directory).0.exists();
    takes_development_certificate(listener) && directory.is_some_and(is_missing)
}

/// Keys that name files of one listener.
const KEYS: &[&str] = &["certificate", "key", "client_ca", "crl"];

/// The key that names the file with a fault. Two keys may name one file, so the kind of the fault decides first.
fn key_of(listener: &Listener, error: &TlsError) -> &'static str {
    let Some(file) = error.file() else { return "certificate" };
    let keys: &[&'static str] = match error {
        TlsError::Key { .. } | TlsError::EncryptedKey { .. } | TlsError::Mismatch { .. } => &["key"],
        TlsError::Missing { block, .. } if block.contains("KEY") => &["key"],
        TlsError::Crl { .. } => &["crl"],
        TlsError::Missing { block, .. } if block.contains("CRL") => &["crl"],
        TlsError::Missing { .. } | TlsError::Certificate { .. } => &["certificate", "client_ca"],
        _ => KEYS,
    };
    let names = |key: &str| match key {
        "certificate" => listener.certificate.0.iter().any(|other| other == file),
        "key" => listener.key.0.iter().any(|other| other == file),
        "crl" => listener.crl.0.iter().any(|other| other == file),
        _ => listener.client_ca.as_ref().is_some_and(|authorities| Path::new(authorities) == file),
    };
    keys.iter().copied().find(|key| names(key)).unwrap_or("certificate")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use tidegate_node::TlsError;

    use super::{is_made_at_start, key_of};
    use crate::list::Paths;
    use crate::sections::Listener;
    use crate::source::FileText;
    use crate::{Config, Inputs};

    #[test]
    fn a_fault_of_a_file_has_the_line_of_its_key() {
        let text = "[[listener]]\naddress = \"mqtts://127.0.0.1:8883\"\ncertificate = \"/dev/null\"\nkey = \"/nowhere/key.pem\"\n";
        let file = Some(FileText::new("t.toml", text));
        let config = Config::load(Inputs { file, ..Inputs::default() }).unwrap();
        let findings = super::check(&config.listeners, &config.origins).unwrap_err().to_string();
        assert_eq!(
            findings,
            "error: listener `tls-8883`: /dev/null has no certificate: it needs a block `-----BEGIN CERTIFICATE-----`\n \
             --> t.toml:3:15\n  |\n3 | certificate = \"/dev/null\"\n  |               ^^^^^^^^^^^\n"
        );
    }

    #[test]
    fn a_certificate_for_development_need_not_exist() {
        let listener = |text: &str| Listener { address: text.parse().unwrap(), ..Listener::default() };
        let nowhere = Some(Path::new("/nowhere"));
        assert!(is_made_at_start(&listener("quic://127.0.0.1:14567"), nowhere));
        assert!(!is_made_at_start(&listener("quic://127.0.0.1:14567"), None));
        assert!(!is_made_at_start(&listener("mqtts://127.0.0.1:8883"), nowhere));
    }

    #[test]
    fn one_file_at_two_keys_is_named_by_the_kind_of_the_fault() {
        let one = PathBuf::from("one.pem");
        let listener =
            Listener { key: Paths(vec![one.clone()]), client_ca: Some("one.pem".to_owned()), ..Listener::default() };
        let missing = |block| TlsError::Missing { file: one.clone(), item: "item", block, found: Vec::new() };
        assert_eq!(key_of(&listener, &missing("CERTIFICATE")), "client_ca");
        assert_eq!(key_of(&listener, &missing("PRIVATE KEY")), "key");
        let unread = TlsError::Certificate { file: one.clone(), number: 1, reason: String::new() };
        assert_eq!(key_of(&listener, &unread), "client_ca");
    }
}
