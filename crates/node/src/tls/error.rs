//! Why the files of a TLS listener cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use rustls::CertificateError;
use tidegate_x509::verifier::is_authority;

/// The remedy for certificates that `openssl x509 -req` issues without extensions.
pub(super) const VERSION_1: &str =
    "it is of X.509 version 1; issue one of version 3 (`openssl x509 -req -extfile FILE`)";
/// The remedy for certificates that `openssl req -x509` makes.
const AUTHORITY: &str = "it is that of an authority; issue one for its owner (`openssl req -x509 -addext basicConstraints=critical,CA:FALSE`), or add it to the file of authorities where no list of revoked certificates is used";

/// Why the certificate of a peer is not accepted. Two kinds that OpenSSL takes are named, with the remedy.
pub(crate) fn certificate_problem(reason: &CertificateError) -> String {
    match reason.to_string() {
        version if version.contains("UnsupportedCertVersion") => VERSION_1.to_owned(),
        _ if is_authority(reason) => AUTHORITY.to_owned(),
        other => other,
    }
}

/// Why the files of a TLS listener cannot be used; each error names the file and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// An address with TLS but without settings for it.
    #[error("listener {address} speaks TLS and has no certificate: give it one, with its key")]
    NoSettings {
        /// The address.
        address: String,
    },
    /// Settings of TLS for an address without.
    #[error("listener {address} has a certificate and does not speak TLS: begin its address with mqtts:// or wss://")]
    NotTls {
        /// The address.
        address: String,
    },
    /// A list of certificates that is empty.
    #[error("a TLS listener needs a certificate and its key")]
    NoCertificate,
    /// Client certificates are required, and no authority is named.
    #[error("client certificates are asked for, but no authority is trusted with them: name a file of authorities")]
    NoClientAuthority,
    /// A file cannot be read.
    #[error("cannot read {}: {source}; {}", file.display(), advice(source))]
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file that is larger than any of its kind.
    #[error("{} has more than {limit} bytes: is it the right file?", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The most that is read, bytes.
        limit: u64,
    },
    /// A file that is no PEM file.
    #[error("{}{}: not valid PEM: {reason}; convert it with `openssl`, or create it again", file.display(), place(*line))]
    Pem {
        /// The file.
        file: PathBuf,
        /// The line with the fault, from 1, where one is found.
        line: Option<usize>,
        /// The fault.
        reason: String,
    },
    /// A file lacks the expected item.
    #[error("{} has no {item}: it needs a block `-----BEGIN {block}-----`{}", file.display(), hint(found))]
    Missing {
        /// The file.
        file: PathBuf,
        /// The expected item.
        item: &'static str,
        /// The name of its PEM block.
        block: &'static str,
        /// Blocks that are there instead.
        found: Vec<String>,
    },
    /// A key that asks for a passphrase.
    #[error(
        "the key in {} is encrypted, and a broker cannot ask for a passphrase: `openssl pkey -in {0} -out FILE` writes it \
         without; keep that file readable for the broker only",
        file.display()
    )]
    EncryptedKey {
        /// The file.
        file: PathBuf,
    },
    /// A key of a kind that is not served.
    #[error("the key in {} cannot be used: {reason}; use RSA with 2048 bits or more, ECDSA P-256 or P-384, or Ed25519", file.display())]
    Key {
        /// The file.
        file: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A certificate that cannot be read.
    #[error("certificate {number} in {} cannot be used: {reason}", file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// Its place in the file, from 1.
        number: usize,
        /// The fault.
        reason: String,
    },
    /// A key that belongs to another certificate.
    #[error(
        "the key in {} does not belong to the first certificate in {}: put the server's own certificate first, or use its key",
        key.display(), certificate.display()
    )]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// A revocation list that cannot be read.
    #[error("revocation list in {} cannot be used: {reason}", file.display())]
    Crl {
        /// The file.
        file: PathBuf,
        /// The fault.
        reason: String,
    },
    /// Files that are right one by one, and do not go together.
    #[error("TLS cannot be set up: {reason}")]
    Setup {
        /// The fault.
        reason: String,
    },
}

impl TlsError {
    /// The file with the fault; `None` when it is not about a single one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Read { file, .. }
            | Self::TooLarge { file, .. }
            | Self::Pem { file, .. }
            | Self::Missing { file, .. }
            | Self::EncryptedKey { file }
            | Self::Key { file, .. }
            | Self::Certificate { file, .. }
            | Self::Crl { file, .. } => Some(file),
            Self::Mismatch { key, .. } => Some(key),
            Self::NoSettings { .. }
            | Self::NotTls { .. }
            | Self::NoCertificate
            | Self::NoClientAuthority
            | Self::Setup { .. } => None,
        }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the path; a relative one counts from where the broker was started",
        io::ErrorKind::PermissionDenied => "let the broker's user read it",
        _ => "check the path",
    }
}

fn place(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(":{line}"))
}

fn hint(found: &[String]) -> String {
    match found.first() {
        None => String::new(),
        Some(block) => format!(", and has `{block}`: are two files interchanged?"),
    }
}
