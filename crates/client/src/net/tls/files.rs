//! Certificates and keys from PEM files.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Longest file of certificates or of a key, bytes.
const MAX_PEM_FILE: u64 = 64 << 20;

/// Why a client's files of TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFileError {
    /// A file or directory cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not contain the expected item.
    #[error("{} has no {item} (PEM), or a damaged one", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The expected item.
        item: &'static str,
    },
    /// A key that asks for a passphrase.
    #[error("the key in {} is encrypted: write it without a passphrase by `openssl pkey -in KEY -out NEW`", path.display())]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },
    /// An authority that cannot be used.
    #[error("certificate {number} in {} cannot be used: {reason}", file.display())]
    Authority {
        /// The file.
        file: PathBuf,
        /// Its place in the file, from 1.
        number: usize,
        /// Why.
        reason: String,
    },
    /// A certificate and a key that cannot be used together.
    #[error("the certificate in {} cannot be used with the key in {}: {reason}", certificate.display(), key.display())]
    ClientKey {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// Why.
        reason: String,
    },
    /// A certificate without its key, or the other way round.
    #[error("a {given} is of use only with a {missing}: name both")]
    Incomplete {
        /// The given file.
        given: &'static str,
        /// The missing one.
        missing: &'static str,
    },
    /// A directory without certificates.
    #[error("{} has no certificate of an authority", directory.display())]
    NoAuthority {
        /// The directory.
        directory: PathBuf,
    },
    /// The system has no trusted authorities.
    #[error("the system has no list of trusted authorities: name a file of them")]
    NoSystemRoots,
    /// Another error.
    #[error("TLS cannot be set up: {reason}")]
    Setup {
        /// Why.
        reason: String,
    },
}

/// The certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let bytes = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let missing = || TlsFileError::Missing { path: path.into(), item: "certificate" };
    found.ok().filter(|found| !found.is_empty()).ok_or_else(missing)
}

/// All certificates of the files of a directory.
pub(super) fn directory(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let failed = |source| TlsFileError::Read { path: path.into(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.is_file() {
            found.extend(certificates(&file).unwrap_or_default());
        }
    }
    Ok(found)
}

/// The private key of a file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsFileError> {
    let bytes = read(path)?;
    let encrypted = bytes.windows(9).any(|window| window == b"ENCRYPTED");
    match PrivateKeyDer::from_pem_slice(&bytes) {
        Ok(key) if !encrypted => Ok(key),
        Ok(_) | Err(Error::NoItemsFound) if encrypted => Err(TlsFileError::EncryptedKey { path: path.into() }),
        _ => Err(TlsFileError::Missing { path: path.into(), item: "private key" }),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    tidegate_setting_file::read(path, MAX_PEM_FILE).map_err(|source| TlsFileError::Read { path: path.into(), source })
}
