//! The address of the API server, its authorities, and the manager's credentials.

mod kubeconfig;
mod service_account;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::error::KubernetesError;
use super::settings::Settings;

/// Largest file with credentials, bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// Everything that a client needs to be let in.
#[derive(Debug)]
pub(super) struct Access {
    /// `https://HOST:PORT`, and a path where the API is below one.
    pub(super) server: String,
    /// Whose certificates the API server may have.
    pub(super) authorities: Vec<CertificateDer<'static>>,
    pub(super) identity: Identity,
    pub(super) namespace: Option<String>,
}

/// The credentials.
pub(super) enum Identity {
    /// A token in a file. It is read for each request, because a kubelet renews it.
    TokenFile(PathBuf),
    /// A token.
    Token(String),
    /// A client certificate.
    Certificate(Vec<CertificateDer<'static>>, KeyPem),
}

/// A private key as PEM.
pub(super) struct KeyPem(pub(super) Vec<u8>);

impl fmt::Debug for Identity {
    /// Leaves secrets out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TokenFile(path) => f.debug_tuple("TokenFile").field(path).finish(),
            Self::Token(_) => f.write_str("Token"),
            Self::Certificate(chain, _) => f.debug_tuple("Certificate").field(&chain.len()).finish(),
        }
    }
}

impl Access {
    /// By the kubeconfig that the settings name, else as the service account of this pod.
    pub(super) fn of(settings: &Settings) -> Result<Self, KubernetesError> {
        match &settings.kubeconfig {
            Some(path) => kubeconfig::read(path, settings.context.as_deref()),
            None => service_account::read(Path::new(service_account::DIRECTORY), |name| std::env::var(name).ok()),
        }
    }
}

impl Identity {
    /// The value of the header `Authorization`, where there is one.
    pub(super) fn bearer(&self) -> Result<Option<String>, KubernetesError> {
        match self {
            Self::TokenFile(path) => Ok(Some(format!("Bearer {}", read_text(path)?.trim()))),
            Self::Token(token) => Ok(Some(format!("Bearer {token}"))),
            Self::Certificate(..) => Ok(None),
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, KubernetesError> {
    let mut bytes = Vec::new();
    let read = tidegate_setting_file::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes));
    read.map_err(|source| KubernetesError::Read { path: path.to_owned(), source })?;
    Ok(bytes)
}

fn read_text(path: &Path) -> Result<String, KubernetesError> {
    String::from_utf8(read_file(path)?).map_err(|error| KubernetesError::Read {
        path: path.to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, error.utf8_error()),
    })
}

fn certificates(object: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, KubernetesError> {
    let tls = |problem: String| KubernetesError::Tls { object, problem };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err(tls("there is no certificate in it".to_owned())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(tls(error.to_string())),
    }
}

#[cfg(test)]
mod tests;
