//! The files of TLS listeners: whether they can be used, and the key that names a file with a fault.

use std::path::Path;

use super::finding::Findings;
use super::origins::Origins;
use super::path::KeyPath;
use super::sections::Listener;
use super::tls_settings::of_listeners;
use super::value::Problem;

/// Reads the files of all TLS listeners of a configuration.
///
/// # Errors
/// The fault of each listener, at the key that names the file.
pub fn check(listeners: &[Listener], origins: &Origins) -> Result<(), Findings> {
    let mut findings = Findings::about(origins.file().cloned());
    for (index, settings) in of_listeners(listeners) {
        let Some((listener, error)) = listeners.get(index).zip(settings.check().err()) else { continue };
        let key = error.file().map_or("certificate", |file| key_of(listener, file));
        let source = origins.source(&KeyPath { section: "listener", index, key }).clone();
        findings.push(Problem::new(format!("listener `{}`: {error}", listener.name)), source);
    }
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// The key that names a file.
fn key_of(listener: &Listener, file: &Path) -> &'static str {
    if listener.key.0.iter().any(|key| key == file) {
        "key"
    } else if listener.client_ca.as_ref().is_some_and(|authorities| Path::new(authorities) == file) {
        "client_ca"
    } else if listener.crl.0.iter().any(|list| list == file) {
        "crl"
    } else {
        "certificate"
    }
}

#[cfg(test)]
mod tests {
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
}
