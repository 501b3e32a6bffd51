//! Certificates, keys and revocation lists from PEM files [RFC 7468].

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use super::error::TlsError;

/// Largest file that is read, bytes. Revocation lists of large authorities have some MiB.
const FILE_MAX: u64 = 64 << 20;

/// The certificates of a file, at least one.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    all(file, "certificate", "CERTIFICATE")
}

/// The revocation lists of a file, at least one.
pub(super) fn revocation_lists(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    all(file, "revocation list", "X509 CRL")
}

/// The first private key of a file. One that other users may read is used, with a warning.
pub(super) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read(file)?;
    warn_if_exposed(file);
    match PrivateKeyDer::from_pem_slice(&bytes) {
        // Older files say it in a header, and their block looks like any other.
        Ok(_) if contains(&bytes, b"Proc-Type: 4,ENCRYPTED") => Err(TlsError::EncryptedKey { file: file.into() }),
        Ok(key) => Ok(key),
        Err(_) if contains(&bytes, b"ENCRYPTED") => Err(TlsError::EncryptedKey { file: file.into() }),
        Err(rustls::pki_types::pem::Error::NoItemsFound) => Err(missing(file, &bytes, "private key", "PRIVATE KEY")),
        Err(error) => Err(broken(file, &bytes, &error)),
    }
}

fn all<T: PemObject>(file: &Path, item: &'static str, block: &'static str) -> Result<Vec<T>, TlsError> {
    let bytes = read(file)?;
    let found: Vec<T> =
        T::pem_slice_iter(&bytes).collect::<Result<_, _>>().map_err(|error| broken(file, &bytes, &error))?;
    if found.is_empty() { Err(missing(file, &bytes, item, block)) } else { Ok(found) }
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |source| TlsError::Read { file: file.into(), source };
    let mut bytes = Vec::new();
    let opened = tidegate_setting_file::open(file).map_err(failed)?;
    opened.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(TlsError::TooLarge { file: file.into(), limit: FILE_MAX });
    }
    Ok(bytes)
}

fn broken(file: &Path, bytes: &[u8], error: &rustls::pki_types::pem::Error) -> TlsError {
    use rustls::pki_types::pem::Error;
    let reason = match error {
        Error::MissingSectionEnd { .. } => "a block has no `-----END ...-----`".to_owned(),
        Error::IllegalSectionStart { .. } => "a line that begins a block is not closed by `-----`".to_owned(),
        Error::Base64Decode(_) => "a block is no base64".to_owned(),
        // The content of a file is not repeated: it may be a key.
        _ => "it cannot be read".to_owned(),
    };
    TlsError::Pem { file: file.into(), line: line_of_fault(bytes), reason }
}

/// The line of the first fault in PEM, from 1: the beginning of a block without an end, or a line within a block that is no base64.
fn line_of_fault(bytes: &[u8]) -> Option<usize> {
    let mut begun = None;
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.starts_with(b"-----BEGIN ") {
            if begun.is_some() || !line.ends_with(b"-----") {
                return Some(begun.unwrap_or(index + 1));
            }
            begun = Some(index + 1);
        } else if line.starts_with(b"-----END ") {
            begun = None;
        } else if begun.is_some() && !line.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte)) {
            return Some(index + 1);
        }
    }
    begun
}

fn missing(file: &Path, bytes: &[u8], item: &'static str, block: &'static str) -> TlsError {
    let kinds = <(SectionKind, Vec<u8>)>::pem_slice_iter(bytes).filter_map(Result::ok);
    let found = kinds.map(|(kind, _)| name_of(kind).to_owned()).take(8).collect();
    TlsError::Missing { file: file.into(), item, block, found }
}

fn name_of(kind: SectionKind) -> &'static str {
    match kind {
        SectionKind::Certificate => "CERTIFICATE",
        SectionKind::PublicKey => "PUBLIC KEY",
        SectionKind::RsaPrivateKey => "RSA PRIVATE KEY",
        SectionKind::PrivateKey => "PRIVATE KEY",
        SectionKind::EcPrivateKey => "EC PRIVATE KEY",
        SectionKind::Crl => "X509 CRL",
        SectionKind::Csr => "CERTIFICATE REQUEST",
        _ => "something else",
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// A program that reads the key can pose as the broker.
fn warn_if_exposed(file: &Path) {
    let mode = std::fs::metadata(file).map_or(0, |data| data.mode() & 0o777);
    if mode & 0o007 != 0 {
        let mode = format!("{mode:03o}");
        tracing::warn!(file = %file.display(), mode, "other users than the broker may read this key; run `chmod 600` on it");
    }
}

/// The properties that a change of a file changes: the target of the path, its length and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    file: PathBuf,
    state: Option<(u64, u64, u64, i64, i64)>,
}

impl Stamp {
    pub(super) fn of(file: &Path) -> Self {
        // Symbolic links are followed, so that a change of their target is a change, too.
        let data = std::fs::metadata(file).ok();
        let state = data.map(|data| (data.dev(), data.ino(), data.size(), data.mtime(), data.mtime_nsec()));
        Self { file: file.into(), state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_pem_has_its_line() {
        let line = |text: &str| line_of_fault(text.as_bytes());
        assert_eq!(line("a comment\n-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"), None);
        assert_eq!(line("-----BEGIN CERTIFICATE-----\nMAA=\nM*A=\n-----END CERTIFICATE-----\n"), Some(3));
        assert_eq!(line("a comment\n-----BEGIN CERTIFICATE-----\nMAA=\n"), Some(2));
        assert_eq!(line("-----BEGIN CERTIFICATE-----\r\nMAA=\r\n-----BEGIN X-----\r\n"), Some(1));
        assert_eq!(line("-----BEGIN CERTIFICATE\nMAA=\n"), Some(1));
    }
}
